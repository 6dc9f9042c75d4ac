"""Events reach the thread that polls, in every kind of poll, and late polls are detected.

The events here are log lines of kafka-python for the application's ``logger``: the group's member
has some at once if no broker can be reached.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from assignors.confluent import Consumer
from assignors.confluent.polling import PollTimeout
from tests.support.waiting import TEST_TIMEOUT, wait_until


class EndCall(Exception):
    """Raised by a callback to end the call that it is called from."""


class Logger:
    """Records the threads in which lines of the group's member are logged.

    Each line ends the call that handles it while ``ends_calls`` is true.
    """

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.ends_calls = False

    def log(self, _level: int, _format: str, name: str, *_: object) -> None:
        if name.startswith("kafka"):
            self.threads.append(threading.get_ident())
            if self.ends_calls:
                raise EndCall


@pytest.fixture
def logger() -> Logger:
    return Logger()


@pytest.fixture
def consumer(logger: Logger) -> Iterator[Consumer]:
    consumer = Consumer(settings_with(logger))
    yield consumer
    logger.ends_calls = False
    with suppress(EndCall):
        consumer.poll(0)
    consumer.close()


def settings_with(logger: Logger) -> dict[str, Any]:
    return {
        "group.id": "g",
        "bootstrap.servers": "127.0.0.1:1",
        "partition.assignment.strategy": "leader-rack-aware-cooperative-sticky",
        "log_level": 0,
        "logger": logger,
    }


def test_without_a_subscription_poll_is_librdkafkas(consumer: Consumer) -> None:
    assert consumer.poll(0) is None
    native = confluent_kafka.Consumer.poll.__get__(consumer)
    assert consumer.poll == native
    assert type(consumer.poll) is type(native)
    consumer.subscribe(["t"])
    assert consumer.poll != native


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.poll(5.0),  # librdkafka's own: the consumer has not subscribed.
        lambda consumer: Consumer.poll(consumer, 2 * TEST_TIMEOUT),
        lambda consumer: consumer.consume(5, 2 * TEST_TIMEOUT),
    ],
    ids=["fast poll", "slow poll", "consume"],
)
def test_an_event_interrupts_a_call_in_progress(
    consumer: Consumer, logger: Logger, call: Callable[[Consumer], object]
) -> None:
    started = threading.Event()

    def run() -> None:
        consumer.poll(0)
        started.set()
        with suppress(EndCall):
            call(consumer)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(TEST_TIMEOUT)
    consumer.subscribe(["t"])
    wait_until(lambda: bool(logger.threads), TEST_TIMEOUT, "a line")
    assert thread.is_alive()
    assert set(logger.threads) == {thread.ident}
    # The next line ends a slow call.
    logger.ends_calls = True
    thread.join(TEST_TIMEOUT)
    assert not thread.is_alive()


def test_a_subclass_may_override_poll(logger: Logger) -> None:
    class Counting(Consumer):
        polls = 0

        def poll(self, timeout: float = -1) -> Any:
            self.polls += 1
            return super().poll(timeout)

    with Counting(settings_with(logger)) as consumer:
        consumer.poll(0)
        consumer.subscribe(["t"])
        wait_until(lambda: bool(consumer.poll(0) or logger.threads), TEST_TIMEOUT, "a line")
        assert consumer.polls >= 2
        assert "poll" not in vars(consumer)


def test_assignment_does_not_wait_for_a_poll_in_another_thread(consumer: Consumer) -> None:
    consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
    started, ended = threading.Event(), threading.Event()

    def run() -> None:
        consumer.poll(0)
        started.set()
        consumer.poll(2.0)
        ended.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(TEST_TIMEOUT)
    assert [partition.partition for partition in consumer.assignment()] == [0, 1]
    assert not ended.is_set()
    # Before 2.13, confluent's close frees memory that a poll in another thread still uses.
    thread.join(TEST_TIMEOUT)
    assert ended.is_set()


# Detecting an application that does not poll.


def test_an_application_that_polls_in_time_is_never_overdue() -> None:
    timeout = PollTimeout(10.0)
    now = 0.0
    timeout.polled(now)
    # The application polls every 9.9 seconds; a wake-up is sent a second after each poll.
    for _ in range(20):
        assert not timeout.wake_up_due(now + 0.9)
        assert timeout.wake_up_due(now + 1.0)
        timeout.wake_up_started(now + 1.0)
        timeout.wake_up_sent(now + 1.0)
        assert not timeout.wake_up_due(now + 9)
        now += 9.9
        assert timeout.overdue(now) is None
        timeout.polled(now)


def test_an_application_that_stops_polling_is_overdue() -> None:
    timeout = PollTimeout(10.0)
    timeout.polled(100.0)
    timeout.wake_up_started(101.0)
    timeout.wake_up_sent(101.0)
    assert timeout.overdue(111.0) is None
    late = timeout.overdue(111.5)
    assert late == 0.5
    timeout.polled(112.0)
    assert timeout.overdue(500.0) is None


def test_the_time_to_send_a_wake_up_does_not_count() -> None:
    timeout = PollTimeout(1.0)
    timeout.polled(0.0)
    timeout.wake_up_started(1.0)
    # A poll in progress delayed the wake-up.
    timeout.wake_up_sent(50.0)
    assert timeout.overdue(50.9) is None
    assert timeout.overdue(51.5) == 0.5


def test_a_wake_up_may_be_answered_while_it_is_sent() -> None:
    timeout = PollTimeout(1.0)
    timeout.wake_up_started(1.0)
    timeout.polled(1.1)
    timeout.wake_up_sent(1.2)
    assert not timeout.wake_up_pending
    assert timeout.overdue(100.0) is None


def test_the_wake_up_interval_depends_on_the_timeout() -> None:
    assert PollTimeout(300.0).wake_up_interval == 1.0
    assert PollTimeout(0.5).wake_up_interval == 0.05
