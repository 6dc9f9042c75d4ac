"""``poll`` and ``consume``: librdkafka's own unless the group has an event for the application.

A Python wrapper around ``poll`` costs five to fifteen percent of the throughput. So while there is
no event, the attribute ``poll`` of a consumer *is* librdkafka's (the fast poll). Python runs:

- in the next poll after an event has arrived: the attribute is removed, which uncovers the class's
  own method, and that handles the events first;
- in a poll that is in progress, by a wake-up. A commit of nothing is put into the consumer's queue.
  librdkafka answers it at once, without a broker and ahead of all records, by ``on_commit``, which
  it calls in the thread that polls, like all callbacks of an application.

Since 2.16 confluent admits one thread at a time into a consumer. A wake-up that waited for the end
of a poll could not interrupt it, so it is sent under the identity of the thread that polls, like a
call from within a callback. The polling thread is known whenever Python runs, at least every few
seconds. If another thread takes over in between, its first poll cannot be interrupted.

The same wake-ups show whether the application polls at all, without any Python code in a fast poll:
see :class:`PollTimeout`.

``consume`` waits for more records in several calls of C. Each of them moves librdkafka's positions
past what it read, before the application has received it. :class:`UnreturnedRecords` corrects the
positions.

An exception of a callback is raised by ``poll`` and ``consume``, as in confluent, but never in
place of records: confluent drops the records that it collected in the same call. It may be raised
by the next call.
"""

from __future__ import annotations

import contextvars
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_INVALID, Message, TopicPartition

from assignors.confluent.events import Event, EventQueue, PartitionKey, Position
from assignors.confluent.internals import REENTRY_IDENTITY

SLOW_POLL_SECONDS = 0.1
"""Seconds that a slow poll waits before it handles events again."""

MAX_FAST_TIMEOUT = 1.0
"""Seconds. A call with a longer timeout is slow, so that events are handled meanwhile."""

MAX_RECORDS = 1_000_000
"""The limit of ``consume``."""

WAKE_UP_TOPIC = "rackward.wake-up"
"""The topic in the commit of nothing."""

TICK_SECONDS = 0.25
"""Seconds between two ticks of a Ticker."""


class NativeConsumer:
    """confluent's own methods of a consumer, also for calls while another thread polls."""

    def __init__(self, methods: confluent_kafka.Consumer) -> None:
        """``methods`` is ``super()`` of the consumer."""
        self.methods = methods
        self.closed = False
        self._polling_thread = 0
        self._lock = threading.RLock()

    def set_polling_thread(self) -> None:
        """Record that this thread polls, by confluent's identity of it."""
        identity = 0 if REENTRY_IDENTITY is None else REENTRY_IDENTITY.get()
        self._polling_thread = identity or threading.get_ident()

    def close(self) -> None:
        """End calls under the polling thread's identity: closing destroys what they would use."""
        with self._lock:
            self.closed = True

    def call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method of confluent's without waiting for the end of a poll."""

        def run() -> Any:
            if REENTRY_IDENTITY is not None and not self.closed:
                REENTRY_IDENTITY.set(self._polling_thread)
            return method(*args, **kwargs)

        with self._lock:
            return contextvars.copy_context().run(run)

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that librdkafka reads."""
        partitions: list[TopicPartition] = self.call(self.methods.assignment)
        return partitions

    def wake_up(self) -> None:
        """Put a commit of nothing into the queue that the application polls."""
        nothing = [TopicPartition(WAKE_UP_TOPIC, 0, OFFSET_INVALID)]
        self.call(self.methods.commit, offsets=nothing, asynchronous=True)


class Poller:
    """Handles events in the thread that polls, and switches between the fast and the slow poll.

    handle
        Handles one event; may raise.
    is_idle
        Returns whether no event is expected that a poll in progress would delay.
    fast_poll_target
        Where the attribute ``poll`` is set for the fast poll, the consumer's ``__dict__``; None for
        a class that overrides ``poll``.
    """

    def __init__(
        self,
        native: NativeConsumer,
        events: EventQueue,
        timeout: PollTimeout,
        *,
        handle: Callable[[Event], None],
        is_idle: Callable[[], bool],
        fast_poll_target: MutableMapping[str, Any] | None,
    ) -> None:
        self.timeout = timeout
        self.unreturned = UnreturnedRecords()
        self._native = native
        self._events = events
        self._handle = handle
        self._is_idle = is_idle
        self._fast_poll_target = fast_poll_target
        self._fast = False
        self._switch_lock = threading.Lock()
        self._handling = threading.Lock()
        self._deferring = False
        self._raised: BaseException | None = None

    # ---- poll and consume

    def is_fast(self, timeout: object) -> bool:
        """Return whether a call with this timeout needs no Python code.

        A timeout of a wrong type is for librdkafka to refuse.
        """
        if not isinstance(timeout, int | float):
            return True
        return self._fast and 0 <= timeout <= MAX_FAST_TIMEOUT

    def poll(self, timeout: float) -> Message | None:
        """Poll slowly: handle events, then wait for a record in short calls of C."""
        deadline = None if timeout < 0 else time.monotonic() + timeout
        while True:
            message = self._next_error()
            if message is not None:
                return message
            message = self._native.methods.poll(_slow_poll_timeout(deadline))
            if message is None and self._raised is not None:
                raise self._take_raised()
            if message is not None or _has_passed(deadline):
                self._enable_fast_poll()
                return message

    def consume(self, num_messages: int, timeout: float) -> list[Message]:
        """Consume as confluent does, with events handled."""
        if (
            not isinstance(timeout, int | float)
            or not isinstance(num_messages, int)
            or not 0 < num_messages <= MAX_RECORDS
        ):
            return self._native.methods.consume(num_messages, timeout)
        if self.is_fast(timeout):
            return self._consume_once(num_messages, timeout)
        messages: list[Message] = []
        with self.unreturned.collecting(messages):
            self._collect(messages, num_messages, timeout)
        self._enable_fast_poll()
        return messages

    def _collect(self, messages: list[Message], num_messages: int, timeout: float) -> None:
        deadline = None if timeout < 0 else time.monotonic() + timeout
        try:
            while len(messages) < num_messages:
                if not messages:
                    messages += filter(None, [self._next_error()])
                elif self._events or self._raised is not None:
                    break
                # The application must receive records before their partition is revoked.
                self._deferring = bool(messages)
                with self.unreturned.reading():
                    wanted = num_messages - len(messages)
                    messages += self._consume_once(wanted, _slow_poll_timeout(deadline))
                if _has_passed(deadline):
                    break
        except BaseException as error:
            if not messages:
                raise
            self._raised = error
        finally:
            self._deferring = False

    def _consume_once(self, num_messages: int, timeout: float) -> list[Message]:
        messages = self._native.methods.consume(num_messages, timeout)
        if not messages and self._raised is not None:
            raise self._take_raised()
        return messages

    # ---- events

    def handle_events(self) -> None:
        """Handle all events before the next message in the queue."""
        # Another thread may be doing so, or this one, if a callback polls.
        if not self._handling.acquire(blocking=False):
            return
        try:
            while (event := self._events.pop_event()) is not None:
                self._handle(event)
        finally:
            self._handling.release()

    @property
    def is_handling(self) -> bool:
        """Whether events are being handled at this moment."""
        return self._handling.locked()

    def on_wake_up(self) -> None:
        """Handle events within a call of C: a wake-up has arrived in the thread that polls."""
        self._polled()
        if self._deferring:
            return
        try:
            self.handle_events()
        except BaseException as error:  # noqa: BLE001 - the next call raises it
            self._raised = error
            self.disable_fast_poll()

    def send_wake_up(self) -> None:
        """Interrupt the poll in progress, or else the next one."""
        self.timeout.wake_up_started(time.monotonic())
        self._native.wake_up()
        self.timeout.wake_up_sent(time.monotonic())

    def _next_error(self) -> Message | None:
        """Handle the events, and return the error message behind them, if there is one."""
        self._polled()
        if self._raised is not None:
            raise self._take_raised()
        self.handle_events()
        return self._events.pop_message()

    def _polled(self) -> None:
        self._native.set_polling_thread()
        self.timeout.polled(time.monotonic())

    def _take_raised(self) -> BaseException:
        raised, self._raised = self._raised, None
        assert raised is not None
        return raised

    # ---- the fast poll

    def _enable_fast_poll(self) -> None:
        if not self._is_idle():
            return
        with self._switch_lock:
            if self._events or self._raised is not None:
                return
            self._fast = True
            if self._fast_poll_target is not None:
                self._fast_poll_target["poll"] = self._native.methods.poll

    def disable_fast_poll(self) -> None:
        """Have the next poll handle events."""
        with self._switch_lock:
            self._fast = False
            if self._fast_poll_target is not None:
                self._fast_poll_target.pop("poll", None)


def _slow_poll_timeout(deadline: float | None) -> float:
    if deadline is None:
        return SLOW_POLL_SECONDS
    return min(SLOW_POLL_SECONDS, max(0.0, deadline - time.monotonic()))


def _has_passed(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


class UnreturnedRecords:
    """The records that a ``consume`` in progress has read and not yet returned.

    A partition may be committed up to the first of them at most, while librdkafka's position is
    after the last. The position moves inside a call of C, before the records are in the list here.
    So other threads read positions only between two such calls.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reader: int | None = None
        self._waiting = 0
        self._collected: dict[int, Sequence[Message]] = {}

    @contextmanager
    def collecting(self, messages: Sequence[Message]) -> Iterator[None]:
        """Count ``messages``, a list that grows, as not returned until the block ends."""
        self._collected[id(messages)] = messages
        try:
            yield
        finally:
            del self._collected[id(messages)]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Block :meth:`positions` in other threads; those that already wait go first."""
        thread = threading.get_ident()
        if self._reader == thread:  # A callback within a call that reads calls consume.
            yield
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and self._reader is None)
            self._reader = thread
        try:
            yield
        finally:
            with self._changed:
                self._reader = None
                self._changed.notify_all()

    @contextmanager
    def positions(self, keys: Collection[PartitionKey]) -> Iterator[dict[PartitionKey, Position]]:
        """Yield the positions of the first unreturned records of ``keys``.

        Positions do not move until the block ends. Waits until a call of C that reads in another
        thread has ended, SLOW_POLL_SECONDS at most.
        """
        with self._changed:
            if self._reader not in (None, threading.get_ident()):
                self._waiting += 1
                try:
                    self._changed.wait_for(lambda: self._reader is None)
                finally:
                    self._waiting -= 1
                    self._changed.notify_all()
            yield _first_positions(chain(*self._collected.values()), set(keys))


def _first_positions(
    messages: Iterable[Message], keys: set[PartitionKey]
) -> dict[PartitionKey, Position]:
    """Return the position of the first of ``messages`` of each partition in ``keys``."""
    positions: dict[PartitionKey, Position] = {}
    for message in messages:
        if len(positions) == len(keys):
            break
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if message.error() is None and topic is not None and partition is not None:
            key = (topic, partition)
            if key in keys and key not in positions and offset is not None:
                epoch = message.leader_epoch()
                positions[key] = Position(offset, -1 if epoch is None else epoch)
    return positions


class PollTimeout:
    """Detects that the application has not polled for ``max.poll.interval.ms``.

    At intervals a wake-up is sent. If the application polls, it is answered. So the application has
    not polled since the oldest unanswered wake-up was sent. This never detects a timeout too early,
    and late by ``wake_up_interval`` at most. Times are seconds of one clock. Thread-safe.
    """

    def __init__(self, max_poll_interval: float) -> None:
        self.max_poll_interval = max_poll_interval
        self.wake_up_interval = min(1.0, max_poll_interval / 10)
        self._last_poll = 0.0
        self._sent: float | None = None
        self._lock = threading.Lock()

    def polled(self, now: float) -> None:
        """Record that the application polls, or begins to count as one that should."""
        with self._lock:
            self._last_poll = now
            self._sent = None

    def wake_up_started(self, now: float) -> None:
        """Record that a wake-up is about to be sent."""
        with self._lock:
            self._sent = now

    def wake_up_sent(self, now: float) -> None:
        """Record that the wake-up has been sent, unless it was already answered."""
        with self._lock:
            if self._sent is not None:
                self._sent = now

    @property
    def wake_up_pending(self) -> bool:
        """Whether a wake-up is unanswered."""
        return self._sent is not None

    def wake_up_due(self, now: float) -> bool:
        """Return whether it is time for another wake-up."""
        with self._lock:
            return self._sent is None and now - self._last_poll >= self.wake_up_interval

    def overdue(self, now: float) -> float | None:
        """Return the seconds by which the application is late, or None."""
        with self._lock:
            late = None if self._sent is None else now - self._sent - self.max_poll_interval
            return late if late is not None and late > 0 else None


class Ticker:
    """A daemon thread that calls ``tick``, a method of a consumer, every TICK_SECONDS.

    It does what is due although the application does not poll: wake-ups and automatic commits.
    It ends when the consumer is closed or garbage-collected. A tick may wait for the end of the
    application's poll, so nothing else waits for this thread.
    """

    def __init__(self, tick: Callable[[float], None], name: str) -> None:
        self._tick = weakref.WeakMethod(tick)
        self._due = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(
            target=self._run, name=f"rackward-ticker-{name}", daemon=True
        )

    def start(self) -> None:
        """Start the thread, unless it has been started."""
        if self._thread.ident is None:
            self._thread.start()

    def tick_now(self) -> None:
        """Tick without waiting for the interval."""
        self._due.set()

    def stop(self, timeout: float = 0.0) -> None:
        """Stop, and wait up to ``timeout`` seconds for the end of the thread."""
        self._stopped = True
        self._due.set()
        if timeout and self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            self._due.wait(TICK_SECONDS)
            self._due.clear()
            tick = self._tick()
            if self._stopped or tick is None:
                return
            tick(time.monotonic())
            del tick
