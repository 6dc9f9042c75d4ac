"""The monitor of a group's leader: from an assignment and metadata to a requested rebalance."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assignors import LeaderRackAwareCooperativeSticky, Member, RefreshPolicy
from assignors.group import Members
from assignors.group_leader import GroupContext, Leaders, LogOnce
from assignors.group_leader.history import Assignment
from assignors.group_leader.metadata import PartitionMetadata
from assignors.group_leader.monitor import LeaderMoveMonitor
from assignors.group_leader.rebalance import GroupProtocol, Leadership
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from assignors.leader_moves import leads_since_before_restart
from tests.support.kafka_python import assignment_bytes, subscription_bytes

POLICY = RefreshPolicy(stable_seconds=60, unstable_seconds=300, min_interval=600, check_interval=30)
BROKERS = {0: "a", 1: "b"}
CONTEXT = GroupContext("g", 1)


class CountingAssignor(LeaderRackAwareCooperativeSticky):
    """Counts its plans, and keeps the last members; raises ``error`` while ``failing``."""

    plans = 0
    members: Sequence[Member] = ()
    failing = False
    error: Exception = RuntimeError("injected")

    def assign(self, members: Iterable[Member], *arguments: Any, **named: Any) -> Any:
        if self.failing:
            raise self.error
        self.plans += 1
        self.members = list(members)
        return super().assign(self.members, *arguments, **named)


class Group:
    """Two members in two racks, with the partition leaders' brokers by topic."""

    def __init__(self, policy: RefreshPolicy = POLICY, **leaders: Sequence[int]) -> None:
        self.assignor = CountingAssignor()
        self.leaders: Mapping[str, Sequence[int]] = leaders
        self.in_sync = [0, 1]
        self.protocol = GroupProtocol("sticky", self.assignor, True, None, LogOnce())
        self.monitor = LeaderMoveMonitor(policy, self.protocol)
        self.members = Members.of(Member(f"m{rack}", frozenset(leaders), rack) for rack in "ab")

    def read(self, topics: Iterable[str]) -> tuple[Leaders, Iterable[PartitionMetadata]]:
        existing = [topic for topic in topics if topic in self.leaders]
        racks: dict[str, list[str | None]] = {
            topic: [BROKERS.get(leader) for leader in self.leaders[topic]] for topic in existing
        }
        partitions = [
            PartitionMetadata(topic, number, leader, 1, [leader, 1 - leader], self.in_sync)
            for topic in existing
            for number, leader in enumerate(self.leaders[topic])
        ]
        return Leaders(racks, frozenset(), BROKERS), partitions

    def assign(self, generation: int = 1, now: float = 0.0) -> Assignment:
        """Rebalance, start the monitor, and make the members own their assignments."""
        leaders, _ = self.read(self.members.topics)
        result = Leadership().assign(
            self.protocol, self.members, leaders, frozenset(), CONTEXT, now
        )
        assigned = None if result.withheld else result.assigned
        self.monitor.start(generation, self.members, assigned, result.inputs.leaders, now)
        self.members = self.members.owning(result.assigned)
        return result

    def requests(self, until: float, since: float = 0.0) -> list[float]:
        """Check every thirty seconds; return the times at which a rebalance was requested."""
        times = [30.0 * n for n in range(int(since // 30) + 1, int(until // 30) + 1)]
        return [now for now in times if self.monitor.check(self.read, now, CONTEXT)]


def refresh_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the first line of each message that is not about an assignment."""
    return [
        message.splitlines()[0]
        for message in caplog.messages
        if not message.startswith(("assigned: ", "assignor failed"))
    ]


def test_a_rebalance_is_requested_once_and_the_reason_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="rackward.assignors")
    group = Group(t=[0, 1, 0, 1])
    group.assign()
    group.leaders = {"t": [1, 0, 0, 1]}
    assert group.requests(until=600) == [90.0]
    assert refresh_lines(caplog) == [
        "requesting a rebalance because leaders moved: group=g generation=1 protocol=sticky"
        " stable_seconds=60 partitions=4 off_rack=2 off_rack_after=0 gain=50.0%"
    ]


def test_the_gain_is_computed_only_if_leaders_moved(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="rackward.assignors")
    group = Group(t=[0, 1, 0, 1])
    group.assign()
    plans = group.assignor.plans
    assert group.requests(until=300) == []
    assert group.assignor.plans == plans
    group.leaders = {"t": [1, 0, 1, 0]}
    group.requests(until=900, since=300)
    assert group.assignor.plans == plans + 1
    assert len(refresh_lines(caplog)) == 1


def test_gain_is_that_of_the_assignment_in_force() -> None:
    group = Group(t=[0, 1, 0, 1])
    group.assign(generation=7)
    group.leaders = {"t": [1, 0, 0, 1]}
    assert not group.monitor.check(group.read, 30.0, CONTEXT)
    assert group.assignor.members == [
        Member("ma", frozenset({"t"}), "a", owned={"t": [0, 2]}, generation=0),
        Member("mb", frozenset({"t"}), "b", owned={"t": [1, 3]}, generation=0),
    ]


@pytest.mark.parametrize(("heavy", "times"), [(0, [90.0]), (2, [])])
def test_partitions_count_by_their_traffic(heavy: int, times: list[float]) -> None:
    """The leaders of partitions 0 and 1 move: with 8 or 2 of 10 bytes, 3.2 or 0.8 partitions."""
    group = Group(t=[0, 1, 0, 1])
    weights = {"t": [7.0 if number == heavy else 1.0 for number in range(4)]}
    group.protocol = replace(group.protocol, weights=weights)
    group.monitor = LeaderMoveMonitor(POLICY, group.protocol)
    group.assign()
    group.leaders = {"t": [1, 0, 0, 1]}
    assert group.requests(until=300) == times


def test_no_request_follows_the_assignment_that_was_requested() -> None:
    group = Group(t=[0, 1, 0, 1])
    group.assign()
    group.leaders = {"t": [1, 0, 0, 1]}
    assert group.requests(until=90) == [90.0]
    # The first round withholds what moves, and is not monitored. The second completes it.
    assert group.assign(2, now=91).withheld == 2
    assert group.requests(since=91, until=900) == []
    assert group.assign(3, now=92).withheld == 0
    assert group.requests(since=92, until=900) == []
    # Leaders move again: the minimum interval since the request at 90 still applies.
    group.leaders = {"t": [0, 1, 0, 1]}
    assert group.requests(since=92, until=900) == [690.0]


def test_a_new_group_leader_waits_for_the_minimum_interval() -> None:
    group = Group(t=[0, 1])
    group.assign(generation=7, now=0)
    group.leaders = {"t": [1, 0]}
    assert group.requests(until=900) == [600.0]
    # A member that was leader before waits too if another member may have led since.
    group.assign(generation=9, now=900)
    group.leaders = {"t": [0, 1]}
    group.assign(generation=10, now=910)
    group.leaders = {"t": [1, 0]}
    assert group.requests(since=910, until=1800)[:1] == [1500.0]


def test_repeated_generation_is_of_the_same_leader() -> None:
    group = Group(t=[0, 1])
    for now in (0, 5):
        group.assign(generation=1, now=now)
    group.leaders = {"t": [1, 0]}
    assert group.requests(until=300) == [90.0]
    for now in (300, 305):
        group.assign(generation=2, now=now)
    group.leaders = {"t": [0, 1]}
    assert group.requests(since=305, until=900) == [690.0]


def test_fallback_assignment_is_kept_while_leaders_stay() -> None:
    group = Group(t=[0, 1, 0, 1])
    group.assignor.failing = True
    group.assign()
    group.assignor.failing = False
    assert group.requests(until=3600) == []


def test_a_request_waits_for_replicas_that_catch_up() -> None:
    group = Group(t=[0, 1, 0, 1])
    group.assign()
    group.leaders, group.in_sync = {"t": [1, 0, 0, 1]}, [1]
    assert group.requests(until=900) == [330.0]


def test_added_and_deleted_partitions_are_left_to_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = Group(t=[0, 1, 0, 1], u=[0])
    group.assign()
    group.leaders = {"t": [1, 0, 0, 1]}
    assert group.requests(until=900) == []
    group.leaders = {"t": [1, 0, 0, 1, 1], "u": [0]}
    assert group.requests(since=900, until=1800) == []
    # Leaders count as stable from the first check without a change of partitions.
    group.leaders = {"t": [1, 0, 0, 1], "u": [0]}
    assert group.requests(since=1800, until=2000) == [1890.0]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_failing_check_is_logged_once_and_requests_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="rackward.assignors")
    group = Group(t=[0, 1])
    group.assign()
    group.leaders = {"t": [1, 0]}
    group.assignor.failing = True
    assert group.requests(until=900) == []
    assert refresh_lines(caplog) == [
        "checking for moved leaders failed: group=g generation=1 protocol=sticky"
        " error=RuntimeError('injected')"
    ]
    (error,) = [record for record in caplog.records if record.message.startswith("checking")]
    assert error.levelno == logging.ERROR
    assert "in assign" in error.message, "where it was raised"
    # Another error is another line.
    group.assignor.error = KeyError("other")
    assert group.requests(since=900, until=990) == []
    assert [line.partition("error=")[2] for line in refresh_lines(caplog)[1:]] == [
        "KeyError('other')"
    ]
    group.assignor.failing = False
    assert group.requests(since=990, until=1500) == [1080.0]


@pytest.mark.parametrize(("partitions", "seconds"), [(1, 30), (10_000, 30), (50_000, 150)])
def test_large_groups_are_checked_less_often(partitions: int, seconds: float) -> None:
    group = Group(t=[0] * partitions)
    group.assign()
    assert group.monitor.interval == seconds


def test_nothing_is_requested_before_the_first_assignment() -> None:
    group = Group(t=[0, 1])
    assert group.requests(until=900) == []


# ---- A static member that leads its group and restarts: brokers tell it that it is a follower.

UUIDS = "6d4c2e5e-2f0a-4f0c-9e9a-0f2f6a1b3c4d", "00000000-2f0a-4f0c-9e9a-0f2f6a1b3c4d"
ME, LEADER = (f"one-{uuid}" for uuid in UUIDS)


@pytest.mark.parametrize(
    ("leader", "member", "instance", "expected"),
    [
        (LEADER, ME, "one", True),
        (ME, ME, "one", False),
        (f"two-{UUIDS[1]}", ME, "one", False),
        (f"one-two-{UUIDS[1]}", ME, "one", False),
        (LEADER, ME, None, False),
        ("", ME, "one", False),
    ],
)
def test_the_old_member_id_is_recognised(
    leader: str, member: str, instance: str | None, expected: bool
) -> None:
    assert leads_since_before_restart(leader, member, instance) is expected


def described(member: str, rack: str, partitions: list[int]) -> tuple[str, str, bytes, bytes]:
    sent = subscription_bytes(["t"], rack=rack)
    return member, member, sent, assignment_bytes({"t": partitions})


def leaders_in(*racks: str) -> Any:
    read = Leaders({"t": list(racks)}, frozenset(), {0: "a", 1: "b"})
    return lambda _: (read, ())


@pytest.mark.parametrize(("racks", "requests"), [("aabb", False), ("bbaa", True)])
def test_restarted_leader_compares_with_present_leaders(
    racks: str, requests: bool, caplog: pytest.LogCaptureFixture
) -> None:
    policy = RefreshPolicy(
        stable_seconds=0.0, unstable_seconds=0.0, min_interval=10.0, check_interval=1.0
    )
    strategy = LeaderRackAwareCooperativeStickyAssignor(rack="a", refresh=policy)
    leadership = Leadership()
    members = [
        described("one", "a", [0, 1]),
        described("two", "b", [2, 3]),
        ("broken", None, b"\0", b"\0"),
    ]
    context, read = GroupContext("g", 7), leaders_in(*racks)
    leadership.resume(strategy.protocol, members, read, context, 100.0)
    assert leadership.monitor is not None
    with caplog.at_level(logging.INFO):
        # As after any assignment that another member may have made before: not at once.
        assert not leadership.monitor.check(read, 105.0, context)
        assert leadership.monitor.check(read, 111.0, context) is requests
    assert ("off_rack=4 off_rack_after=0" in caplog.text) is requests
