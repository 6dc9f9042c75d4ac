"""KafkaConsumers that read from the nearest replica, against a scripted broker."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import OffsetOutOfRangeError

from assignors.kafka_python import LeaderRackAwareRangeAssignor, NearestPolicy, read_from_nearest
from placement_core import InvalidOptionError
from tests.support.kafka_python import Consumers
from tests.support.scripted_broker import ScriptedBroker, fetch_response, scripted_broker
from tests.support.waiting import TEST_TIMEOUT

LEADER, NEAR = 0, 1
CLIENT_RACK = "/dc2/r9"
P0 = TopicPartition("t", 0)
OFFSET_OUT_OF_RANGE = 1


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """A topic of one partition, whose follower is nearer to the client than its leader."""
    with scripted_broker({LEADER: "/dc1/r1", NEAR: "/dc2/r1"}) as broker:
        broker.leaders = {"t": [LEADER]}
        broker.in_sync = [LEADER, NEAR]
        broker.records[P0] = 2
        yield broker


class Reader:
    """A consumer that reads from the nearest replica, from offset 1 on."""

    def __init__(
        self,
        broker: ScriptedBroker,
        response_timeout: float = TEST_TIMEOUT,
        metadata_max_age: float = 0.1,
    ) -> None:
        self.consumer = KafkaConsumer(
            bootstrap_servers=f"127.0.0.1:{broker.port}",
            client_rack=CLIENT_RACK,
            auto_offset_reset="none",
            metadata_max_age_ms=int(metadata_max_age * 1000),
            retry_backoff_ms=50,
            fetch_max_wait_ms=50,
        )
        policy = NearestPolicy(backoff=60, max_backoff=60, response_timeout=response_timeout)
        self.nearest = read_from_nearest(self.consumer, CLIENT_RACK, policy)
        self.consumer.assign([P0])
        self.consumer.seek(P0, 1)

    @property
    def source(self) -> int | None:
        """The broker that was fetched from last."""
        return self.nearest.read_from.get(P0)

    def read(self) -> list[int]:
        """Poll until there are records; return their offsets."""
        return self.poll_until(lambda offsets: offsets)

    def poll_until(self, condition: Callable[[list[int]], object]) -> list[int]:
        deadline, offsets = time.monotonic() + TEST_TIMEOUT, list[int]()
        while not condition(offsets):
            assert time.monotonic() < deadline
            for records in self.consumer.poll(timeout_ms=30).values():
                offsets += [record.offset for record in records]
        return offsets


@pytest.fixture
def reader(broker: ScriptedBroker) -> Iterator[Reader]:
    reader = Reader(broker)
    yield reader
    reader.consumer.close(timeout_ms=100)


def test_the_follower_is_read_and_is_not_sent_the_rack(
    broker: ScriptedBroker, reader: Reader
) -> None:
    assert (reader.read(), reader.source) == ([1], NEAR)
    assert {each.request.rack_id for each in broker.named("Fetch")} == {""}


def test_the_leader_is_read_while_the_follower_is_out_of_sync(
    broker: ScriptedBroker, reader: Reader
) -> None:
    broker.in_sync = [LEADER]
    reader.poll_until(lambda _: reader.source == LEADER)


@pytest.mark.parametrize("code", [OFFSET_OUT_OF_RANGE, 3, 9, 76, 100, -1])
def test_the_leader_is_read_after_an_error_of_the_follower(
    broker: ScriptedBroker, reader: Reader, code: int
) -> None:
    assert (reader.read(), reader.source) == ([1], NEAR)
    near = broker.named("Fetch")[-1].connection

    def refuse(request: Any) -> Any:
        (received,) = (each for each in broker.named("Fetch") if each.request is request)
        return fetch_response("t", 0, error_code=code) if received.connection == near else None

    broker.answers["Fetch"] = refuse
    broker.records[P0] = 3
    # From the same position: no error of a follower resets it.
    assert reader.read() == [2]


def test_the_leader_is_read_after_the_connection_is_lost(
    broker: ScriptedBroker, reader: Reader
) -> None:
    reader.read()
    with broker.holding("Fetch"):
        count = len(broker.named("Fetch"))
        reader.poll_until(lambda _: len(broker.named("Fetch")) > count)
        broker.disconnect_readers_of("t", 0)
        reader.poll_until(lambda _: reader.source == LEADER)
    broker.records[P0] = 3
    assert reader.read() == [2]


def test_the_leader_is_read_if_the_follower_does_not_respond(broker: ScriptedBroker) -> None:
    reader = Reader(broker, response_timeout=0.2)

    def hang(_: Any) -> None:
        if reader.source == NEAR:
            time.sleep(1)

    broker.answers["Fetch"] = hang
    reader.poll_until(lambda _: reader.source == LEADER)
    reader.consumer.close(timeout_ms=100)


def test_a_redirect_is_followed_until_that_follower_fails(broker: ScriptedBroker) -> None:
    broker.in_sync = [LEADER]
    # A redirect is valid until metadata is that old.
    reader = Reader(broker, metadata_max_age=2 * TEST_TIMEOUT)
    sources: list[int | None] = []

    def redirect(_: Any) -> Any:
        sources.append(reader.source)
        if reader.source == NEAR:
            return fetch_response("t", 0, error_code=OFFSET_OUT_OF_RANGE)
        return None if NEAR in sources else fetch_response("t", 0, preferred_read_replica=NEAR)

    broker.answers["Fetch"] = redirect
    assert (reader.read(), reader.source) == ([1], LEADER)
    assert NEAR in sources
    reader.consumer.close(timeout_ms=100)


def test_an_expired_fetch_session_is_no_failure(broker: ScriptedBroker, reader: Reader) -> None:
    def expire(_: Any) -> Any:
        del broker.answers["Fetch"]
        response = fetch_response("t", 0)
        response.error_code, response.responses = 70, []
        return response

    broker.answers["Fetch"] = expire
    assert (reader.read(), reader.source) == ([1], NEAR)


def test_an_error_of_the_leader_is_raised(broker: ScriptedBroker, reader: Reader) -> None:
    broker.in_sync = [LEADER]
    reader.poll_until(lambda _: reader.source == LEADER)
    broker.answers["Fetch"] = lambda _: fetch_response("t", 0, error_code=OFFSET_OUT_OF_RANGE)
    with pytest.raises(OffsetOutOfRangeError):
        reader.poll_until(lambda _: False)


def test_a_second_call_and_a_wrong_type_are_refused(consumers: Consumers) -> None:
    consumer = consumers(RangePartitionAssignor)
    read_from_nearest(consumer, rack=CLIENT_RACK)
    with pytest.raises(InvalidOptionError, match="call read_from_nearest once"):
        read_from_nearest(consumer, rack=CLIENT_RACK)
    with pytest.raises(TypeError, match=r"is not a kafka\.KafkaConsumer"):
        read_from_nearest(object(), rack=CLIENT_RACK)


@pytest.mark.parametrize(
    ("strategy", "rack", "expected"),
    [
        (RangePartitionAssignor, CLIENT_RACK, []),
        (RangePartitionAssignor, "/", ["reads from leaders"]),
        (LeaderRackAwareRangeAssignor, CLIENT_RACK, ["leader-rack-aware assignment has no effect"]),
        (LeaderRackAwareRangeAssignor(), CLIENT_RACK, ["leader-rack-aware assignment has no"]),
    ],
)
def test_what_has_no_effect_is_logged(
    consumers: Consumers,
    caplog: pytest.LogCaptureFixture,
    strategy: Any,
    rack: str,
    expected: list[str],
) -> None:
    read_from_nearest(consumers(strategy), rack=rack)
    warnings = [
        record.getMessage()
        for record in caplog.records
        if record.name == "rackward.assignors" and record.levelno == logging.WARNING
    ]
    assert len(warnings) == len(expected)
    assert all(part in warning for part, warning in zip(expected, warnings, strict=True))
