"""``poll`` and ``consume``: C's own, until the group has something for the application.

A wrapper of Python around ``poll`` costs five to fifteen percent of what it reads. So while there
is nothing to tell, the attribute ``poll`` of a consumer *is* librdkafka's, and Python is run:

- by whoever polls next, when an event arrives: the attribute is taken away, and the method of
  the class, which looks into the inbox first, comes to light;
- in a poll that is under way, by a knock. A commit of nothing is left on the consumer's queue;
  librdkafka answers it at once, without a broker and ahead of all records, by ``on_commit``,
  called in the thread that polls, where confluent calls the callbacks of an application.

Since 2.16 confluent lets one thread at a time into a consumer. A knock that waits for a poll to
end would never interrupt one, so it goes in by the identity of the thread that polls, as calls
from within callbacks do. Which thread that is shows whenever Python is run, which is at least
every few seconds; should another thread take over meanwhile, its first poll is not interrupted.

``consume`` waits for more records in several calls of C. Each moves librdkafka's positions past
what it read, long before the application has it: `Unreturned` says up to where it does.

What a callback raises comes out of ``poll`` and ``consume`` as it does of confluent's, but never
instead of records: confluent drops those that it collected in the same call. It may be the next
call that raises.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Protocol

import confluent_kafka
from confluent_kafka import OFFSET_INVALID, Message, TopicPartition, cimpl

from assignors.confluent.events import Event, Inbox
from assignors.confluent.offsets import Place, Position

# ---- Whether the application still polls, told without a word of Python at each poll.
#
# An application that polls runs in C alone. Now and then a knock is left in the queue that it
# polls; if it polls, the knock is answered. An application has not polled since the oldest
# unanswered knock was left, so one that is older than ``max.poll.interval.ms`` says that it
# stopped; this is never too early, and late by no more than the time between knocks.


class Liveness:
    """Knocks and answers; times are seconds of one clock. Thread-safe."""

    def __init__(self, max_poll_interval: float) -> None:
        self.longest = max_poll_interval
        self.every = min(1.0, max_poll_interval / 10)
        self._seen = 0.0
        self._knocked: float | None = None
        self._lock = threading.Lock()

    def answered(self, now: float) -> None:
        """The application polled, or begins to count as one that should."""
        with self._lock:
            self._seen = now
            self._knocked = None

    def knocks(self, now: float) -> None:
        """A knock is about to be left in the queue."""
        with self._lock:
            self._knocked = now

    def knocked(self, now: float) -> None:
        """The knock is in the queue, unless it was answered already."""
        with self._lock:
            if self._knocked is not None:
                self._knocked = now

    @property
    def waiting(self) -> bool:
        """Whether a knock is in the queue."""
        return self._knocked is not None

    def should_knock(self, now: float) -> bool:
        """Whether it is time for another knock."""
        with self._lock:
            return self._knocked is None and now - self._seen >= self.every

    def overdue(self, now: float) -> float | None:
        """The seconds by which the application is late, or None."""
        with self._lock:
            late = None if self._knocked is None else now - self._knocked - self.longest
            return late if late is not None and late > 0 else None


SLICE = 0.1
"""Seconds for which the slow path waits before it looks into the inbox again."""

LONG = 1.0
"""Seconds for which a call may run without looking into the inbox."""

MOST = 1_000_000
"""What ``consume`` collects at most."""

KNOCK = "rackward.knock"
"""The topic of the commit of nothing."""

_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
_IDENTITY: contextvars.ContextVar[int] | None = (
    getattr(cimpl, "_reentry_identity_var", None) if _gil else None
)


class Unreturned:
    """The records that a call of ``consume`` has read and not yet returned.

    What may be committed of a partition is at most the offset of the first of them, while
    librdkafka's position is behind the last. The position moves inside a call of C, before its
    records are listed here; so other threads read positions only between two such calls.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reader: int | None = None
        self._waiting = 0
        self._collected: dict[int, Sequence[Message]] = {}

    @contextmanager
    def collecting(self, messages: Sequence[Message]) -> Iterator[None]:
        """``messages``, which grows, is what a call of ``consume`` is going to return."""
        self._collected[id(messages)] = messages
        try:
            yield
        finally:
            del self._collected[id(messages)]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold off `positions` of other threads; those that wait already go first."""
        here = threading.get_ident()
        if self._reader == here:  # A callback of the application's reads, within a call that reads.
            yield
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and self._reader is None)
            self._reader = here
        try:
            yield
        finally:
            with self._changed:
                self._reader = None
                self._changed.notify_all()

    @contextmanager
    def positions(self, places: Collection[Place]) -> Iterator[dict[Place, Position]]:
        """Yield where the records of ``places`` begin that are not returned.

        Positions do not move before the block is left. Waits until the call of C that reads in
        another thread has ended, `SLICE` seconds at most.
        """
        with self._changed:
            if self._reader not in (None, threading.get_ident()):
                self._waiting += 1
                try:
                    self._changed.wait_for(lambda: self._reader is None)
                finally:
                    self._waiting -= 1
                    self._changed.notify_all()
            yield _beginnings(chain(*self._collected.values()), set(places))


def _beginnings(messages: Iterable[Message], sought: set[Place]) -> dict[Place, Position]:
    """The position before the first of ``messages`` of each partition that is ``sought``."""
    found: dict[Place, Position] = {}
    for message in messages:
        if len(found) == len(sought):
            break
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if message.error() is None and topic is not None and partition is not None:
            place = (topic, partition)
            if place in sought and place not in found and offset is not None:
                epoch = message.leader_epoch()
                found[place] = Position(offset, -1 if epoch is None else epoch)
    return found


class PollingConsumer(confluent_kafka.Consumer):
    """A consumer that serves an inbox in the thread that polls."""

    def _begin_polling(self, inbox: Inbox, liveness: Liveness) -> None:
        self._inbox = inbox
        self._liveness = liveness
        self._caller = 0
        self._serving = threading.Lock()
        self._switching = threading.Lock()
        self._door = threading.RLock()
        self._closed = False
        self._deferring = False
        self._fast = False
        self._raised: BaseException | None = None
        self._unreturned = Unreturned()

    # ---- what subclasses say

    def _handle(self, event: Event) -> None:
        """Do what an event asks for, in the thread that polls."""
        raise NotImplementedError

    def _at_rest(self) -> bool:
        """Whether nothing is expected to happen that a poll under way would have to tell."""
        raise NotImplementedError

    # ---- what the application calls

    def poll(self, timeout: float = -1) -> Message | None:
        """As confluent's."""
        if not isinstance(timeout, int | float) or (self._fast and 0 <= timeout <= LONG):
            return super().poll(timeout)
        until = None if timeout < 0 else time.monotonic() + timeout
        while True:
            message = self._look_in()
            if message is not None:
                return message
            message = super().poll(_slice(until))
            if message is None and self._raised is not None:
                raise self._take_raised()
            if message is not None or _is_over(until):
                self._settle()
                return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """As confluent's."""
        if (
            not isinstance(timeout, int | float)
            or not isinstance(num_messages, int)
            or not 0 < num_messages <= MOST
        ):
            return super().consume(num_messages, timeout)
        if self._fast and 0 <= timeout <= LONG:
            return self._consume_once(num_messages, timeout)
        found: list[Message] = []
        with self._unreturned.collecting(found):
            self._collect(found, num_messages, timeout)
        self._settle()
        return found

    def _collect(self, found: list[Message], num_messages: int, timeout: float) -> None:
        until = None if timeout < 0 else time.monotonic() + timeout
        try:
            while len(found) < num_messages:
                if not found:
                    found += filter(None, [self._look_in()])
                elif self._inbox or self._raised is not None:
                    break
                # What was read must reach the application before it gives up where it came from.
                self._deferring = bool(found)
                with self._unreturned.reading():
                    found += self._consume_once(num_messages - len(found), _slice(until))
                if _is_over(until):
                    break
        except BaseException as error:
            if not found:
                raise
            self._raised = error
        finally:
            self._deferring = False

    def _consume_once(self, num_messages: int, timeout: float) -> list[Message]:
        found = super().consume(num_messages, timeout)
        if not found and self._raised is not None:
            raise self._take_raised()
        return found

    # ---- the inbox

    def _look_in(self) -> Message | None:
        """Do what is to be done in this thread; a message of the group's, if there is one."""
        self._caller = _identity()
        self._liveness.answered(time.monotonic())
        if self._raised is not None:
            raise self._take_raised()
        self._serve()
        return self._inbox.take_message()

    def _take_raised(self) -> BaseException:
        raised, self._raised = self._raised, None
        assert raised is not None
        return raised

    def _serve(self) -> None:
        # Another thread may be at it, or this one: a callback that polls.
        if not self._serving.acquire(blocking=False):
            return
        try:
            while (event := self._inbox.take()) is not None:
                self._handle(event)
        finally:
            self._serving.release()

    def _settle(self) -> None:
        """Let C poll alone, if there is nothing that it would pass over."""
        if not self._at_rest():
            return
        with self._switching:
            if self._inbox or self._raised is not None:
                return
            self._fast = True
            # Not where a class of the application's has a poll of its own.
            if type(self).poll is PollingConsumer.poll:
                self.__dict__["poll"] = super().poll

    def _unsettle(self) -> None:
        """Have the next poll look into the inbox."""
        with self._switching:
            self._fast = False
            self.__dict__.pop("poll", None)

    # ---- knocks

    def _knock(self) -> None:
        """Interrupt the poll that is under way, if there is one; else the next."""
        self._liveness.knocks(time.monotonic())
        nothing = [TopicPartition(KNOCK, 0, OFFSET_INVALID)]
        self._enter(lambda: super(PollingConsumer, self).commit(offsets=nothing, asynchronous=True))
        self._liveness.knocked(time.monotonic())

    def _enter(self, call: Callable[[], Any]) -> Any:
        """``call`` a method of confluent's, though another thread be in one.

        Not while that is ``close``, which ends what the call would use.
        """

        def enter() -> Any:
            if _IDENTITY is not None and not self._closed:
                _IDENTITY.set(self._caller)
            return call()

        with self._door:
            return contextvars.copy_context().run(enter)

    def _answer(self) -> None:
        """A knock is heard, in the thread that polls."""
        self._caller = _identity()
        self._liveness.answered(time.monotonic())
        if self._deferring:
            return
        try:
            self._serve()
        except BaseException as error:  # noqa: BLE001 - it is raised by the next call
            self._raised = error
            self._unsettle()


def _identity() -> int:
    """What confluent knows this thread by."""
    return (_IDENTITY.get() if _IDENTITY is not None else 0) or threading.get_ident()


def _slice(until: float | None) -> float:
    return SLICE if until is None else min(SLICE, max(0.0, until - time.monotonic()))


def _is_over(until: float | None) -> bool:
    return until is not None and time.monotonic() >= until


# ---- What must happen on time though the application does not ask: knocks, and commits.

BEAT = 0.25
"""Seconds between looks at the clock."""


class Beating(Protocol):
    """What is kept going."""

    def _beat(self, now: float) -> None:
        """Do what is due at ``now``, the seconds of `time.monotonic`."""


class Pulse:
    """A thread that lives as long as its consumer, and not a moment of its own will longer.

    It may wait for the application to leave a poll, which is why nothing else waits for it.
    """

    def __init__(self, consumer: Beating, name: str) -> None:
        self._consumer = weakref.ref(consumer)
        self._due = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(
            target=self._run, name=f"rackward-pulse-{name}", daemon=True
        )

    def start(self) -> None:
        """Begin, unless it has begun."""
        if self._thread.ident is None:
            self._thread.start()

    def beat(self) -> None:
        """Look at the clock now."""
        self._due.set()

    def stop(self, patience: float = 0.0) -> None:
        """End, and wait ``patience`` seconds for the end."""
        self._stopped = True
        self._due.set()
        if patience and self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(patience)

    def _run(self) -> None:
        while True:
            self._due.wait(BEAT)
            self._due.clear()
            consumer = self._consumer()
            if self._stopped or consumer is None:
                return
            consumer._beat(time.monotonic())
            del consumer
