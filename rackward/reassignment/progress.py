"""How far copying has come, how fast it goes, and how long it will take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.admin import ClusterState, Sizes
from rackward.reassignment.status import Phase, phase_of

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


# ---- What a look at the cluster says about partitions that are being moved: pure decisions.


@dataclass(frozen=True, slots=True)
class Look:
    """Partitions by what became of them.

    placed
        They are where they shall be.
    copying
        They are on their way.
    stuck
        They are on their way, and the brokers named are down: they wait for those.
    adrift
        Nothing is under way, and they are not where they shall be. Right after a change that
        is only what a broker has not heard of yet; later it was somebody else.
    lost
        They will not arrive, for this reason.
    """

    placed: frozenset[TopicPartition]
    copying: frozenset[TopicPartition]
    stuck: Mapping[TopicPartition, tuple[int, ...]]
    adrift: frozenset[TopicPartition]
    lost: Mapping[TopicPartition, str]

    @classmethod
    def at(cls, moves: Iterable[Move], state: ClusterState) -> Look:
        """``state`` must hold the topics of ``moves`` and what is under way in them."""
        live = state.view.racks()
        placed, copying, adrift = set(), set(), set()
        stuck: dict[TopicPartition, tuple[int, ...]] = {}
        lost: dict[TopicPartition, str] = {}
        for move in moves:
            place, phase = move.partition, phase_of(move, state)
            if phase is Phase.PLACED:
                placed.add(place)
            elif phase is Phase.UNDER_WAY:
                if waits := waits_for(move, state, live):
                    stuck[place] = waits
                else:
                    copying.add(place)
            elif phase is Phase.GONE:
                lost[place] = "the topic was deleted"
            elif phase is Phase.DIVERTED:
                target = state.ongoing[place].target
                lost[place] = f"somebody else reassigned it to brokers {listed(target)}"
            else:
                adrift.add(place)
        return cls(frozenset(placed), frozenset(copying), stuck, frozenset(adrift), lost)


def waits_for(move: Move, state: ClusterState, live: Mapping[int, str | None]) -> tuple[int, ...]:
    """The brokers without which a move cannot go on: those that are to copy, and, where nobody
    leads, those that are to be copied from."""
    away = [broker for broker in move.adding if broker not in live]
    if move.partition not in state.view.leaders:
        away += [broker for broker in move.before if broker not in live and broker not in away]
    return tuple(away)


def listed(brokers: Iterable[int]) -> str:
    """``1, 2, 3``."""
    return ", ".join(map(str, brokers))


@dataclass(slots=True)
class Patience:
    """Since when there has been no progress, and since when partitions have been adrift.

    Times are seconds of any one clock.
    """

    patience: float
    settle: float
    since: float
    _best: tuple[int, int] = (-1, -1)
    _adrift: dict[TopicPartition, float] = field(default_factory=dict)

    def moved(self, at: float, placed: int, copied: int) -> None:
        """Tell how far things have come."""
        if (placed, copied) > self._best:
            self._best, self.since = (placed, copied), at

    def over(self, at: float) -> bool:
        """Whether it has been too long without progress."""
        return at - self.since >= self.patience

    def given_up(self, at: float, adrift: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Of partitions ``adrift``, those that have been so for longer than brokers take to
        learn of a change."""
        self._adrift = {place: self._adrift.get(place, at) for place in adrift}
        return {place for place, since in self._adrift.items() if at - since >= self.settle}


# ---- Time as an argument.

_SHORTEST = 0.1
_GROWTH = 1.5
_STEPS = 20


@dataclass(frozen=True, slots=True)
class Timing:
    """``now`` counts seconds from any moment on; ``sleep`` lets so many of them pass."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def pauses(self, longest: float) -> Iterator[float]:
        """Seconds to sleep between looks: short at first, since much is done at once."""
        return (min(longest, _SHORTEST * _GROWTH ** min(turn, _STEPS)) for turn in count())


# ---- How a plan is carried out.

DEFAULT_BATCH = 100
"""Partitions that are moved together, where nobody says otherwise."""

DEFAULT_ORDER_BATCH = 1000
"""The same where only the order of replicas changes."""

DEFAULT_PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Bounds and waits.

    most_partitions, most_bytes
        Of a batch; None: no bound.
    throttle
        Bytes per second that each broker may send and receive for new replicas; None: no bound.
    patience
        Seconds without any progress after which to wait no longer.
    additional
        Go on beside reassignments that are not ours, and in place of those of our partitions.
    settle
        Seconds in which brokers learn what the controller has done.
    longest_pause
        Seconds between two looks, at most.
    """

    most_partitions: int | None = DEFAULT_BATCH
    most_bytes: int | None = None
    throttle: int | None = None
    patience: float = DEFAULT_PATIENCE
    additional: bool = False
    settle: float = 10.0
    longest_pause: float = 1.0
