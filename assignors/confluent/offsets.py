"""Which offsets there are to commit.

librdkafka keeps, for each partition, the position up to which the application was given records,
the offset that it stored, and the offset that it last committed. Only the first can be read, so
the other two are kept here, by librdkafka's rules:

- With ``enable.auto.offset.store`` what is stored is the position; a seek resets the position and
  leaves what was stored. Without, it is what ``store_offsets`` said.
- What is stored belongs to one assignment of a partition, and is forgotten with it.
- A commit of all that is stored leaves out what is not beyond the last commit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(frozen=True, slots=True)
class Position:
    """An offset, the epoch of the leader that wrote the record before (-1: not known), a text."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = None

    def is_beyond(self, other: Position | None) -> bool:
        """Whether it is further on than ``other``; a later epoch counts before an offset."""
        if other is None:
            return True
        return (self.leader_epoch, self.offset) > (other.leader_epoch, other.offset)


class OffsetBook:
    """What is stored and what is committed of the partitions of one consumer. Thread-safe."""

    def __init__(self, auto_store: bool) -> None:
        self.auto_store = auto_store
        self._stored: dict[Place, Position] = {}
        self._committed: dict[Place, Position] = {}
        self._lock = threading.Lock()

    def store(self, place: Place, position: Position) -> None:
        """Note what the application stored, or the position that a seek is about to reset."""
        with self._lock:
            self._stored[place] = position

    def forget(self, places: Iterable[Place]) -> None:
        """Drop what is stored: an assignment of ``places`` ends, or begins."""
        with self._lock:
            for place in places:
                self._stored.pop(place, None)

    def committed(self, offsets: Mapping[Place, Position]) -> None:
        """Note what a broker took."""
        with self._lock:
            self._committed.update(offsets)

    def lost_sight(self, places: Iterable[Place]) -> None:
        """Forget what is committed: others may commit from now on."""
        with self._lock:
            for place in places:
                self._committed.pop(place, None)

    def stored(self, positions: Mapping[Place, Position | None]) -> dict[Place, Position]:
        """What is stored of the partitions whose ``positions`` are given (None: none yet)."""
        with self._lock:
            found = {}
            for place, position in positions.items():
                if self.auto_store and position is not None:
                    found[place] = position
                elif place in self._stored:
                    found[place] = self._stored[place]
            return found

    def due(self, positions: Mapping[Place, Position | None]) -> dict[Place, Position]:
        """Of what is stored, what is beyond the last commit."""
        stored = self.stored(positions)
        with self._lock:
            return {
                place: position
                for place, position in stored.items()
                if position.is_beyond(self._committed.get(place))
            }
