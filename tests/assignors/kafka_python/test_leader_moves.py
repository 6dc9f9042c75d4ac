"""Checks of moved leaders by the coordinator of a KafkaConsumer, without brokers."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.coordinator.base import Generation
from kafka.errors import CoordinatorNotAvailableError
from kafka.structs import MemberState

from assignors import RefreshPolicy
from assignors.group_leader.metadata import PartitionMetadata
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python.commits import CommitFixes
from assignors.kafka_python.leading import read_metadata
from tests.support.kafka_python import (
    Consumers,
    cluster_metadata,
    complete,
    joined,
    perform,
    receive_metadata,
    subscription_bytes,
)

# In the metadata of these tests every partition has a replica that is out of sync.
POLICY = RefreshPolicy(stable_seconds=0, unstable_seconds=0, min_interval=0, check_interval=10)
GROUP = [joined(f"m{n}", subscription_bytes(["t"], rack="ab"[n])) for n in range(2)]


class Clock:
    """The coordinator's clock. Its polls do nothing but check leaders."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(CommitFixes, "poll", lambda *_, **__: True)
    monkeypatch.setattr("assignors.kafka_python.coordinator.time", clock)
    return clock


def stable(consumer: Any, *, leads: bool = True) -> Any:
    """Return the consumer's coordinator after a join, as the group leader or not."""
    coordinator = consumer._coordinator
    coordinator._generation = Generation(1, "m0", Sticky.name)
    receive_metadata(consumer, t=[0, 1])
    if leads:
        assert perform(consumer, *GROUP) == {"m0": {"t": [0]}, "m1": {"t": [1]}}
    coordinator.state = MemberState.STABLE
    coordinator.rejoin_needed = False
    coordinator._joined_subscription = {"t"}
    complete(consumer, 1, t=[0])
    return coordinator


def metadata_requests(coordinator: Any) -> int:
    """Poll once; return the number of metadata requests that were made."""
    requests = []
    coordinator._cluster.request_update = lambda: requests.append(1)
    coordinator.poll(timeout_ms=0)
    return len(requests)


def test_the_leader_requests_metadata_once_per_interval(consumers: Consumers, clock: Clock) -> None:
    coordinator = stable(consumers(Sticky(rack="a", refresh=POLICY)))
    assert metadata_requests(coordinator) == 0
    clock.now += 9.9
    assert metadata_requests(coordinator) == 0
    clock.now += 0.2
    assert [metadata_requests(coordinator), metadata_requests(coordinator)] == [1, 0]
    # Without a response the next request is sent after another interval.
    clock.now += 10
    assert [metadata_requests(coordinator), metadata_requests(coordinator)] == [1, 0]


def test_the_leader_rejoins_if_a_response_shows_moved_leaders(
    consumers: Consumers, clock: Clock
) -> None:
    consumer = consumers(Sticky(rack="a", refresh=POLICY))
    coordinator = stable(consumer)
    # A response to another request is not checked.
    receive_metadata(consumer, t=[1, 0])
    metadata_requests(coordinator)
    assert not coordinator.rejoin_needed
    clock.now += 10
    assert metadata_requests(coordinator) == 1
    assert not coordinator.rejoin_needed
    receive_metadata(consumer, t=[1, 0])
    metadata_requests(coordinator)
    assert coordinator.rejoin_needed


def test_leaders_are_not_checked_during_a_join_or_outside_a_group(
    consumers: Consumers, clock: Clock
) -> None:
    coordinator = stable(consumers(Sticky(rack="a", refresh=POLICY)))
    clock.now += 10
    coordinator.rejoin_needed = True
    assert metadata_requests(coordinator) == 0
    coordinator.rejoin_needed = False
    coordinator.state = MemberState.UNJOINED
    assert metadata_requests(coordinator) == 0
    coordinator.state = MemberState.STABLE
    assert metadata_requests(coordinator) == 1


def test_other_members_request_nothing(consumers: Consumers, clock: Clock) -> None:
    coordinator = stable(consumers(Sticky(rack="a", refresh=POLICY)), leads=False)
    clock.now += 1000
    assert metadata_requests(coordinator) == 0


def test_a_new_join_ends_the_checks(consumers: Consumers, clock: Clock) -> None:
    coordinator = stable(consumers(Sticky(rack="a", refresh=POLICY)))
    clock.now += 1000
    # There is no broker to join at.
    with pytest.raises(CoordinatorNotAvailableError):
        coordinator._join_and_sync().send(None)
    coordinator.state = MemberState.STABLE
    assert metadata_requests(coordinator) == 0


def test_without_a_policy_leaders_are_not_checked(consumers: Consumers, clock: Clock) -> None:
    coordinator = stable(consumers(Sticky(rack="a", refresh=None)))
    clock.now += 1000
    assert metadata_requests(coordinator) == 0


def test_leaders_and_replicas_are_read_from_metadata() -> None:
    cluster = cluster_metadata({0: "a", 1: None}, {"t": [0, 1], "u": [1], "other": [0]})
    leaders, states = read_metadata(cluster, ["t", "u", "gone"])
    assert leaders.racks == {"t": ["a", None], "u": [None]}
    assert leaders.topics_without_metadata == {"gone"}
    assert list(states) == [
        PartitionMetadata("t", 0, 0, 0, [0, 1], [0]),
        PartitionMetadata("t", 1, 1, 0, [0, 1], [0]),
        PartitionMetadata("u", 0, 1, 0, [0, 1], [0]),
    ]
