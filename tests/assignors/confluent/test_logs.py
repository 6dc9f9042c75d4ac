"""kafka-python's log lines of a member: to the application's logger, or dropped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from assignors.confluent import Consumer
from assignors.confluent.config import COOPERATIVE
from tests.support.waiting import TEST_TIMEOUT, wait_until

SETTINGS = {
    "group.id": "g",
    "client.id": "billing",
    "partition.assignment.strategy": COOPERATIVE,
    "bootstrap.servers": "127.0.0.1:1",
    "log_level": 0,
}


class Recorder(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kafka_log() -> Iterator[Recorder]:
    """Record what kafka-python's loggers log, from INFO."""
    log, recorder = logging.getLogger("kafka"), Recorder()
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(recorder)
    yield recorder
    log.removeHandler(recorder)
    log.setLevel(level)


def poll_for(consumer: Any, condition: Callable[[], object], what: str) -> None:
    def polled() -> bool:
        consumer.poll(0.05)
        return bool(condition())

    wait_until(polled, TEST_TIMEOUT, what)


def test_lines_go_to_the_logger_in_the_thread_that_polls(kafka_log: Recorder) -> None:
    logger, recorder = logging.Logger("application", logging.INFO), Recorder()
    logger.addHandler(recorder)
    consumer = Consumer(SETTINGS, logger=logger)
    consumer.subscribe(["t"])

    def warned() -> bool:
        return any(record.levelno >= logging.WARNING for record in recorder.records)

    poll_for(consumer, warned, "a warning of kafka-python")
    assert kafka_log.records == []
    consumer.close()
    assert {record.thread for record in recorder.records} == {threading.get_ident()}
    line = recorder.records[0].getMessage()
    assert line.startswith("kafka.")
    assert " [billing] " in line
    # While the consumer closes, no thread polls: warnings go to kafka-python's loggers.
    assert all(record.levelno >= logging.WARNING for record in kafka_log.records)


def test_an_exception_of_the_logger_is_raised_by_poll(kafka_log: Recorder) -> None:  # noqa: ARG001
    class Failing:
        def log(self, *_: object) -> None:
            raise LookupError("planned")

    consumer = Consumer(SETTINGS, logger=Failing())
    consumer.subscribe(["t"])
    with pytest.raises(LookupError, match="planned"):
        poll_for(consumer, lambda: False, "the exception")
    consumer.close()


def test_without_a_logger_lines_below_warning_are_dropped(kafka_log: Recorder) -> None:
    consumer = Consumer(SETTINGS)
    consumer.subscribe(["t"])
    poll_for(consumer, lambda: kafka_log.records, "a warning of kafka-python")
    consumer.close()
    assert {record.levelno >= logging.WARNING for record in kafka_log.records} == {True}
    # Lines of other threads are logged as before.
    kafka_log.records.clear()
    logging.getLogger("kafka.net.manager").info("a line of another client")
    assert [record.getMessage() for record in kafka_log.records] == ["a line of another client"]
