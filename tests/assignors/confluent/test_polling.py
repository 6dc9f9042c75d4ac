"""Events reach the thread that polls, in every kind of poll, and late polls are detected.

No broker is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, TopicPartition

from assignors.confluent import Consumer
from assignors.confluent.events import CommitResult, RebalanceEvent, RebalanceKind, error_message
from assignors.confluent.polling import PollTimeout
from tests.support.waiting import TEST_TIMEOUT, wait_until

SETTINGS = {
    "group.id": "g",
    "partition.assignment.strategy": "leader-rack-aware-cooperative-sticky",
    "log_level": 0,
}
CALL_SECONDS = (3.0, 15.0, TEST_TIMEOUT)
"""Seconds of a call that nothing ends early: the longer ones are for a machine that stalls."""


class EndCall(Exception):
    """Raised by a callback to end the call that it is called from."""


class OnCommit:
    """An ``on_commit`` that records the topic and the thread of each call.

    The topic "end" ends the call.
    """

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.threads: list[int] = []
        self.called = threading.Event()

    def __call__(self, error: object, partitions: list[TopicPartition]) -> None:
        assert error is None
        self.topics.append(partitions[0].topic)
        self.threads.append(threading.get_ident())
        self.called.set()
        if self.topics[-1] == "end":
            raise EndCall

    def reset(self) -> None:
        self.topics.clear()
        self.threads.clear()
        self.called.clear()


@pytest.fixture
def on_commit() -> OnCommit:
    return OnCommit()


@pytest.fixture
def consumer(on_commit: OnCommit) -> Iterator[Consumer]:
    consumer = Consumer({**SETTINGS, "on_commit": on_commit})
    yield consumer
    consumer.close()


def commit_of(topic: str) -> CommitResult:
    return CommitResult(None, [TopicPartition(topic, 0, 1)])


class PollingThread:
    """A thread that polls once, so that its identity is known, and is then in a long call."""

    def __init__(self, consumer: Consumer, call: Callable[[], Any]) -> None:
        self.results: list[Any] = []
        self._consumer = consumer
        self._call = call
        self._ready = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        consumer._poller.disable_fast_poll()
        self.thread.start()
        assert self._ready.wait(TEST_TIMEOUT)

    def _run(self) -> None:
        try:
            self._consumer.poll(0)
            self._ready.set()
            self.results.append(self._call())
        except Exception as error:  # noqa: BLE001 - checked by the test
            self.results.append(error)

    def is_in_call_at(self, event: threading.Event) -> bool:
        """Wait for the event, or for the end of the call."""
        wait_until(
            lambda: event.is_set() or not self.thread.is_alive(),
            2 * TEST_TIMEOUT,
            "the event, or the end of the call",
        )
        return self.thread.is_alive()

    def end(self) -> None:
        """End the call by an exception of a callback."""
        self._consumer._events.put(commit_of("end"))
        self.thread.join(2 * TEST_TIMEOUT)
        assert not self.thread.is_alive()
        if self.results == [None]:
            # The fast poll has returned, and the next call raises.
            with pytest.raises(EndCall):
                self._consumer.poll(0)
        else:
            assert [type(each) for each in self.results] == [EndCall]


def test_without_events_poll_is_librdkafkas(consumer: Consumer) -> None:
    assert consumer.poll(0) is None
    native = confluent_kafka.Consumer.poll.__get__(consumer)
    assert consumer.poll == native
    assert type(consumer.poll) is type(native)


def test_an_event_disables_the_fast_poll_until_it_is_handled(
    consumer: Consumer, on_commit: OnCommit
) -> None:
    consumer.poll(0)
    consumer._events.put(commit_of("one"))
    assert "poll" not in consumer.__dict__
    consumer.poll(0)
    assert on_commit.topics == ["one"]
    assert "poll" in consumer.__dict__


def call_of(consumer: Consumer, kind: str, seconds: float) -> Callable[[], Any]:
    calls: dict[str, Callable[[], Any]] = {
        "poll": lambda: consumer.poll(seconds),
        "slow poll": lambda: Consumer.poll(consumer, 6 * TEST_TIMEOUT),
        "consume": lambda: consumer.consume(5, 6 * TEST_TIMEOUT),
    }
    return calls[kind]


@pytest.mark.parametrize("kind", ["poll", "slow poll", "consume"])
def test_an_event_interrupts_a_call_in_progress(
    consumer: Consumer, on_commit: OnCommit, kind: str
) -> None:
    for seconds in CALL_SECONDS:
        on_commit.reset()
        polling = PollingThread(consumer, call_of(consumer, kind, seconds))
        if kind == "slow poll":
            consumer._poller.disable_fast_poll()
        consumer._events.put(commit_of("one"))
        if polling.is_in_call_at(on_commit.called):
            break
        consumer.poll(0)
    assert polling.thread.is_alive()
    assert (on_commit.topics, on_commit.threads) == (["one"], [polling.thread.ident])
    polling.end()


def test_errors_of_the_group_are_returned_by_poll_and_consume(consumer: Consumer) -> None:
    for topic in ("one", "two", "three"):
        consumer._events.put(error_message(KafkaError.UNKNOWN_TOPIC_OR_PART, "gone", topic))
    message = consumer.poll(0)
    assert message is not None
    assert message.topic() == "one"
    first, *more = consumer.consume(5, 0)
    assert first.topic() == "two"
    assert more == []
    (last,) = consumer.consume(5, 0)
    assert last.topic() == "three"
    assert consumer.consume(5, 0) == []


def test_an_exception_of_a_callback_is_raised_by_the_call(consumer: Consumer) -> None:
    for call in (lambda: consumer.poll(0), lambda: consumer.consume(3, 0)):
        consumer._events.put(commit_of("end"))
        with pytest.raises(EndCall):
            call()
        assert not consumer._events
    consumer.poll(0)
    assert "poll" in consumer.__dict__


def test_a_subclass_may_override_poll(on_commit: OnCommit) -> None:
    class Counting(Consumer):
        polls = 0

        def poll(self, timeout: float = -1) -> Any:
            self.polls += 1
            return super().poll(timeout)

    with Counting({**SETTINGS, "on_commit": on_commit}) as consumer:
        consumer.poll(0)
        consumer._events.put(commit_of("one"))
        consumer.poll(0)
        assert (consumer.polls, len(on_commit.topics)) == (2, 1)
        assert "poll" not in vars(consumer)


def test_a_callback_may_poll(consumer: Consumer) -> None:
    polled: list[Any] = []
    consumer._assignment.callbacks = {
        RebalanceKind.ASSIGN: lambda each, _: polled.append(each.consume(1, 0))
    }
    handled: list[bool] = []
    consumer._events.put(RebalanceEvent(RebalanceKind.ASSIGN, (), handled.append))
    consumer.poll(0)
    assert polled == [[]]
    assert handled == [True]


def test_assignment_does_not_wait_for_a_poll_in_another_thread(consumer: Consumer) -> None:
    consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
    for seconds in CALL_SECONDS:
        polling = PollingThread(consumer, call_of(consumer, "poll", seconds))
        assert [p.partition for p in consumer.assignment()] == [0, 1]
        if polling.thread.is_alive():
            break
    assert polling.thread.is_alive()
    polling.end()


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


def test_an_application_that_stops_is_overdue_after_both_intervals() -> None:
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
