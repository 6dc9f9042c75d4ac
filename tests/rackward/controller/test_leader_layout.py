"""When the controller applies leader layouts: gain, rest, and the state of the cluster."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from placement_core import Broker, TopicPartition
from placement_core.leaders import ConsumerDemand, CurrentAssignment
from placement_core.locators import MetadataLocator
from rackward.controller.config import LeaderLayoutConfig
from rackward.controller.leader_layout import (
    MAX_REST_FACTOR,
    LayoutHistory,
    LeaderLayoutPlan,
    plan_leader_layout,
    unstable_reason,
)
from rackward.controller.lease import LeaseLostError
from rackward.groups.readers import Readers
from rackward.kafka import AdminError, ClusterState, Reassignment
from rackward.reassignment import BatchLimits, ExecutionOptions, Executor
from tests.support.simulated_cluster import SimulatedCluster, cluster_state

CONFIG = LeaderLayoutConfig(60.0, ("*",))
MINUTE = 60.0
ORDERS = frozenset({"orders"})
ROWS = [(0, 2, 4), (2, 4, 0), (4, 0, 2), (1, 3, 5), (3, 5, 1), (5, 1, 3)] * 4


def owned_in(racks: Sequence[str]) -> Readers:
    owners = {TopicPartition("orders", n): rack for n, rack in enumerate(racks)}
    return Readers(assignments=(CurrentAssignment("g", ORDERS, owners),))


def run_round(
    state: ClusterState, readers: Readers, history: LayoutHistory, now: float
) -> tuple[ClusterState, LayoutHistory, bool]:
    """Return state and history after one round at ``now``, and whether a layout was applied."""
    plan = plan_leader_layout(state, readers, MetadataLocator())
    if not history.permits(plan, CONFIG, now):
        return state, history, False
    replicas = {**state.view.replicas, **{move.partition: move.after for move in plan.moves}}
    leaders = {tp: row[0] for tp, row in replicas.items()}
    view = replace(state.view, replicas=replicas, leaders=leaders)
    return replace(state, view=view), history.after(plan, CONFIG, now), True


@pytest.mark.parametrize("seed", range(10))
def test_a_group_that_keeps_its_assignment_is_laid_out_once(seed: int) -> None:
    rng = random.Random(seed)
    state, history = cluster_state({"orders": ROWS}), LayoutHistory()
    readers = owned_in([rng.choice("abc") for _ in ROWS])
    applied = []
    for minute in range(10):
        state, history, done = run_round(state, readers, history, minute * MINUTE)
        applied.append(done)
    assert applied == [True] + [False] * 9


def test_a_group_that_assigns_anew_after_each_layout_is_left_alone_for_longer_and_longer() -> None:
    rng = random.Random(1)
    state, history, times = cluster_state({"orders": ROWS}), LayoutHistory(), []
    readers = owned_in([rng.choice("abc") for _ in ROWS])
    for minute in range(24 * 60):
        now = minute * MINUTE
        state, history, done = run_round(state, readers, history, now)
        if done:
            times.append(minute)
            readers = owned_in([rng.choice("abc") for _ in ROWS])
    rests = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert rests[:5] == [10, 20, 40, 80, 160]
    assert set(rests[5:]) == {MAX_REST_FACTOR * 10}


def test_the_rest_is_short_again_when_a_layout_has_lasted() -> None:
    plan = LeaderLayoutPlan((), before=60, after=100, partitions=100)
    flapping = LayoutHistory(0.0, 2400.0, 1.0).after(plan, CONFIG, 0.0)
    assert flapping == LayoutHistory(4800.0, 4800.0, 1.0)
    held = replace(flapping, local_share=0.6).after(plan, CONFIG, 5000.0)
    assert held == LayoutHistory(5600.0, 600.0, 1.0)


def test_a_small_gain_and_a_rest_prevent_a_layout() -> None:
    state = cluster_state({"orders": ROWS})
    moves = plan_leader_layout(state, owned_in("a" * 24), MetadataLocator()).moves
    plan = LeaderLayoutPlan(moves, before=20, after=21, partitions=24)
    assert not LayoutHistory().permits(plan, CONFIG, 0.0)
    plan = replace(plan, after=24)
    assert LayoutHistory().permits(plan, CONFIG, 0.0)
    assert not LayoutHistory().permits(replace(plan, moves=()), CONFIG, 0.0)
    assert not LayoutHistory(600.0, 600.0, 1.0).permits(plan, CONFIG, 599.0)
    assert LayoutHistory(600.0, 600.0, 1.0).permits(plan, CONFIG, 600.0)


def test_both_kinds_of_groups_are_laid_out_together() -> None:
    state = cluster_state({"orders": ROWS, "payments": ROWS})
    both = Readers(
        (ConsumerDemand("ours", frozenset({"payments"}), {"a": 1}),),
        owned_in("b" * 24).assignments,
    )
    plan = plan_leader_layout(state, both, MetadataLocator())
    assert (plan.before, plan.after, plan.partitions) == (16, 48, 48)
    # 24 leaders on six brokers, with current assignments: no broker gets more than 8.
    alone = plan_leader_layout(
        cluster_state({"orders": ROWS}), owned_in("b" * 24), MetadataLocator()
    )
    assert (alone.before, alone.after, alone.partitions) == (8, 16, 24)
    assert plan_leader_layout(state, Readers(), MetadataLocator()) == LeaderLayoutPlan()


def test_no_layout_while_the_cluster_is_not_stable() -> None:
    state = cluster_state({"orders": ROWS})
    tp = TopicPartition("orders", 3)
    assert unstable_reason(state) is None
    moving = replace(state, reassignments={tp: Reassignment((0, 2, 4), (4,), ())})
    assert unstable_reason(moving) == "reassignments_in_progress=1"
    down = cluster_state({"orders": ROWS}, down=[2])
    assert unstable_reason(down) == "brokers_down=2"
    fenced = replace(state, fenced=(Broker(9, "a"),))
    assert unstable_reason(fenced) == "brokers_down=9"
    behind = replace(state, in_sync={**state.in_sync, tp: (0, 2)})
    assert unstable_reason(behind) == "partitions_out_of_sync=1 first=orders-3"


class LeasedCluster(SimulatedCluster):
    """A cluster for which the lease is lost after ``confirmed`` changes; ``changes`` counts."""

    confirmed, changes = 1000, 0

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        self.change()
        return super().reassign(targets)

    def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, AdminError]:
        self.change()
        return super().elect_preferred_leaders(partitions)

    def change(self) -> None:
        if self.changes >= self.confirmed:
            raise LeaseLostError("lost")
        self.changes += 1


@pytest.mark.parametrize("confirmed", range(6))
def test_a_layout_ends_where_the_lease_is_lost(confirmed: int) -> None:
    """In the middle of its batches, each of which is requested and then elected."""
    state = cluster_state({"orders": ROWS})
    moves = plan_leader_layout(state, owned_in("ab" * 12), MetadataLocator()).moves[:6]
    options = ExecutionOptions(BatchLimits(partitions=2))
    cluster = LeasedCluster({move.partition: move.before for move in moves})
    Executor(moves, {}, cluster, options, lambda _: None, cluster.clock).run()
    assert cluster.changes == 6
    cluster = LeasedCluster({move.partition: move.before for move in moves})
    cluster.confirmed = confirmed
    with pytest.raises(LeaseLostError):
        Executor(moves, {}, cluster, options, lambda _: None, cluster.clock).run()
    assert cluster.changes == confirmed
    assert len(cluster.requests) == (confirmed + 1) // 2
    assert cluster.configs.settings == {}


def test_a_layout_that_was_not_elected_is_completed_by_the_next() -> None:
    state = cluster_state({"orders": ROWS})
    readers = owned_in("ab" * 12)
    plan = plan_leader_layout(state, readers, MetadataLocator())
    replicas = {**state.view.replicas, **{move.partition: move.after for move in plan.moves}}
    reordered = replace(state, view=replace(state.view, replicas=replicas))
    again = plan_leader_layout(reordered, readers, MetadataLocator())
    assert (again.before, again.after) == (plan.before, plan.after)
    assert [move.partition for move in again.moves] == [move.partition for move in plan.moves]
    cluster = SimulatedCluster({move.partition: move.after for move in again.moves})
    for move in plan.moves:
        cluster.partitions[move.partition].leader = move.before[0]
    result = Executor(
        again.moves, {}, cluster, ExecutionOptions(), lambda _: None, cluster.clock
    ).run()
    assert result.ok
    assert cluster.requests == []
    for move in plan.moves:
        assert cluster.partitions[move.partition].leader == move.after[0]
