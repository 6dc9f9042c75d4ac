"""Reading while the group's coordinator is away, and how often it is asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.base import Generation
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.structs import MemberState

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import LeaderRackAwareRangeAssignor as Range
from assignors.kafka_python import harden
from assignors.kafka_python.workarounds import MOMENT_MS
from tests.support.kafka_python import Consumers, complete, offline_consumers
from tests.support.waiting import PATIENCE

SESSION_MS = 120_000
ALL_MS = 60_000
"""What a poll is given that is not to be over in a moment."""


@pytest.fixture
def consumers() -> Iterator[Consumers]:
    with offline_consumers() as make:
        yield make


def member(consumers: Consumers, strategy: Any) -> Any:
    """A consumer that owns a partition, whose last heartbeat was answered a second ago."""
    consumer = consumers(
        strategy, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=1000, retry_backoff_ms=200
    )
    complete(consumer, 3, t=[0])
    coordinator = consumer._coordinator
    coordinator._generation = Generation(3, "m", "p")
    beaten(coordinator, ago=1.0)
    return coordinator


def beaten(coordinator: Any, ago: float) -> None:
    coordinator.heartbeat.last_reset = time.monotonic() - ago - 0.02
    coordinator.heartbeat.last_send = time.monotonic() - ago - 0.01
    coordinator.heartbeat.last_receive = time.monotonic() - ago


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The patience, in milliseconds, of each question for the coordinator, which is not there."""
    asked: list[Any] = []

    def ensure(_: Any, timeout_ms: Any = None) -> bool:
        asked.append(timeout_ms)
        return False

    monkeypatch.setattr(ConsumerCoordinator, "ensure_coordinator_ready", ensure)
    monkeypatch.setattr(ConsumerCoordinator, "need_rejoin", lambda _: False)
    return asked


@pytest.mark.parametrize("strategy", [Sticky(rack="a"), Range(rack="a")])
def test_it_reads_on_for_the_time_of_a_session(
    consumers: Consumers, waited: list[Any], strategy: Any
) -> None:
    coordinator = member(consumers, strategy)
    assert coordinator.poll(timeout_ms=ALL_MS)
    assert coordinator.poll(timeout_ms=5)
    assert waited == [MOMENT_MS, 5]
    # From then on somebody else may own what it reads.
    beaten(coordinator, ago=SESSION_MS / 1000)
    assert not coordinator.poll(timeout_ms=ALL_MS)
    # A heartbeat that was sent and not answered changes nothing.
    coordinator.heartbeat.last_send = time.monotonic()
    assert not coordinator.poll(timeout_ms=ALL_MS)
    assert all(patience > ALL_MS / 2 for patience in waited[2:])


def test_who_was_thrown_out_or_has_nothing_waits(consumers: Consumers, waited: list[Any]) -> None:
    coordinator = member(consumers, Sticky(rack="a"))
    coordinator._subscription.assign_from_subscribed([])
    assert not coordinator.poll(timeout_ms=ALL_MS)
    coordinator = member(consumers, Sticky(rack="a"))
    coordinator.reset_generation()
    assert not coordinator.poll(timeout_ms=ALL_MS)
    assert all(patience > ALL_MS / 2 for patience in waited)


def test_who_is_not_hardened_waits(consumers: Consumers, waited: list[Any]) -> None:
    consumer = consumers(RangePartitionAssignor, session_timeout_ms=SESSION_MS)
    complete(consumer, 3, t=[0])
    consumer._coordinator._generation = Generation(3, "m", "range")
    beaten(consumer._coordinator, ago=1.0)
    assert not consumer._coordinator.poll(timeout_ms=ALL_MS)
    harden(consumer)
    assert consumer._coordinator.poll(timeout_ms=ALL_MS)
    assert waited[-1] == MOMENT_MS


def test_a_coordinator_that_is_named_and_dead_is_asked_for_with_pauses(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = member(consumers, Sticky(rack="a"))
    asked: list[Any] = []

    async def name_a_dead_one(coordinator: Any) -> None:
        asked.append(coordinator)

    monkeypatch.setattr(ConsumerCoordinator, "_send_group_coordinator_request", name_a_dead_one)
    began = time.monotonic()
    while len(asked) < 3:
        assert time.monotonic() - began < PATIENCE, "it does not go on asking"
        assert not coordinator.ensure_coordinator_ready(timeout_ms=700)
    # All pauses together: a single one may look shorter, as what is noted here is noted late.
    pauses = len(asked) - 1
    assert time.monotonic() - began >= 0.19 * pauses


def test_an_overdue_heartbeat_does_not_hurry_polls(consumers: Consumers) -> None:
    coordinator = member(consumers, Sticky(rack="a"))
    coordinator.state = MemberState.STABLE
    assert ConsumerCoordinator.time_to_next_poll(coordinator) == 0
    assert coordinator.time_to_next_poll() == 0.2
    # Before that it is as it was.
    beaten(coordinator, ago=0.0)
    assert 0.2 < coordinator.time_to_next_poll() < 1.0
    coordinator.steady = False
    beaten(coordinator, ago=1.0)
    assert coordinator.time_to_next_poll() == 0
