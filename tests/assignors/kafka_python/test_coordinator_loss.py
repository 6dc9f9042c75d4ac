"""Reading while the group's coordinator is unavailable, and how often it is looked up."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.base import Generation
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.structs import MemberState

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import LeaderRackAwareRangeAssignor as Range
from assignors.kafka_python import enable_workarounds
from assignors.kafka_python.fixes import SHORT_TIMEOUT_MS
from tests.support.kafka_python import Consumers, complete
from tests.support.waiting import TEST_TIMEOUT

SESSION_MS = 120_000
LONG_POLL_MS = 60_000


def member(consumers: Consumers, strategy: Any) -> Any:
    """Return the coordinator of a member whose last heartbeat was answered a second ago."""
    consumer = consumers(
        strategy, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=1000, retry_backoff_ms=200
    )
    complete(consumer, 3, t=[0])
    coordinator = consumer._coordinator
    coordinator._generation = Generation(3, "m", "p")
    set_last_heartbeat(coordinator, ago=1.0)
    return coordinator


def set_last_heartbeat(coordinator: Any, ago: float) -> None:
    coordinator.heartbeat.last_reset = time.monotonic() - ago - 0.02
    coordinator.heartbeat.last_send = time.monotonic() - ago - 0.01
    coordinator.heartbeat.last_receive = time.monotonic() - ago


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The timeout of each lookup of the coordinator, in milliseconds; all of them fail."""
    timeouts: list[Any] = []

    def ensure(_: Any, timeout_ms: Any = None) -> bool:
        timeouts.append(timeout_ms)
        return False

    monkeypatch.setattr(ConsumerCoordinator, "ensure_coordinator_ready", ensure)
    monkeypatch.setattr(ConsumerCoordinator, "need_rejoin", lambda _: False)
    return timeouts


@pytest.mark.parametrize("strategy", [Sticky(rack="a"), Range(rack="a")])
def test_a_member_reads_without_coordinator_for_one_session_timeout(
    consumers: Consumers, lookups: list[Any], strategy: Any
) -> None:
    coordinator = member(consumers, strategy)
    assert coordinator.poll(timeout_ms=LONG_POLL_MS)
    assert coordinator.poll(timeout_ms=5)
    assert lookups == [SHORT_TIMEOUT_MS, 5]
    # From then on another member may own the partition.
    set_last_heartbeat(coordinator, ago=SESSION_MS / 1000)
    assert not coordinator.poll(timeout_ms=LONG_POLL_MS)
    # A heartbeat without a response changes nothing.
    coordinator.heartbeat.last_send = time.monotonic()
    assert not coordinator.poll(timeout_ms=LONG_POLL_MS)
    assert all(timeout > LONG_POLL_MS / 2 for timeout in lookups[2:])


def test_a_removed_member_and_one_without_partitions_wait(
    consumers: Consumers, lookups: list[Any]
) -> None:
    coordinator = member(consumers, Sticky(rack="a"))
    coordinator._subscription.assign_from_subscribed([])
    assert not coordinator.poll(timeout_ms=LONG_POLL_MS)
    coordinator = member(consumers, Sticky(rack="a"))
    coordinator.reset_generation()
    assert not coordinator.poll(timeout_ms=LONG_POLL_MS)
    assert all(timeout > LONG_POLL_MS / 2 for timeout in lookups)


def test_a_member_without_workarounds_waits(consumers: Consumers, lookups: list[Any]) -> None:
    consumer = consumers(RangePartitionAssignor, session_timeout_ms=SESSION_MS)
    complete(consumer, 3, t=[0])
    consumer._coordinator._generation = Generation(3, "m", "range")
    set_last_heartbeat(consumer._coordinator, ago=1.0)
    assert not consumer._coordinator.poll(timeout_ms=LONG_POLL_MS)
    enable_workarounds(consumer)
    assert consumer._coordinator.poll(timeout_ms=LONG_POLL_MS)
    assert lookups[-1] == SHORT_TIMEOUT_MS


def test_lookups_of_a_dead_coordinator_are_spaced(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = member(consumers, Sticky(rack="a"))
    lookups: list[Any] = []

    async def find_dead_broker(coordinator: Any) -> None:
        lookups.append(coordinator)

    monkeypatch.setattr(ConsumerCoordinator, "_send_group_coordinator_request", find_dead_broker)
    started = time.monotonic()
    while len(lookups) < 3:
        assert time.monotonic() - started < TEST_TIMEOUT, "lookups have stopped"
        assert not coordinator.ensure_coordinator_ready(timeout_ms=700)
    # All pauses together: a single one may seem shorter, since lookups are recorded late.
    pauses = len(lookups) - 1
    assert time.monotonic() - started >= 0.19 * pauses


def test_an_overdue_heartbeat_does_not_shorten_polls(consumers: Consumers) -> None:
    coordinator = member(consumers, Sticky(rack="a"))
    coordinator.state = MemberState.STABLE
    assert ConsumerCoordinator.time_to_next_poll(coordinator) == 0
    assert coordinator.time_to_next_poll() == 0.2
    # Before it is due, the time of the heartbeat counts.
    set_last_heartbeat(coordinator, ago=0.0)
    assert 0.2 < coordinator.time_to_next_poll() < 1.0
    coordinator.workarounds_enabled = False
    set_last_heartbeat(coordinator, ago=1.0)
    assert coordinator.time_to_next_poll() == 0
