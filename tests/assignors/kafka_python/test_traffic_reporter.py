"""Counting what a KafkaConsumer fetches, and reporting it; the consumer has no broker."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaTimeoutError, OffsetNotAvailableError, OffsetOutOfRangeError
from kafka.protocol.consumer import FetchResponse

from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    TrafficReporter,
    read_from_nearest,
    traffic_reporter,
)
from placement_core import InvalidOptionError
from tests.support.kafka_python import Consumers, complete, receive_metadata
from tests.support.waiting import TEST_TIMEOUT, wait_until

BROKER = 1
RACK = "b"
NEVER = 3600.0


class Clock:
    """Advances by one second at each call."""

    def __init__(self) -> None:
        self._now = datetime(2026, 11, 21, 13, tzinfo=UTC)

    def __call__(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now


class Sent:
    """Records the messages of a reporter. Raises ``error``, if given, in the first call."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self._error = error

    def __call__(self, key: bytes, value: bytes) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
        assert key == b"g"
        self.rows.extend(json.loads(value)["rows"])

    @property
    def bytes(self) -> int:
        return sum(row["bytes"] for row in self.rows)


@pytest.fixture
def consumer(consumers: Consumers) -> Any:
    """A consumer that owns t-0, and whose fetcher only records responses."""
    consumer = consumers(RangePartitionAssignor, client_id="c")
    receive_metadata(consumer, t=[BROKER])
    complete(consumer, 1, t=[0])
    consumer.handled = []
    consumer._fetcher._handle_fetch_response = lambda *arguments: consumer.handled.append(arguments)
    return consumer


@pytest.fixture
def reporters() -> Iterator[list[TrafficReporter]]:
    """Reporters in this list are closed after the test."""
    running: list[TrafficReporter] = []
    yield running
    for reporter in running:
        reporter.close()


def fetch(consumer: Any, records: bytes = b"12345", error_code: int = 0) -> Any:
    """Have the consumer handle a response with ``records`` of t-0; return its partition."""
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(
        partition_index=0, error_code=error_code, records=records, diverging_epoch=None
    )
    response = FetchResponse(
        throttle_time_ms=0, error_code=0, session_id=0,
        responses=[topic(topic="t", partitions=[partition])],
    )  # fmt: skip
    consumer._fetcher._handle_fetch_response(BROKER, {TopicPartition("t", 0): 5}, 0.0, response)
    return partition


def reporter(consumer: Any, sent: Sent, **options: Any) -> TrafficReporter:
    options = {"every": NEVER, "rack": "a", "now": Clock(), **options}
    return TrafficReporter(consumer, "reports", send=sent, **options)


def test_fetched_bytes_are_reported_with_both_racks(consumer: Any) -> None:
    sent = Sent()
    with reporter(consumer, sent, cluster="east"):
        fetch(consumer)
        fetch(consumer, b"678")
        fetch(consumer, b"")
    assert sent.rows == [
        {
            "cluster": "east", "group": "g", "member_id": "c", "topic": "t", "partition": 0,
            "from_rack": RACK, "to_rack": "a", "bytes": 8,
            "from_at": "2026-11-21T13:00:01.000Z", "to_at": "2026-11-21T13:00:02.000Z",
        }
    ]  # fmt: skip
    assert len(consumer.handled) == 3, "the fetcher handles every response"


def test_an_assigned_partition_without_records_is_reported_with_zero_bytes(consumer: Any) -> None:
    sent = Sent()
    with reporter(consumer, sent):
        pass
    assert [(row["partition"], row["bytes"]) for row in sent.rows] == [(0, 0)]


def test_after_close_nothing_is_counted_and_the_fetcher_is_as_before(consumer: Any) -> None:
    before = consumer._fetcher._handle_fetch_response
    sent = Sent()
    closed = reporter(consumer, sent)
    for _ in range(2):
        closed.close()
    assert consumer._fetcher._handle_fetch_response is before
    assert len(sent.rows) == 1


class BlockedProducer:
    """A producer whose topic is gone: sending waits for it."""

    DEFAULT_CONFIG: Mapping[str, Any] = {}

    def __init__(self, **_: Any) -> None:
        self.may_go_on = threading.Event()
        self.closed = threading.Event()

    def send(self, *_: Any, **__: Any) -> None:
        self.may_go_on.wait(TEST_TIMEOUT)
        raise KafkaTimeoutError("Failed to update metadata")

    def close(self, timeout: float) -> None:  # noqa: ARG002
        self.closed.set()


def test_close_does_not_wait_for_a_topic_that_is_gone(
    consumer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread goes on by itself, and closes the producer."""
    monkeypatch.setattr(traffic_reporter, "KafkaProducer", BlockedProducer)
    running = TrafficReporter(consumer, "gone", every=NEVER, rack="a")
    producer = running._producer
    before = time.monotonic()
    running.close()
    # About two seconds; the producer would block for a minute.
    assert time.monotonic() - before < TEST_TIMEOUT / 2
    assert not producer.closed.is_set()
    assert "topic gone are lost: " in caplog.text
    assert "not sent in 2 s (check that the topic exists" in caplog.text
    producer.may_go_on.set()
    assert producer.closed.wait(TEST_TIMEOUT), "the producer is closed by the thread"


@pytest.mark.parametrize("error", [ValueError("planted"), RuntimeError(), KeyError("t")])
def test_the_thread_survives_any_error_and_logs_it_once(
    consumer: Any,
    error: Exception,
    reporters: list[TrafficReporter],
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent = Sent(error)
    reporters.append(reporter(consumer, sent, every=0.01))
    wait_until(lambda: len(sent.rows) > 2, TEST_TIMEOUT, "reports after the one that failed")
    assert caplog.text.count("traffic reports to topic reports are lost") == 1


def test_lost_reports_are_logged_again_with_their_number(
    consumer: Any, reporters: list[TrafficReporter], caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime(2026, 11, 21, 13, tzinfo=UTC)

    def send(_key: bytes, _value: bytes) -> None:
        raise KafkaTimeoutError("Failed to update metadata after 5.0 secs.")

    running = TrafficReporter(
        consumer, "missing", send=send, every=NEVER, rack="a", now=lambda: now
    )
    reporters.append(running)
    for _ in range(12):
        now += timedelta(seconds=60)
        running.report()
    # kafka-python's own lines are not counted: its consumer has no broker here.
    first, second = [each for each in caplog.messages if "traffic reports" in each]
    assert "topic missing are lost" in first
    assert "(check that the topic exists, and that this user may write to it); lost=1;" in first
    assert "lost=11;" in second


@pytest.mark.parametrize("first", [0, 1])
def test_closing_the_first_of_two_reporters_does_not_stop_the_second(
    consumer: Any, first: int
) -> None:
    sent = [Sent(), Sent()]
    running = [reporter(consumer, each) for each in sent]
    fetch(consumer)
    running[first].close()
    fetch(consumer)
    running[1 - first].close()
    fetch(consumer)
    assert (sent[first].bytes, sent[1 - first].bytes) == (5, 10)
    assert len(consumer.handled) == 3


@pytest.mark.parametrize("nearest_first", [False, True])
def test_close_leaves_reading_from_the_nearest_replica_enabled(
    consumer: Any, nearest_first: bool
) -> None:
    sent = Sent()
    if nearest_first:
        nearest = read_from_nearest(consumer, rack="a")
        running = reporter(consumer, sent)
    else:
        running = reporter(consumer, sent)
        nearest = read_from_nearest(consumer, rack="a")
    running.close()
    nearest._followers = nearest._followers.fetch_sent(BROKER, [TopicPartition("t", 0)], 1.0, 0.0)
    partition = fetch(consumer, error_code=OffsetOutOfRangeError.errno)
    assert partition.error_code == OffsetNotAvailableError.errno, "an error of a follower"
    assert sent.bytes == 0
    assert len(consumer.handled) == 1


def test_the_rack_is_that_of_the_assignor_or_client_rack(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RACKWARD_RACK", raising=False)
    for strategy, config, rack in (
        (LeaderRackAwareCooperativeStickyAssignor(rack="a"), {}, "a"),
        (RangePartitionAssignor, {"client_rack": "b"}, "b"),
        (RangePartitionAssignor, {}, None),
    ):
        consumer = consumers(strategy, **config)
        receive_metadata(consumer, t=[BROKER])
        complete(consumer, 1, t=[0])
        sent = Sent()
        with reporter(consumer, sent, rack=None):
            pass
        assert [row["to_rack"] for row in sent.rows] == [rack]


def test_invalid_options_are_refused(consumers: Consumers) -> None:
    consumer = consumers(RangePartitionAssignor)
    threads = threading.active_count()
    with pytest.raises(InvalidOptionError, match="every is 0: give a positive number"):
        reporter(consumer, Sent(), every=0)
    consumer.config["group_id"] = None
    with pytest.raises(InvalidOptionError, match="no group_id"):
        reporter(consumer, Sent())
    assert threading.active_count() == threads
