"""What the group has for the application, until the application's thread comes for it.

confluent calls an application's callbacks in the thread that polls, and nowhere else. So what
happens in the group is put here by the threads that keep the membership, and taken out by
whoever polls. A change of partitions is a `Step`: the membership waits for its end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from confluent_kafka import KafkaError, Message, TopicPartition

from assignors.confluent.offsets import Place, Position


class Change(Enum):
    """What becomes of partitions."""

    ASSIGN = "assign"
    REVOKE = "revoke"
    LOSE = "lose"


@dataclass(eq=False)
class Step:
    """Partitions that the application is to be given, or to give up; None: all that it has.

    ``committed`` is what the group has committed of partitions that are given; None: not known.

    ``end`` is called once: with True when the application has done it, with False when the
    group has moved on and nobody is to do it any more.
    """

    change: Change
    places: tuple[Place, ...] | None
    end: Callable[[bool], None]
    committed: Mapping[Place, Position] | None = None
    _ended: bool = field(default=False, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def finish(self, done: bool) -> None:
        """Call ``end``, the first time."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        self.end(done)


@dataclass(frozen=True)
class Committed:
    """The end of a commit of which ``on_commit`` is to hear."""

    error: KafkaError | None
    partitions: list[TopicPartition]


@dataclass(frozen=True)
class Fatal:
    """This consumer can be no member any more: it is to read nothing, and no callback is called."""


Event = Step | Committed | Fatal | Message


class Inbox:
    """Events in their order. ``arrived`` is called, by the thread that puts one, after it is in."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._refusing = False
        self._begun: Step | None = None
        self.arrived: Callable[[], None] = _nobody

    def put(self, event: Event) -> None:
        """Add an event; a step that is refused is ended undone."""
        with self._lock:
            refused = self._closed or (self._refusing and isinstance(event, Step))
            if not refused:
                self._events.append(event)
        if not refused:
            self.arrived()
        elif isinstance(event, Step):
            event.finish(False)

    def take(self) -> Event | None:
        """The oldest event; None if that is a message, or there is none."""
        with self._lock:
            if not self._events or isinstance(self._events[0], Message):
                return None
            event = self._events.popleft()
            if isinstance(event, Step):
                self._begun = event
            return event

    def take_message(self) -> Message | None:
        """The oldest event if that is a message."""
        with self._lock:
            if self._events and isinstance(self._events[0], Message):
                return self._events.popleft()  # type: ignore[return-value]
            return None

    def __bool__(self) -> bool:
        return bool(self._events)

    def refuse_steps(self) -> None:
        """End undone the steps that nobody has begun, and all that are put."""
        with self._lock:
            self._refusing = True
            steps = [event for event in self._events if isinstance(event, Step)]
            self._events = deque(event for event in self._events if not isinstance(event, Step))
        for step in steps:
            step.finish(False)

    def accept_steps(self) -> None:
        """Take steps again."""
        with self._lock:
            self._refusing = False

    def close(self) -> None:
        """Take nothing more, and end undone every step, the one that is being done as well."""
        with self._lock:
            self._closed = True
            begun = self._begun
        self.refuse_steps()
        if begun is not None:
            begun.finish(False)


def _nobody() -> None:
    """Nobody is told."""
