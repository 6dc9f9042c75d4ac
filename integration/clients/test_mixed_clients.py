"""A group of processes, two per client library: every assignment is optimal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from integration.support.clients import PartitionId
from integration.support.groups import (
    ConsumerGroup,
    everything_is_committed,
    everything_is_read,
    ownership_conflicts,
)
from integration.support.process_clients import InProcess, kill
from integration.support.racks import evenly, loads, off_rack, replicas_led_from
from integration.support.topics import SteadyProducer, create_topic, described, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT

Owned = dict[str, frozenset[PartitionId]]
SIX = {
    "kafka-python-1": "a",
    "kafka-python-2": "b",
    "confluent-1": "c",
    "confluent-2": "a",
    "aiokafka-1": "b",
    "aiokafka-2": "c",
}
# Seconds. The others wait for the session timeout of the member that is killed. Even on a busy
# machine no other session may expire, and that one not before the member is killed.
SHORT_SESSION, LONG_SESSION = 15, 30


class CheckedGroup:
    """A group whose assignments are compared with the plans of the assignor."""

    def __init__(
        self, cluster: Cluster, group: ConsumerGroup, assignor: str, topic: str, leaders: list[str]
    ) -> None:
        self.group = group
        self.owned: Owned = {}
        self._cluster = cluster
        self._assignor = assignor
        self._topic = topic
        self._racks: dict[str, str] = {}
        self._leaders = leaders
        self._all = {(topic, partition) for partition in range(len(leaders))}

    def start(self, members: Mapping[str, str], session_seconds: int) -> None:
        """Start members, name to rack; names begin with the library."""
        for name, rack in members.items():
            self._racks[name] = rack
            library = name.rpartition("-")[0]
            timeout = "session.timeout.ms" if library == "confluent" else "session_timeout_ms"
            settings: dict[str, Any] = {timeout: session_seconds * 1000}
            client = InProcess(library, self._assignor, self.group)
            self.group.start(name, rack, client=client, **settings)

    def check_after(self, act: Callable[[], object]) -> Owned:
        """Call ``act``; wait until the group settles, and compare with the optimal plan."""
        before, generation = self.owned, self.group.generation
        act()
        # During this time processes start, or the session of a killed one expires.
        now = self.owned = self.group.settle(self._all, within=2 * TEST_TIMEOUT, after=generation)
        by_brokers, ids = self._described_by_brokers()
        assert now == by_brokers
        racks = {name: self._racks[name] for name in now}
        if self._assignor == "range":
            # Range sorts members by their ids, which brokers assign.
            best = self._best({ids[name]: rack for name, rack in racks.items()}, {})
            assert {ids[name]: tps for name, tps in now.items()} == best
            return now
        best = self._best(racks, before)
        assert loads(now) == loads(best)
        assert off_rack(self._cluster, now, racks) == off_rack(self._cluster, best, racks)
        assert revoked_partitions(before, now) == revoked_partitions(before, best)
        # The plan is stable: with these owned partitions, the plan is the same.
        assert self._best(racks, now) == now
        return now

    def _best(self, racks: Mapping[str, str], before: Owned) -> Owned:
        """Return the plan for members that own ``before``; it is optimal."""
        members = [
            Member(
                id=name,
                topics=frozenset({self._topic}),
                rack=rack,
                owned={self._topic: sorted(p for _, p in before.get(name, ()))},
                generation=1,
            )
            for name, rack in racks.items()
        ]
        sticky = self._assignor == "sticky"
        pure = LeaderRackAwareCooperativeSticky() if sticky else LeaderRackAwareRange()
        plan = pure.assign(members, {self._topic: self._leaders})
        assert plan.off_rack == plan.optimum
        return {
            name: frozenset((self._topic, p) for p in topics.get(self._topic, ()))
            for name, topics in plan.partitions.items()
        }

    def _described_by_brokers(self) -> tuple[Owned, dict[str, str]]:
        """Return the assignments and the member ids by client id, from the group's coordinator."""
        (description,) = described(self._cluster, self.group.id)
        members = description["members"]
        owned = {
            member["client_id"]: frozenset(
                (each["topic"], partition)
                for each in member["member_assignment"]["assigned_partitions"]
                for partition in each["partitions"]
            )
            for member in members
        }
        return owned, {member["client_id"]: member["member_id"] for member in members}


def out_of_order(group: ConsumerGroup) -> list[tuple[PartitionId, str, int, int]]:
    """Return (partition, member, gaps, assignments) of reads with skipped or repeated records.

    Only the first record after an assignment may not follow the one before.
    """
    assigned = Counter(
        (tp, change.member)
        for change in group.history
        if change.kind == "assigned"
        for tp in change.partitions
    )
    jumps = []
    for tp, reads in group.reads.items():
        for member in {name for _, _, name in reads.seen}:
            offsets = [offset for _, offset, name in reads.seen if name == member]
            gaps = 1 + sum(b != a + 1 for a, b in pairwise(offsets))
            if gaps > assigned[tp, member]:
                jumps.append((tp, member, gaps, assigned[tp, member]))
    return jumps


def revoked_partitions(before: Owned, now: Owned) -> int:
    """Return the number of partitions that remaining members lost."""
    return sum(len(before[name] - now[name]) for name in before.keys() & now.keys())


@pytest.mark.parametrize(
    # The first member leads the group, and is killed. The clients that leave and join decide
    # whether partitions move from an eager member, to one, or both.
    ("assignor", "first", "leaves", "joins"),
    [
        pytest.param(
            *("range", "kafka-python-1", "aiokafka-2", {"confluent-3": "c"}),
            marks=pytest.mark.slow,
        ),
        ("sticky", "aiokafka-1", "confluent-2", {"aiokafka-3": "a"}),
    ],
    ids=["range", "sticky"],
)
def test_one_group_of_three_clients(
    cluster: Cluster, assignor: str, first: str, leaves: str, joins: Mapping[str, str]
) -> None:
    leaders = evenly(36)
    topic = create_topic(cluster, new_name("mixed"), replicas_led_from(leaders))
    with (
        SteadyProducer(cluster, topic, 36) as sent,
        ConsumerGroup(cluster, topics=[topic]) as group,
    ):
        checked = CheckedGroup(cluster, group, assignor, topic, leaders)
        checked.check_after(lambda: checked.start({first: SIX[first]}, SHORT_SESSION))
        others = {name: rack for name, rack in SIX.items() if name != first}
        owned = checked.check_after(lambda: checked.start(others, LONG_SESSION))
        assert loads(owned) == [6] * 6
        assert off_rack(cluster, owned, SIX) == 0
        checked.check_after(lambda: group.stop(leaves))
        checked.check_after(lambda: checked.start(joins, LONG_SESSION))
        checked.check_after(lambda: kill(group, first))
        sent.stop()
        everything_is_read(group.reads_of, topic, sent)
        everything_is_committed(cluster, group.id, sent)
    assert ownership_conflicts(group.history, until=time.monotonic()) == []
    assert out_of_order(group) == []
    everything_is_committed(cluster, group.id, sent)
