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
from assignors.confluent.inbox import Change, Committed, Step

SETTINGS = {
    "group.id": "g",
    "partition.assignment.strategy": "leader-rack-aware-cooperative-sticky",
    "log_level": 0,
}
SOON = 10.0
"""Seconds in which everything here happens, on however busy a machine."""

LONG = 3.0
"""Seconds of a call that nothing ends early."""


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
        assert self._ready.wait(SOON)

    def _run(self) -> None:
        try:
            self._consumer.poll(0)
            self._ready.set()
            self.outcome.append(self._call())
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.outcome.append(error)

    def end(self) -> None:
        """Have the call end by what a callback raises."""
        self._consumer._inbox.put(committed("enough"))
        self.thread.join(SOON)
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


@pytest.mark.parametrize("long", ["poll", "slow poll", "consume"])
def test_a_call_under_way_is_interrupted(consumer: Consumer, note: Note, long: str) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "poll": lambda: consumer.poll(LONG),
        "slow poll": lambda: Consumer.poll(consumer, 6 * SOON),
        "consume": lambda: consumer.consume(5, 6 * SOON),
    }
    caller = Caller(consumer, calls[long])
    if long == "slow poll":
        consumer._unsettle()
    consumer._inbox.put(committed("one"))
    assert note.called.wait(SOON)
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
    caller = Caller(consumer, lambda: consumer.poll(LONG))
    assert [p.partition for p in consumer.assignment()] == [0, 1]
    assert caller.thread.is_alive()
    caller.end()


def test_an_abandoned_consumer_leaves_no_threads() -> None:
    consumer = Consumer({**SETTINGS, "bootstrap.servers": "127.0.0.1:1"})
    consumer.subscribe(["t"])
    consumer.poll(0)
    threads = [consumer._pulse._thread, consumer._membership._thread]
    gone = weakref.ref(consumer)
    del consumer
    gc.collect()
    assert gone() is None
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()


def test_closing_is_done_once_and_ends_the_threads(note: Note) -> None:
    consumer = Consumer({**SETTINGS, "bootstrap.servers": "127.0.0.1:1", "on_commit": note})
    consumer.subscribe(["t"])
    consumer.poll(0)
    threads = [consumer._pulse._thread, consumer._membership._thread]
    consumer.close()
    assert not any(thread.is_alive() for thread in threads)
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
