"""Events reach the thread that polls, whichever way it polls. No broker is there."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, TopicPartition

from assignors.confluent import Consumer
from assignors.confluent.errors import error_message
from assignors.confluent.events import Change, Committed, Step
from tests.support.waiting import PATIENCE, wait_until

SETTINGS = {
    "group.id": "g",
    "partition.assignment.strategy": "leader-rack-aware-cooperative-sticky",
    "log_level": 0,
}
LENGTHS = (3.0, 15.0, PATIENCE)
"""Seconds of a call that nothing ends early: longer ones for a machine that stalls meanwhile."""


class Enough(Exception):
    """Ends a call that a callback comes from."""


class Note:
    """A callback that notes what it hears, and in which thread; "enough" ends the call."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.threads: list[int] = []
        self.called = threading.Event()

    def __call__(self, error: object, partitions: list[TopicPartition]) -> None:
        assert error is None
        self.heard.append(partitions[0].topic)
        self.threads.append(threading.get_ident())
        self.called.set()
        if self.heard[-1] == "enough":
            raise Enough

    def forget(self) -> None:
        self.heard.clear()
        self.threads.clear()
        self.called.clear()


@pytest.fixture
def note() -> Note:
    return Note()


@pytest.fixture
def consumer(note: Note) -> Iterator[Consumer]:
    made = Consumer({**SETTINGS, "on_commit": note})
    yield made
    made.close()


class Caller:
    """A thread that polls once, so that it is known, and is then in a long call."""

    def __init__(self, consumer: Consumer, call: Callable[[], Any]) -> None:
        self.outcome: list[Any] = []
        self._consumer = consumer
        self._call = call
        self._ready = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        consumer._unsettle()
        self.thread.start()
        assert self._ready.wait(PATIENCE)

    def _run(self) -> None:
        try:
            self._consumer.poll(0)
            self._ready.set()
            self.outcome.append(self._call())
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.outcome.append(error)

    def is_under_way_at(self, event: threading.Event) -> bool:
        """Wait for the event, or for the end of the call."""
        wait_until(
            lambda: event.is_set() or not self.thread.is_alive(),
            2 * PATIENCE,
            "the event, or the end of the call",
        )
        return self.thread.is_alive()

    def end(self) -> None:
        """Have the call end by what a callback raises."""
        self._consumer._inbox.put(committed("enough"))
        self.thread.join(2 * PATIENCE)
        assert not self.thread.is_alive()
        if self.outcome == [None]:
            # It was in C alone, and the next call raises.
            with pytest.raises(Enough):
                self._consumer.poll(0)
        else:
            assert [type(each) for each in self.outcome] == [Enough]


def committed(name: str) -> Committed:
    return Committed(None, [TopicPartition(name, 0, 1)])


def test_while_nothing_happens_poll_is_librdkafkas(consumer: Consumer) -> None:
    assert consumer.poll(0) is None
    theirs = confluent_kafka.Consumer.poll.__get__(consumer)
    assert consumer.poll == theirs
    assert type(consumer.poll) is type(theirs)


def test_an_event_takes_librdkafkas_poll_away_until_it_is_served(
    consumer: Consumer, note: Note
) -> None:
    consumer.poll(0)
    consumer._inbox.put(committed("one"))
    assert "poll" not in consumer.__dict__
    consumer.poll(0)
    assert note.heard == ["one"]
    assert "poll" in consumer.__dict__


def call(consumer: Consumer, kind: str, seconds: float) -> Callable[[], Any]:
    calls: dict[str, Callable[[], Any]] = {
        "poll": lambda: consumer.poll(seconds),
        "slow poll": lambda: Consumer.poll(consumer, 6 * PATIENCE),
        "consume": lambda: consumer.consume(5, 6 * PATIENCE),
    }
    return calls[kind]


@pytest.mark.parametrize("kind", ["poll", "slow poll", "consume"])
def test_a_call_under_way_is_interrupted(consumer: Consumer, note: Note, kind: str) -> None:
    for seconds in LENGTHS:
        note.forget()
        caller = Caller(consumer, call(consumer, kind, seconds))
        if kind == "slow poll":
            consumer._unsettle()
        consumer._inbox.put(committed("one"))
        if caller.is_under_way_at(note.called):
            break
        consumer.poll(0)
    assert caller.thread.is_alive()
    assert (note.heard, note.threads) == (["one"], [caller.thread.ident])
    caller.end()


def test_an_error_of_the_group_is_returned_by_poll_and_by_consume(consumer: Consumer) -> None:
    for name in ("one", "two", "three"):
        consumer._inbox.put(error_message(KafkaError.UNKNOWN_TOPIC_OR_PART, "gone", name))
    message = consumer.poll(0)
    assert message is not None
    assert message.topic() == "one"
    first, *more = consumer.consume(5, 0)
    assert first.topic() == "two"
    assert more == []
    (last,) = consumer.consume(5, 0)
    assert last.topic() == "three"
    assert consumer.consume(5, 0) == []


def test_what_a_callback_raises_comes_out_of_the_call(consumer: Consumer) -> None:
    for act in (lambda: consumer.poll(0), lambda: consumer.consume(3, 0)):
        consumer._inbox.put(committed("enough"))
        with pytest.raises(Enough):
            act()
        assert not consumer._inbox
    consumer.poll(0)
    assert "poll" in consumer.__dict__


def test_a_class_of_ones_own_is_served_too(note: Note) -> None:
    class Counting(Consumer):
        polls = 0

        def poll(self, timeout: float = -1) -> Any:
            self.polls += 1
            return super().poll(timeout)

    with Counting({**SETTINGS, "on_commit": note}) as consumer:
        consumer.poll(0)
        consumer._inbox.put(committed("one"))
        consumer.poll(0)
        assert (consumer.polls, len(note.heard)) == (2, 1)


def test_a_callback_may_poll(consumer: Consumer) -> None:
    polled: list[Any] = []
    consumer._on = {Change.ASSIGN: lambda each, _: polled.append(each.consume(1, 0))}
    ends: list[bool] = []
    consumer._inbox.put(Step(Change.ASSIGN, (), ends.append))
    consumer.poll(0)
    assert polled == [[]]
    assert ends == [True]


def test_another_thread_sees_the_assignment_while_one_polls(consumer: Consumer) -> None:
    consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
    for seconds in LENGTHS:
        caller = Caller(consumer, call(consumer, "poll", seconds))
        assert [p.partition for p in consumer.assignment()] == [0, 1]
        if caller.thread.is_alive():
            break
    assert caller.thread.is_alive()
    caller.end()


def test_an_abandoned_consumer_leaves_no_threads() -> None:
    consumer = Consumer({**SETTINGS, "bootstrap.servers": "127.0.0.1:1"})
    consumer.subscribe(["t"])
    consumer.poll(0)
    threads = [consumer._pulse._thread, consumer._membership._thread]
    gone = weakref.ref(consumer)
    del consumer

    def collected() -> bool:
        gc.collect()
        # A thread that beats just now holds it for a moment.
        return gone() is None

    wait_until(collected, PATIENCE, "nobody holds the consumer")
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_closing_is_done_once_and_ends_the_threads(note: Note) -> None:
    consumer = Consumer({**SETTINGS, "bootstrap.servers": "127.0.0.1:1", "on_commit": note})
    consumer.subscribe(["t"])
    consumer.poll(0)
    threads = [consumer._pulse._thread, consumer._membership._thread]
    consumer.close()
    for thread in threads:
        # close waits for them, but not for ever.
        thread.join(PATIENCE)
        assert not thread.is_alive()
    consumer.close()
    for act in (
        consumer.poll,
        consumer.consume,
        consumer.assignment,
        consumer.memberid,
        consumer.consumer_group_metadata,
        consumer.unsubscribe,
        consumer.unassign,
        consumer.commit,
        lambda: consumer.subscribe(["t"]),
        lambda: consumer.assign([]),
        lambda: consumer.incremental_assign([]),
        lambda: consumer.incremental_unassign([]),
        lambda: consumer.position([]),
        lambda: consumer.store_offsets(offsets=[]),
        lambda: consumer.seek(TopicPartition("t", 0, 0)),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            act()
