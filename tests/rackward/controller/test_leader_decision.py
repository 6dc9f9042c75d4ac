"""Decisions about leaders: what pays, what is permitted, and what happens while members change."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import Broker, TopicPartition
from placement_core.leaders import CurrentAssignment, WriterDemand, plan_leaders
from rack_traffic.writers import Writers, parse_writers
from rackward.controller.config import FollowConfig
from rackward.controller.leader_decision import (
    HOUR_SECONDS,
    Decision,
    History,
    Observation,
    Racks,
    Waiting,
    decide,
)
from rackward.groups.reading import ReadRates
from rackward.kafka import ClusterState, Reassignment
from tests.support.simulated_cluster import cluster_state

SETTLE, REST = 30.0, 600.0
FREE = FollowConfig(("*",), 0.0, 0.0, SETTLE, REST, 10**6, 1000.0)
"""Without limits."""
ROWS = [(0, 2, 4), (2, 4, 0), (4, 0, 2), (1, 3, 5), (3, 5, 1), (5, 1, 3)] * 4
ORDERS = [TopicPartition("orders", n) for n in range(24)]

Owned = Mapping[TopicPartition, str | None]
Owners = dict[str, dict[TopicPartition, str | None]]


def racks_of(owners: Mapping[str, Owned | None]) -> dict[str, Racks | None]:
    """Return the owners in the form of an observation: each partition has one reader."""
    return {
        group: None if owned is None else {tp: (rack,) for tp, rack in owned.items()}
        for group, owned in owners.items()
    }


def even(owners: Mapping[str, Owned | None], rate: float = 1e6) -> ReadRates:
    """Return rates at which each group reads ``rate`` of each partition."""
    return ReadRates(
        written=dict.fromkeys((tp for each in owners.values() for tp in each or ()), rate)
    )


def observe(
    state: ClusterState,
    owners: Mapping[str, Owned | None],
    at: float = 0.0,
    rates: ReadRates | None = None,
) -> Observation:
    return Observation(at, state, racks_of(owners), rates or even(owners))


def settled(now: Observation, config: FollowConfig = FREE) -> tuple[Observation, History]:
    """Return an observation after the settle time, with its history."""
    history = History().observed(now, config)
    later = replace(now, at=now.at + config.settle)
    return later, history.observed(later, config)


def apply(state: ClusterState, decision: Decision) -> ClusterState:
    """Return the state after the moves, each of which is for the present replicas."""
    replicas = dict(state.view.replicas)
    for move in decision.moves:
        assert replicas[move.partition] == move.before
        assert sorted(move.before) == sorted(move.after)
        replicas[move.partition] = move.after
    moved = {move.partition: move.after[0] for move in decision.moves}
    leaders = {**state.view.known_leaders, **moved}
    return replace(state, view=replace(state.view, replicas=replicas, leaders=leaders))


def random_state(rng: random.Random) -> ClusterState:
    """Return six brokers in racks a, b and c, and topics with up to three replicas."""
    topics = {
        topic: [tuple(rng.sample(range(6), rng.randint(1, 3))) for _ in range(rng.randint(1, 12))]
        for topic in ("orders", "payments", "logs")
    }
    state = cluster_state(topics)
    leaders = {
        tp: rng.choice(row) if rng.random() < 0.2 else row[0]
        for tp, row in state.view.replicas.items()
    }
    return replace(state, view=replace(state.view, leaders=leaders))


def random_owners(rng: random.Random, state: ClusterState) -> Owners:
    return {
        f"g{n}": {
            tp: rng.choice(("a", "b", "c", "elsewhere", None))
            for tp in state.view.replicas
            if rng.random() < 0.8
        }
        for n in range(rng.randint(1, 4))
    }


def random_rates(rng: random.Random, state: ClusterState, owners: Owners) -> ReadRates:
    def rates() -> dict[TopicPartition, float]:
        return {tp: rng.choice((0.0, 1.0, 500.0, 1e5, 1e6)) for tp in state.view.replicas}

    committed = {group: rates() for group in owners if rng.random() < 0.5}
    return ReadRates(rates(), committed, 60.0)


def rate_of(rates: ReadRates, group: str, tp: TopicPartition) -> float:
    """Return what a group has committed or, where that is nothing, what was written."""
    return rates.of(group)[0][tp] or rates.written[tp]


@given(st.integers())
@hypothesis.settings(max_examples=40, deadline=None)
def test_the_result_is_the_proved_optimum_without_limits(seed: int) -> None:
    rng = random.Random(seed)
    state = random_state(rng)
    owners = random_owners(rng, state)
    rates = random_rates(rng, state, owners)
    writers = parse_writers(["a=2,b=1", "logs:c=1"]) if rng.random() < 0.5 else Writers()
    config = replace(FREE, writers=writers)
    now, history = settled(observe(state, owners, rates=rates), config)
    decision = decide(now, history, config)
    after = apply(state, decision)
    assignments = [
        CurrentAssignment(
            group,
            frozenset(tp.topic for tp in racks),
            {tp: rack for tp, rack in racks.items() if rate_of(rates, group, tp)},
            {tp: rate for tp in racks if (rate := rate_of(rates, group, tp))},
        )
        for group, racks in owners.items()
    ]
    shares = writers.shares
    written: dict[str | TopicPartition, dict[str | None, float]] = {
        tp: {r: rate * share for r, share in (shares.get(tp.topic) or shares["*"]).items()}
        for tp, rate in (rates.written if shares else {}).items()
    }
    demand = WriterDemand("writers", written)

    def across(state: ClusterState, when: str) -> float:
        layout = plan_leaders(state.view, assignments=assignments, writers=[demand])
        assert layout.locality_proved
        return float(sum(getattr(e, when) for e in (*layout.consumed, *layout.produced)))

    # Elected again from the preferred leaders, as brokers do.
    preferred = {tp: row[0] for tp, row in after.view.replicas.items()}
    elected = replace(after, view=replace(after.view, leaders=preferred))
    optimum = across(state, "after")
    assert across(after, "before") == pytest.approx(optimum)
    assert across(elected, "before") == pytest.approx(optimum)
    assert decision.total - decision.best == pytest.approx(optimum)
    again = decide(replace(now, cluster=after), history, config)
    assert (again.moves, again.waiting) == ((), Waiting.LOCAL)
    assert again.local == pytest.approx(decision.best)


@given(st.integers())
@hypothesis.settings(max_examples=40, deadline=None)
def test_every_move_pays_and_is_within_all_limits(seed: int) -> None:
    rng = random.Random(seed)
    state = random_state(rng)
    in_sync = {
        tp: row[1:] if len(row) > 1 and rng.random() < 0.2 else row
        for tp, row in state.view.replicas.items()
    }
    state = replace(state, in_sync=in_sync)
    owners = random_owners(rng, state)
    rates = random_rates(rng, state, owners)
    config = replace(
        FREE,
        min_gain=rng.choice((0.0, 0.3)),
        min_rate=rng.choice((0.0, 1000.0)),
        elections_per_hour=rng.randint(1, 12),
        max_imbalance=rng.choice((0.0, 0.5, 1.0)),
    )
    now, history = settled(observe(state, owners, rates=rates), config)
    rested = rng.sample(sorted(in_sync), rng.randint(0, 3))
    elected = tuple((now.at - rng.uniform(0, 2 * REST), tp) for tp in rested)
    history = replace(history, elected=elected)
    decision = decide(now, history, config)

    assert len(decision.moves) <= max(0, config.elections_per_hour - len(elected))
    racks = state.view.racks()
    served: dict[TopicPartition, dict[str | None, float]] = {}
    for group, owned in owners.items():
        for tp, rack in owned.items():
            of_partition = served.setdefault(tp, defaultdict(float))
            of_partition[rack] += rate_of(rates, group, tp)
    for move in decision.moves:
        of_partition = served[move.partition]
        old = {move.before[0], state.view.known_leaders[move.partition]}
        gain = of_partition[racks[move.after[0]]] - min(of_partition[racks[b]] for b in old)
        assert gain > 0
        assert gain >= max(config.min_rate, config.min_gain * sum(of_partition.values()))
        assert set(in_sync[move.partition]) == set(move.before)
        assert all(now.at - at >= REST for at, tp in elected if tp == move.partition)
    after = apply(state, decision)
    sizes: tuple[dict[TopicPartition, float], ...] = (
        dict.fromkeys(in_sync, 1.0),
        {tp: sum(served.get(tp, {}).values()) for tp in in_sync},
    )
    for size in sizes:
        before, loads = (
            [
                sum(size[tp] for tp, row in each.view.replicas.items() if row[0] == broker)
                for broker in racks
            ]
            for each in (state, after)
        )
        limit = math.ceil(sum(before) / len(racks) * (1 + config.max_imbalance))
        assert max(loads) <= max(limit, *before) + 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_leaders_come_to_rest_within_their_bounds(seed: int) -> None:
    """Two groups whose members change, one of them all the time, and rates that vary by 4 %.

    One that changes faster than the settle time keeps its share of the leaders as it is.
    """
    rng = random.Random(seed)
    config = replace(FREE, min_gain=0.1, rest=200.0, elections_per_hour=60)
    state = cluster_state({"orders": ROWS, "payments": ROWS})
    payments = [TopicPartition("payments", n) for n in range(24)]
    owners: Owners = {
        "calm": {tp: rng.choice("abc") for tp in ORDERS},
        "restless": {tp: rng.choice("abc") for tp in payments},
    }
    history, times = History(), []
    for step in range(600):
        at = 5.0 * step
        if step < 300 and rng.random() < 0.05:
            owners["calm"] |= {tp: rng.choice("abc") for tp in rng.sample(ORDERS, 4)}
        owners["restless"] = {tp: rng.choice("abc") for tp in payments}
        rebalancing = rng.random() < 0.3
        rates = ReadRates({tp: 1e6 * rng.uniform(0.96, 1.0) for tp in (*ORDERS, *payments)})
        seen: dict[str, Owned | None] = {
            "calm": owners["calm"],
            "restless": None if rebalancing else owners["restless"],
        }
        now = observe(state, seen, at, rates)
        history = history.observed(now, config)
        decision = decide(now, history, config)
        history = history.after(decision, at)
        times += [(at, move.partition) for move in decision.moves]
        state = apply(state, decision)
    for at, tp in times:
        assert sum(at - HOUR_SECONDS < other <= at for other, _ in times) <= 60
        assert sum(at - config.rest < other <= at for other, p in times if p == tp) == 1
    if len(times) < 60:
        racks = state.view.racks()
        assert all(racks[state.view.known_leaders[tp]] == owners["calm"][tp] for tp in ORDERS)
    last_change = 300 * 5.0
    assert not any(tp.topic == "orders" and at > last_change + 230 for at, tp in times)


def test_former_owners_count_until_new_ones_have_settled() -> None:
    state = cluster_state({"orders": ROWS})
    owners: Owners = {"g": dict.fromkeys(ORDERS, "a")}
    config = replace(FREE, elections_per_hour=1000)
    first = observe(state, owners)
    history = History().observed(first, config)
    assert decide(first, history, config).waiting is Waiting.SETTLING
    now, history = settled(first)
    decision = decide(now, history, config)
    assert {move.after[0] for move in decision.moves} <= {0, 1}
    assert decision.gain == decision.best - decision.local == 16e6
    state = apply(state, decision)
    # A partition of broker 0 has another owner, and then the group rebalances.
    moved = ORDERS[0]
    owners["g"][moved] = "b"
    for at, racks, waiting in (
        (40.0, owners["g"], Waiting.SETTLING),
        (69.0, None, Waiting.SETTLING),
        (70.0, None, None),
    ):
        now = observe(state, {"g": racks}, at, even(owners))
        history = history.observed(now, config)
        decision = decide(now, history, config)
        assert decision.waiting is waiting, at
    assert [move.partition for move in decision.moves] == [moved]


def test_one_unstable_group_or_partition_stops_no_other() -> None:
    state = cluster_state({"orders": ROWS, "payments": ROWS})
    payments = [TopicPartition("payments", n) for n in range(24)]
    state = replace(state, in_sync={**state.in_sync, ORDERS[1]: (2, 4)})
    owners: dict[str, Owned | None] = {"g": dict.fromkeys(ORDERS, "a"), "unstable": None}
    now, history = settled(observe(state, owners))
    moved = {move.partition for move in decide(now, history, FREE).moves}
    assert moved == {tp for tp in ORDERS if state.view.replicas[tp][0] > 1} - {ORDERS[1]}
    # Its owners are known once it is stable.
    owners["unstable"] = dict.fromkeys(payments, "b")
    now, history = settled(observe(state, owners))
    assert {move.partition.topic for move in decide(now, history, FREE).moves} == {
        "orders",
        "payments",
    }


def test_a_group_that_is_not_listed_counts_for_the_settle_time() -> None:
    """Its coordinator may not respond for a moment, and other groups read the same partitions."""
    state = cluster_state({"orders": ROWS})
    owners: Owners = {"heavy": dict.fromkeys(ORDERS, "a"), "light": dict.fromkeys(ORDERS, "b")}
    rates = ReadRates(
        {}, {g: dict.fromkeys(ORDERS, 1e6 if g == "heavy" else 1e5) for g in owners}, 1
    )
    now, history = settled(observe(state, owners, rates=rates))
    now = replace(now, cluster=apply(state, decide(now, history, FREE)))
    del owners["heavy"]
    for seconds, waiting in ((1.0, Waiting.SETTLING), (30.0, Waiting.SETTLING), (31.0, None)):
        now = replace(now, at=60.0 + seconds, owners=racks_of(owners))
        history = history.observed(now, FREE)
        assert decide(now, history, FREE).waiting is waiting


def test_all_leaders_wait_while_the_cluster_changes() -> None:
    owners: Owners = {"g": dict.fromkeys(ORDERS, "a")}
    state = cluster_state({"orders": ROWS})
    now, history = settled(observe(state, owners))
    assert decide(now, history, FREE).moves
    moving = replace(state, reassignments={ORDERS[3]: Reassignment((0, 2, 4), (4,), ())})
    assert decide(replace(now, cluster=moving), history, FREE).waiting is Waiting.REASSIGNMENT
    for away in (
        cluster_state({"orders": ROWS}, down=[2]),
        replace(state, fenced=(Broker(9, "a"),)),
    ):
        gone = replace(now, at=now.at + 5, cluster=away)
        after = history.observed(gone, FREE)
        assert decide(gone, after, FREE).waiting is Waiting.BROKER_AWAY
        for seconds, waiting in ((5.0, Waiting.SETTLING), (5.0 + SETTLE, None)):
            back = replace(now, at=gone.at + seconds)
            after = after.observed(back, FREE)
            assert decide(back, after, FREE).waiting is waiting


def test_what_waits_has_its_reason() -> None:
    owners: Owners = {"g": dict.fromkeys(ORDERS, "a")}
    state = cluster_state({"orders": ROWS})
    now, history = settled(observe(state, owners))
    few = replace(FREE, elections_per_hour=5)
    decision = decide(now, history, few)
    assert len(decision.moves) == 5
    used = history.after(decision, now.at)
    for at, waiting in ((0.0, Waiting.RESTING), (REST, Waiting.ELECTIONS), (HOUR_SECONDS, None)):
        later = replace(now, at=now.at + at)
        assert decide(later, used, few).waiting is waiting
    resting = history.after(decide(now, history, FREE), now.at)
    assert decide(now, resting, FREE).waiting is Waiting.RESTING
    assert decide(now, history, replace(FREE, max_imbalance=0.0)).waiting is Waiting.BROKER_LIMIT
    behind = replace(state, in_sync=dict.fromkeys(ORDERS, (0,)))
    now = replace(now, cluster=behind)
    assert decide(now, history, FREE).waiting is Waiting.OUT_OF_SYNC
    assert decide(now, history, replace(FREE, min_rate=2e6)).waiting is Waiting.LOCAL


def test_preferred_leaders_are_elected_and_brokers_agree() -> None:
    """A leader in the right place that is not preferred is a move as well: brokers would elect
    the other. One that is preferred, but not elected, is a move without a change."""
    owners: Owners = {"g": dict.fromkeys(ORDERS[:1], "a")}
    for row, leader in (((2, 0, 4), 0), ((0, 2, 4), 2), ((2, 0, 4), 4)):
        state = cluster_state({"orders": [row]})
        state = replace(state, view=replace(state.view, leaders={ORDERS[0]: leader}))
        now, history = settled(observe(state, owners))
        (move,) = decide(now, history, FREE).moves
        assert (move.before, move.after) == (row, (0, 2, 4))
        done = replace(now, cluster=apply(state, decide(now, history, FREE)))
        assert decide(done, history, FREE).waiting is Waiting.LOCAL


def test_the_heaviest_partitions_move_first() -> None:
    owners: Owners = {"g": dict.fromkeys(ORDERS, "a")}
    rates = ReadRates({tp: 1e3 * (1 + tp.partition) for tp in ORDERS})
    now, history = settled(observe(cluster_state({"orders": ROWS}), owners, rates=rates))
    moves = decide(now, history, replace(FREE, elections_per_hour=3)).moves
    elsewhere = [tp for tp in ORDERS if ROWS[tp.partition][0] > 1]
    assert [move.partition for move in moves] == elsewhere[-3:]


def test_several_readers_of_a_partition_read_equal_parts() -> None:
    """As in a share group: two of three are in rack b."""
    state = cluster_state({"orders": [(0, 2, 4)]})
    now = observe(state, {}, rates=ReadRates({ORDERS[0]: 3e6}))
    now, history = settled(replace(now, owners={"g": {ORDERS[0]: ("a", "b", "b")}}))
    decision = decide(now, history, FREE)
    assert [move.after for move in decision.moves] == [(2, 0, 4)]
    assert (decision.local, decision.best, decision.gain) == pytest.approx((1e6, 2e6, 1e6))
