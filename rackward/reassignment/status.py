"""Where a cluster stands with regard to some moves: what is done, under way, still to do.

The cluster's own state is the truth, so that a run can be taken up again after whatever ended
it, from any machine, with nothing but the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.admin import ClusterState, Ongoing


class Phase(Enum):
    """Where a partition stands on its way."""

    TO_DO = "to do"
    """As it was before, and nothing is under way."""
    UNDER_WAY = "under way"
    """On its way to where the move leads."""
    PLACED = "placed"
    """As the move wants it, and nothing is under way."""
    DIVERTED = "diverted"
    """On its way to somewhere else."""
    ELSEWHERE = "elsewhere"
    """Neither as before nor as it shall be, and nothing is under way."""
    GONE = "gone"
    """There is no such partition any more."""


def phase_of(move: Move, state: ClusterState) -> Phase:
    """Where a partition stands in ``state``, which must hold its topic if it exists."""
    replicas = state.view.replicas.get(move.partition)
    if replicas is None:
        return Phase.GONE
    ongoing = state.ongoing.get(move.partition)
    if ongoing is not None:
        return Phase.UNDER_WAY if leads_to(ongoing, move.after) else Phase.DIVERTED
    if replicas == move.after:
        return Phase.PLACED
    return Phase.TO_DO if replicas == move.before else Phase.ELSEWHERE


def leads_to(ongoing: Ongoing, replicas: tuple[int, ...]) -> bool:
    """Whether a reassignment ends there.

    One that was replaced while it ran may have brokers that it adds and removes at the same
    time; Kafka (4.3) never finishes it.
    """
    return ongoing.target == replicas and not set(ongoing.adding) & set(ongoing.removing)


@dataclass(frozen=True, slots=True)
class Standing:
    """The phase of each partition, and reassignments under way that are not the plan's.

    Those of partitions that the plan moves elsewhere are among ``foreign``.
    """

    phases: Mapping[TopicPartition, Phase]
    foreign: Mapping[TopicPartition, Ongoing]

    @classmethod
    def of(
        cls,
        moves: Iterable[Move],
        state: ClusterState,
        ongoing: Mapping[TopicPartition, Ongoing],
    ) -> Standing:
        """``ongoing``: all that is under way in the cluster."""
        phases = {move.partition: phase_of(move, state) for move in moves}
        ours = {place for place, phase in phases.items() if phase is Phase.UNDER_WAY}
        return cls(phases, {place: each for place, each in ongoing.items() if place not in ours})

    def count(self, phase: Phase) -> int:
        """Partitions in that phase."""
        return sum(each is phase for each in self.phases.values())
