"""Checks of moved leaders by the coordinator of a KafkaConsumer, without brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.coordinator.base import Generation
from kafka.errors import CoordinatorNotAvailableError
from kafka.structs import MemberState

from assignors import RefreshPolicy
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python.leading import read_metadata
from assignors.leader_moves import PartitionMetadata
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


class Leader:
    """A consumer after a join, as the group leader or not, with a clock of its scheduled calls."""

    def __init__(
        self,
        consumer: Any,
        monkeypatch: pytest.MonkeyPatch,
        *,
        leads: bool = True,
    ) -> None:
        self.now = 100.0
        self.requests = 0
        self.consumer = consumer
        self.coordinator = coordinator = consumer._coordinator
        self._scheduled: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr(coordinator, "call_later", self._call_later)
        monkeypatch.setattr(coordinator.net, "cancel", self._scheduled.remove)
        monkeypatch.setattr("assignors.kafka_python.coordinator.time", self)
        coordinator._generation = Generation(1, "m0", Sticky.name)
        receive_metadata(consumer, t=[0, 1])
        if leads:
            assert perform(consumer, *GROUP) == {"m0": {"t": [0]}, "m1": {"t": [1]}}
        coordinator.state = MemberState.STABLE
        coordinator.rejoin_needed = False
        coordinator._joined_subscription = {"t"}
        complete(consumer, 1, t=[0])
        monkeypatch.setattr(coordinator._cluster, "request_update", self._request)

    def monotonic(self) -> float:
        return self.now

    def _request(self) -> None:
        self.requests += 1

    def _call_later(self, seconds: float, method: Callable[[], None]) -> Any:
        timer = self.now + seconds, method
        self._scheduled.append(timer)
        return timer

    def requests_after(self, seconds: float) -> int:
        """Return the number of metadata requests made within the next ``seconds``."""
        self.now += seconds
        self.requests = 0
        for timer in [timer for timer in self._scheduled if timer[0] <= self.now]:
            self._scheduled.remove(timer)
            timer[1]()
        return self.requests


def test_leader_requests_metadata_once_per_interval(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(consumers(Sticky(rack="a", refresh=POLICY)), monkeypatch)
    # Without a response the next request is sent after another interval.
    assert [leader.requests_after(seconds) for seconds in (9.9, 0.2, 9.9, 0.2)] == [0, 1, 0, 1]


def test_leader_rejoins_if_a_response_shows_moved_leaders(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(consumers(Sticky(rack="a", refresh=POLICY)), monkeypatch)
    # A response to another request is not checked.
    receive_metadata(leader.consumer, t=[1, 0])
    assert not leader.coordinator.rejoin_needed
    assert leader.requests_after(10) == 1
    assert not leader.coordinator.rejoin_needed
    receive_metadata(leader.consumer, t=[1, 0])
    assert leader.coordinator.rejoin_needed


def test_leaders_are_not_checked_during_a_join_or_outside_a_group(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(consumers(Sticky(rack="a", refresh=POLICY)), monkeypatch)
    leader.coordinator.state = MemberState.UNJOINED
    assert leader.requests_after(10) == 0
    leader.coordinator.state = MemberState.STABLE
    assert leader.requests_after(10) == 1
    # There is no broker to join at.
    with pytest.raises(CoordinatorNotAvailableError):
        leader.coordinator._join_and_sync().send(None)
    leader.coordinator.state = MemberState.STABLE
    receive_metadata(leader.consumer, t=[1, 0])
    assert not leader.coordinator.rejoin_needed
    assert leader.requests_after(1000) == 0


@pytest.mark.parametrize(("refresh", "leads"), [(POLICY, False), (None, True)])
def test_other_members_and_leaders_without_policy_request_nothing(
    consumers: Consumers,
    monkeypatch: pytest.MonkeyPatch,
    refresh: RefreshPolicy | None,
    leads: bool,
) -> None:
    consumer = consumers(Sticky(rack="a", refresh=refresh))
    assert Leader(consumer, monkeypatch, leads=leads).requests_after(1000) == 0


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
