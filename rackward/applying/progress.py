"""How far copying has come, how fast it goes, and how long it will take."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from placement_core import TopicPartition
from placement_core.moves import Move
from rackward.admin import ClusterState, Sizes

WINDOW_SECONDS = 30.0
"""What the present rate is an average of."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Partitions placed and bytes copied, of all; ``rate`` in bytes per second and ``seconds``
    left, None while that cannot be said."""

    placed: int
    partitions: int
    copied: int
    bytes: int
    rate: float | None = None
    seconds: float | None = None


@dataclass(slots=True)
class Meter:
    """Turns sizes, seen from time to time, into Progress.

    ``totals`` holds the bytes that each partition has to copy in all; logs grow meanwhile, and
    totals with them.
    """

    totals: dict[TopicPartition, int]
    _copied: dict[TopicPartition, int] = field(default_factory=dict)
    _placed: set[TopicPartition] = field(default_factory=set)
    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    @classmethod
    def of(cls, moves: Iterable[Move], sizes: Mapping[TopicPartition, int]) -> Meter:
        """For ``moves``; ``sizes`` are those of the leaders' replicas (0 where not known)."""
        return cls({m.partition: sizes.get(m.partition, 0) * len(m.adding) for m in moves})

    def place(self, partitions: Iterable[TopicPartition]) -> None:
        """These have arrived."""
        for partition in partitions:
            self._placed.add(partition)
            self._copied[partition] = self.totals[partition]

    def see(self, moves: Iterable[Move], sizes: Sizes, state: ClusterState) -> None:
        """What the new replicas of ``moves`` have copied by now.

        Replicas whose size is not known now keep what they had; a broker may be away for a
        moment. None counts for more than the leader has.
        """
        for move in moves:
            partition = move.partition
            leader = state.view.leaders.get(partition)
            whole = sizes.get((partition, leader)) if leader is not None else None
            if partition in self._placed or whole is None:
                continue
            self.totals[partition] = whole.bytes * len(move.adding)
            parts = [sizes.get((partition, broker)) for broker in move.adding]
            if all(part is not None for part in parts):
                self._copied[partition] = sum(
                    min(part.bytes, whole.bytes) for part in parts if part is not None
                )

    def now(self, at: float) -> Progress:
        """The progress at that moment, in seconds of any clock."""
        copied, total = sum(self._copied.values()), sum(self.totals.values())
        self._seen.append((at, copied))
        while len(self._seen) > 2 and at - self._seen[1][0] >= WINDOW_SECONDS:
            self._seen.popleft()
        rate = seconds = None
        since, before = self._seen[0]
        if at > since and copied > before:
            rate = (copied - before) / (at - since)
            seconds = (total - copied) / rate
        return Progress(len(self._placed), len(self.totals), copied, total, rate, seconds)


def least_seconds(moves: Iterable[Move], sizes: Mapping[TopicPartition, int], rate: int) -> float:
    """How long copying takes at least where each broker sends and receives ``rate`` bytes per
    second at most. Leaders send; the first replica is taken for the leader."""
    sends: dict[int, int] = {}
    receives: dict[int, int] = {}
    for move in moves:
        size = sizes.get(move.partition, 0)
        for broker in move.adding:
            receives[broker] = receives.get(broker, 0) + size
            if move.before:
                sends[move.before[0]] = sends.get(move.before[0], 0) + size
    return max([*sends.values(), *receives.values()], default=0) / rate
