"""What a KafkaConsumer's coordinator does for a policy, without brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.coordinator.base import Generation
from kafka.errors import CoordinatorNotAvailableError
from kafka.structs import MemberState

from assignors import RefreshPolicy
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import LeaderRackAwareRangeAssignor as Range
from assignors.kafka_python.coordinator import read_metadata
from assignors.kafka_python.workarounds import SteadyCoordinator
from assignors.leader_moves import DEFAULT_REFRESH, PartitionState
from placement_core import InvalidOptionError
from tests.support.kafka_python import (
    Consumers,
    answer,
    cluster_metadata,
    complete,
    joined,
    offline_consumers,
    perform,
    subscription_bytes,
)

# Offline brokers answer that every partition has a replica out of sync.
POLICY = RefreshPolicy(settling=0, patience=0, cool_down=0, check_interval=10)
GROUP = [joined(f"m{n}", subscription_bytes(["t"], rack="ab"[n])) for n in range(2)]


class Clock:
    """What a coordinator takes for the time; its polls do nothing but look."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(SteadyCoordinator, "poll", lambda *_, **__: True)
    monkeypatch.setattr("assignors.kafka_python.coordinator.time", clock)
    return clock


@pytest.fixture
def consumers() -> Iterator[Consumers]:
    with offline_consumers() as make:
        yield make


def at_rest(consumer: Any, *, leads: bool = True) -> Any:
    """Its coordinator, after a join in which it gave the group its plan, or was given it."""
    coordinator = consumer._coordinator
    coordinator._generation = Generation(1, "m0", Sticky.name)
    answer(consumer, t=[0, 1])
    if leads:
        assert perform(consumer, *GROUP) == {"m0": {"t": [0]}, "m1": {"t": [1]}}
    coordinator.state = MemberState.STABLE
    coordinator.rejoin_needed = False
    coordinator._joined_subscription = {"t"}
    complete(consumer, 1, t=[0])
    return coordinator


def looks(coordinator: Any) -> int:
    """How often brokers are asked in one poll, by what is looked at here."""
    asked = []
    coordinator._cluster.request_update = lambda: asked.append(1)
    coordinator.poll(timeout_ms=0)
    return len(asked)


def test_the_leader_asks_for_metadata_once_per_interval(consumers: Consumers, clock: Clock) -> None:
    coordinator = at_rest(consumers(Sticky(rack="a", refresh=POLICY)))
    assert looks(coordinator) == 0
    clock.now += 9.9
    assert looks(coordinator) == 0
    clock.now += 0.2
    assert [looks(coordinator), looks(coordinator)] == [1, 0]
    # Of an answer that does not come it asks again, no sooner.
    clock.now += 10
    assert [looks(coordinator), looks(coordinator)] == [1, 0]


def test_it_rejoins_when_the_answer_shows_that_leaders_have_moved(
    consumers: Consumers, clock: Clock
) -> None:
    consumer = consumers(Sticky(rack="a", refresh=POLICY))
    coordinator = at_rest(consumer)
    # What it hears by itself it does not look at before it is time.
    answer(consumer, t=[1, 0])
    looks(coordinator)
    assert not coordinator.rejoin_needed
    clock.now += 10
    assert looks(coordinator) == 1
    assert not coordinator.rejoin_needed
    answer(consumer, t=[1, 0])
    looks(coordinator)
    assert coordinator.rejoin_needed


def test_it_does_not_look_while_it_joins_or_is_in_no_group(
    consumers: Consumers, clock: Clock
) -> None:
    coordinator = at_rest(consumers(Sticky(rack="a", refresh=POLICY)))
    clock.now += 10
    coordinator.rejoin_needed = True
    assert looks(coordinator) == 0
    coordinator.rejoin_needed = False
    coordinator.state = MemberState.UNJOINED
    assert looks(coordinator) == 0
    coordinator.state = MemberState.STABLE
    assert looks(coordinator) == 1


def test_followers_ask_for_nothing(consumers: Consumers, clock: Clock) -> None:
    coordinator = at_rest(consumers(Sticky(rack="a", refresh=POLICY)), leads=False)
    clock.now += 1000
    assert looks(coordinator) == 0


def test_who_led_and_joins_anew_looks_no_more(consumers: Consumers, clock: Clock) -> None:
    coordinator = at_rest(consumers(Sticky(rack="a", refresh=POLICY)))
    clock.now += 1000
    # There is no broker to join at.
    with pytest.raises(CoordinatorNotAvailableError):
        coordinator._join_and_sync().send(None)
    coordinator.state = MemberState.STABLE
    assert looks(coordinator) == 0


def test_without_a_policy_nobody_looks(consumers: Consumers, clock: Clock) -> None:
    coordinator = at_rest(consumers(Sticky(rack="a", refresh=None)))
    clock.now += 1000
    assert looks(coordinator) == 0


def test_by_default_there_is_a_policy() -> None:
    assert Sticky().refresh is Range().refresh is DEFAULT_REFRESH
    with pytest.raises(InvalidOptionError, match="refresh is 60"):
        Range(refresh=60)  # type: ignore[arg-type]


def test_what_is_read_off_the_metadata() -> None:
    cluster = cluster_metadata({0: "a", 1: None}, {"t": [0, 1], "u": [1], "other": [0]})
    leaders, states = read_metadata(cluster, ["t", "u", "gone"])
    assert leaders.racks == {"t": ["a", None], "u": [None]}
    assert leaders.unseen == {"gone"}
    assert list(states) == [
        PartitionState("t", 0, 0, 0, [0, 1], [0]),
        PartitionState("t", 1, 1, 0, [0, 1], [0]),
        PartitionState("u", 0, 1, 0, [0, 1], [0]),
    ]
