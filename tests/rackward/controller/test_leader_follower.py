"""Following a simulated cluster, and moves that end in the middle: the lease is lost, or leaders
are not elected."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from placement_core import TopicPartition
from placement_core.cluster import Move
from placement_core.locators import MetadataLocator
from rackward.controller import leader_follower
from rackward.controller.config import FollowConfig
from rackward.controller.leader_decision import History, Observation, Waiting, decide
from rackward.controller.leader_follower import LeaderFollower
from rackward.controller.lease import LeaseLostError
from rackward.groups.host_racks import HostRacks
from rackward.groups.reading import ClusterReading, GroupReading, ReadRates, Sample
from rackward.kafka import AdminError, ClusterState
from rackward.kafka.groups import Group, GroupMember, ListedGroup
from rackward.kafka.tolerant_reader import Logs
from rackward.reassignment import BatchLimits, ExecutionOptions, Executor
from rackward.topics.pending_replicas import ElectionTimes, parse_elections
from tests.support.simulated_cluster import SimulatedCluster, cluster_state

ROWS = [(0, 2, 4), (2, 4, 0), (4, 0, 2), (1, 3, 5), (3, 5, 1), (5, 1, 3)] * 4


def moves_to_owners(state: ClusterState) -> tuple[Move, ...]:
    """Return the moves for a group whose members in the racks a and b own a partition in turn."""
    config = FollowConfig(("*",), settle=0.0)
    owners = {tp: ("ab"[tp.partition % 2],) for tp in state.view.replicas}
    now = Observation(0.0, state, {"g": owners}, ReadRates(dict.fromkeys(owners, 1e6)))
    return decide(now, History().observed(now, config), config).moves


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
def test_moves_end_where_the_lease_is_lost(confirmed: int) -> None:
    """In the middle of their batches, each of which is requested and then elected."""
    moves = moves_to_owners(cluster_state({"orders": ROWS}))[:6]
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


def test_moves_that_were_not_elected_are_completed_by_the_next() -> None:
    state = cluster_state({"orders": ROWS})
    moves = moves_to_owners(state)
    replicas = {**state.view.replicas, **{move.partition: move.after for move in moves}}
    again = moves_to_owners(replace(state, view=replace(state.view, replicas=replicas)))
    assert again == tuple(replace(move, before=move.after) for move in moves)
    cluster = SimulatedCluster({move.partition: move.after for move in again})
    for move in moves:
        cluster.partitions[move.partition].leader = move.before[0]
    result = Executor(again, {}, cluster, ExecutionOptions(), lambda _: None, cluster.clock).run()
    assert result.ok
    assert cluster.requests == []
    for move in moves:
        assert cluster.partitions[move.partition].leader == move.after[0]


@dataclass
class FakeRecords:
    """The record of elections; writing fails with ``error``."""

    elections: ElectionTimes | None = None
    error: Exception | None = None

    def write(self, records: Collection[ElectionTimes]) -> None:
        if self.error is not None:
            raise self.error
        (record,) = records
        self.elections = parse_elections(record.record())


class Following:
    """A LeaderFollower of a simulated cluster, on whose topic a group reads and a member of
    another one may. Its clock began ``booted`` seconds after 1970."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        records: FakeRecords | None = None,
        booted: float = 1e9,
        **limits: Any,
    ) -> None:
        self.records = records or FakeRecords()
        self.now, self.state = 0.0, cluster_state({"orders": ROWS})
        self.groups = [classic_group("g", "a"), classic_group("h", "b")]
        self.written = 0
        config = FollowConfig(("*",), settle=10.0, **limits)
        self.follower = LeaderFollower(
            config, MetadataLocator(), lambda: self.now, lambda: booted + self.now
        )
        monkeypatch.setattr(leader_follower, "read_cluster", lambda *_: self.reading())
        monkeypatch.setattr(leader_follower, "read_sample", lambda *_: self.sample())
        monkeypatch.setattr(leader_follower, "Executor", self.execute)
        monkeypatch.setattr(leader_follower, "CPU_SHARE", math.inf)

    def reading(self) -> ClusterReading:
        groups = [GroupReading(ListedGroup(g.id, "consumer"), 0, group=g) for g in self.groups]
        return ClusterReading(self.state, tuple(groups))

    def sample(self) -> Sample:
        self.written += 1000
        tps = list(self.state.view.replicas)
        ends, sizes = dict.fromkeys(tps, self.written), dict.fromkeys(tps, self.written * 1000)
        return Sample(Logs({}, ends, sizes), {}, self.now, self.now)

    def execute(self, moves: Sequence[Move], *_: object) -> Any:
        replicas = {**self.state.view.replicas, **{each.partition: each.after for each in moves}}
        leaders = {tp: row[0] for tp, row in replicas.items()}
        view = replace(self.state.view, replicas=replicas, leaders=leaders)
        self.state = replace(self.state, view=view)
        return SimpleNamespace(run=lambda: SimpleNamespace(failed={}, wrong_leader={}))

    def run(self, at: float) -> Any:
        """Return what the decision at this time waits for, or the number of moves."""
        self.now = at
        decision = self.follower.run_once(cast("Any", None), cast("Any", self.records))
        return decision and (decision.waiting or len(decision.moves))


def classic_group(name: str, rack: str | None, state: str = "Stable") -> Group:
    """Return a group whose only member owns a half of the partitions."""
    assignment = {"orders": range(24)[name == "h" :: 2]}
    member = GroupMember(name, None, name, "/10.0.0.1", rack, frozenset(assignment), assignment)
    return Group(name, "classic", state, "consumer", "range", None, (member,))


def test_it_measures_settles_and_moves_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rackward.controller")
    following = Following(monkeypatch)
    assert following.run(0.0) is Waiting.SETTLING
    following.groups[1] = classic_group("h", "b", "PreparingRebalance")
    moved = following.run(10.0)
    assert moved == sum(ROWS[n][0] not in ((0, 1), (2, 3))[n % 2] for n in range(24))
    assert following.run(12.0) is Waiting.SETTLING, "one group rebalances"
    following.groups[1] = classic_group("h", "b")
    assert [following.run(14.0 + n) for n in range(3)] == [Waiting.LOCAL] * 3
    status = following.follower.status
    assert status.decision is not None
    # 1000 records of a kilobyte in each of 24 partitions in ten seconds.
    assert status.decision.total == status.decision.local == pytest.approx(24 * 1e5)
    assert (status.elections, status.decisions, status.layouts) == (moved, 6, 1)
    lines = [record.getMessage().split()[1:3] for record in caplog.records]
    assert lines == [
        ["decision=wait", "reason=settling"],
        ["decision=move", f"moves={moved}"],
        ["decision=wait", "reason=settling"],
        ["decision=wait", "reason=local"],
    ]


def test_members_that_send_no_rack_have_that_of_their_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    racks = HostRacks.parse({"10.0.0.0/24": "c"}, "mapping")
    following = Following(monkeypatch, host_racks=racks)
    following.groups = [classic_group("g", None), classic_group("h", "b")]
    following.run(0.0)
    assert following.run(10.0) == sum(ROWS[n][0] not in ((4, 5), (2, 3))[n % 2] for n in range(24))


def test_a_controller_that_stood_by_settles_and_counts_its_elections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    following = Following(monkeypatch)
    following.run(0.0)
    moved = following.run(10.0)
    following.follower.stand_by()
    assert following.follower.status.decision is None
    following.groups = [classic_group("g", "c"), classic_group("h", "b")]
    assert following.run(20.0) is Waiting.SETTLING
    others = following.run(30.0)
    assert others == sum(ROWS[n][0] in (2, 3) for n in range(0, 24, 2)), "those that do not rest"
    assert following.run(40.0) is Waiting.RESTING
    assert following.follower.status.elections == moved + others


def test_reading_waits_in_proportion_to_its_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    following = Following(monkeypatch)
    monkeypatch.setattr(leader_follower, "CPU_SHARE", 0.05)
    monkeypatch.setattr(time, "process_time", iter((0.0, 0.5, 0.5, 0.6)).__next__)
    assert following.run(0.0) is Waiting.SETTLING
    assert following.run(9.9) is None
    assert following.run(10.1) is not None


def test_elections_count_over_a_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next controller has another clock, and keeps the bound per hour and the rest."""
    first = Following(monkeypatch)
    first.run(0.0)
    moved = first.run(10.0)
    second = Following(monkeypatch, first.records, 1e9 - 5000.0, elections_per_hour=moved + 2)
    second.state = first.state
    second.groups = [classic_group("g", "c"), classic_group("h", "b")]
    assert second.run(5020.0) is Waiting.SETTLING
    assert second.follower.status.elections == moved
    assert second.run(5030.0) == 2
    assert second.follower.status.elections == moved + 2
    assert second.run(5100.0) in (Waiting.ELECTIONS, Waiting.RESTING)
    # The first one is active again, and the elections of the second count.
    first.state, first.groups = second.state, second.groups
    first.follower.stand_by()
    first.run(200.0)
    assert first.follower.status.elections == moved + 2


def test_leaders_do_not_move_unless_it_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    following = Following(monkeypatch)
    following.run(0.0)
    before, following.records.error = following.state, LeaseLostError("lost")
    with pytest.raises(LeaseLostError):
        following.run(10.0)
    assert following.state == before
    following.records.error = None
    assert following.run(11.0) == following.follower.status.elections > 0


def test_a_clock_that_was_ahead_delays_for_an_hour_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = ElectionTimes(((2e9, {"orders": tuple(range(24))}),))
    following = Following(monkeypatch, FakeRecords(ahead), min_rate=1.0, elections_per_hour=24)
    following.run(0.0)
    assert following.run(10.0) is Waiting.RESTING
    assert following.run(3599.0) is Waiting.ELECTIONS
    assert isinstance(following.run(3600.0), int)
