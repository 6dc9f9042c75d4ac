"""Events of the group for the application, and the group's errors in confluent's form.

confluent calls an application's callbacks in the thread that polls, and in no other. So the threads
of the membership put events into an :class:`EventQueue`, and the thread that polls handles them. A
change of the assignment is a :class:`RebalanceEvent`: the membership waits until it is handled.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    Message,
)
from kafka import errors as kafka_errors

from assignors.confluent.internals import VERSION
from assignors.kafka_python.commits import NoCoordinatorError

PartitionKey = tuple[str, int]
"""Topic and partition number."""


@dataclass(frozen=True, slots=True)
class Position:
    """An offset, the leader epoch of the record before it (-1: unknown), and commit metadata."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = None

    def is_after(self, other: Position | None) -> bool:
        """Return whether it is after ``other``. The epoch counts before the offset."""
        if other is None:
            return True
        return (self.leader_epoch, self.offset) > (other.leader_epoch, other.offset)


class RebalanceKind(Enum):
    """What happens to partitions in a rebalance."""

    ASSIGN = "assign"
    REVOKE = "revoke"
    LOST = "lost"


@dataclass(eq=False)
class RebalanceEvent:
    """Partitions that the application gets or gives up. None stands for all that it has.

    ``committed`` are the group's committed offsets of assigned partitions; None: unknown.
    ``handled`` is True when the application has handled the event, False when it is obsolete.
    """

    kind: RebalanceKind
    partitions: tuple[PartitionKey, ...] | None
    committed: Mapping[PartitionKey, Position] | None = None
    handled: Future[bool] = field(default_factory=Future, init=False)

    def finish(self, handled: bool) -> None:
        """Set the result of ``handled``, the first time."""
        with suppress(InvalidStateError):
            self.handled.set_result(handled)


class FatalEvent:
    """This consumer can never join again: it stops reading, without any callback."""


class ErrorMessage:
    """An error with the methods of a Message, which only confluent-kafka 2.13 can construct."""

    def __init__(self, error: KafkaError, value: bytes, topic: str | None = None) -> None:
        self.error = lambda: error
        self.value = lambda: value
        self.topic = lambda: topic
        self.partition = self.offset = self.key = self.headers = lambda: None
        self.latency = self.leader_epoch = lambda: None
        self.timestamp = lambda: (TIMESTAMP_NOT_AVAILABLE, 0)


Event = RebalanceEvent | FatalEvent | Callable[[], object]
"""A function calls an application's callback other than those of a rebalance."""

_MESSAGES = (Message, ErrorMessage)
"""Errors that ``poll`` and ``consume`` return."""


class EventQueue:
    """Events in order. ``on_put`` is called after each put, in the thread of the put."""

    def __init__(self) -> None:
        self._events: deque[Any] = deque()
        self._lock = threading.Lock()
        self.closed = False
        """Whether no more events are accepted."""
        self._refusing = False
        self._current: RebalanceEvent | None = None
        self.on_put: Callable[[], None] = lambda: None

    def put(self, event: Event | Message) -> None:
        """Append an event. A rebalance that is refused is finished as not handled."""
        with self._lock:
            refused = self.closed or (self._refusing and isinstance(event, RebalanceEvent))
            if not refused:
                self._events.append(event)
        if not refused:
            self.on_put()
        elif isinstance(event, RebalanceEvent):
            event.finish(False)

    def pop_event(self) -> Event | None:
        """Remove and return the oldest event; None if that is a message or there is none."""
        with self._lock:
            if not self._events or isinstance(self._events[0], _MESSAGES):
                return None
            event: Event = self._events.popleft()
            if isinstance(event, RebalanceEvent):
                self._current = event
            return event

    def pop_message(self) -> Message | None:
        """Remove and return the oldest event if that is a message."""
        with self._lock:
            if self._events and isinstance(self._events[0], _MESSAGES):
                message: Message = self._events.popleft()
                return message
            return None

    def __bool__(self) -> bool:
        return bool(self._events)

    def refuse_rebalances(self) -> None:
        """Finish the rebalances in the queue as not handled, and refuse new ones."""
        with self._lock:
            self._refusing = True
            rebalances = [event for event in self._events if isinstance(event, RebalanceEvent)]
            self._events = deque(
                event for event in self._events if not isinstance(event, RebalanceEvent)
            )
        for event in rebalances:
            event.finish(False)

    def accept_rebalances(self) -> None:
        """Accept rebalances again."""
        with self._lock:
            self._refusing = False

    def close(self) -> None:
        """Accept no more events, and finish all rebalances, also the one being handled."""
        with self._lock:
            self.closed = True
            current = self._current
        self.refuse_rebalances()
        if current is not None:
            current.finish(False)


# ---- Errors in confluent's form.

_CODES_OF_CLIENT_ERRORS = (
    (NoCoordinatorError, KafkaError._WAIT_COORD),
    (kafka_errors.Cancelled, KafkaError._DESTROY),
    (kafka_errors.KafkaTimeoutError, KafkaError._TIMED_OUT),
    (kafka_errors.SaslAuthenticationFailedError, KafkaError._AUTHENTICATION),
    (kafka_errors.UnsupportedVersionError, KafkaError._UNSUPPORTED_FEATURE),
    (kafka_errors.KafkaConnectionError, KafkaError._TRANSPORT),
    (kafka_errors.NodeNotReadyError, KafkaError._TRANSPORT),
)


def error_code(error: BaseException) -> int:
    """Return confluent's code for an error of kafka-python."""
    for kind, code in _CODES_OF_CLIENT_ERRORS:
        if isinstance(error, kind):
            return int(code)
    number = getattr(error, "errno", None)
    return number if isinstance(number, int) and number > 0 else KafkaError._FAIL


def kafka_exception(code: int, action: str) -> KafkaException:
    """Return the exception that confluent raises if ``action`` fails with ``code``."""
    return KafkaException(KafkaError(code, f"{action}: {KafkaError(code).str()}"))


def error_message(code: int, reason: str, topic: str | None = None) -> Message:
    """Return the message by which ``poll`` reports an error of the group or of a topic."""
    fields: dict[str, Any] = {"error": KafkaError(code, reason), "value": reason.encode()}
    if topic is not None:
        fields["topic"] = topic
    return (Message if VERSION >= (2, 13) else cast(Any, ErrorMessage))(**fields)
