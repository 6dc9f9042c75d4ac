"""What a look at the cluster says about partitions that are being moved: pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from placement_core import TopicPartition
from placement_core.moves import Move
from rackward.admin import ClusterState
from rackward.plans.standing import Phase, phase_of


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
