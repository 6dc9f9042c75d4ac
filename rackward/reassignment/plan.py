"""What a plan says: what was seen, what shall be, and what comes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from placement_core import ClusterView, TopicPartition
from placement_core.cluster import Move
from placement_core.leaders import Locality
from rackward.admin import ClusterState

Asked = Mapping[str, str | int | float | bool | list[str] | list[int] | dict[str, int] | None]
"""The options that a plan was made with, for whoever reads it; nothing that may be a secret."""


class PlanKind(StrEnum):
    """What a plan changes."""

    PLACEMENT = "placement"
    """Which brokers hold the replicas, and their order: data may be copied."""
    LEADERS = "leaders"
    """The order of replicas alone: no data moves."""


class RacksFrom(StrEnum):
    """Where the racks of a plan's brokers came from."""

    METADATA = "metadata"
    """From the cluster: if they change there, the plan is stale."""
    LOCATOR = "locator"
    """From a rack locator, which may know more than the cluster."""
    IGNORED = "ignored"
    """From the cluster, and the plan does not depend on them."""


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A partition's move, the leader that it had, and the bytes that its leader's replica had
    (None: nobody led, or the size was not known)."""

    move: Move
    leader: int | None = None
    bytes: int | None = None

    @property
    def bytes_to_copy(self) -> int | None:
        """What all new replicas together have to copy; None where that is not known."""
        copies = len(self.move.adding)
        if not copies:
            return 0
        return None if self.bytes is None else self.bytes * copies


@dataclass(frozen=True, slots=True)
class Load:
    """What a broker carries: replicas, and partitions of which it is the preferred leader."""

    replicas: int = 0
    leaders: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """How a plan is to be carried out, where whoever applies it does not say otherwise.

    ``partitions`` and ``bytes`` bound a batch, ``throttle`` is in bytes per second and broker,
    each way; None: no bound.
    """

    partitions: int | None = None
    bytes: int | None = None
    throttle: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan and what it was made from.

    cluster_id
        The cluster that it is for; None from brokers that do not tell.
    made
        When, as ISO 8601 in UTC.
    brokers
        The live brokers then, and the racks that the plan took them to stand in.
    topic_ids
        The topics of ``moves``: a topic made anew under an old name has another id. None where
        the brokers did not tell.
    moves
        The partitions to change, in order.
    before, after
        Load of each broker, over all topics; brokers that are gone among ``before``.
    localities
        What consumers read locally before and after, where that was the purpose.
    """

    kind: PlanKind
    cluster_id: str | None
    made: str
    asked: Asked
    racks_from: RacksFrom
    brokers: Mapping[int, str | None]
    topic_ids: Mapping[str, str | None]
    moves: tuple[PlannedMove, ...]
    before: Mapping[int, Load]
    after: Mapping[int, Load]
    pace: Pace = field(default_factory=Pace)
    localities: tuple[Locality, ...] = ()

    @property
    def target(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The replica lists that the plan wants."""
        return {each.move.partition: each.move.after for each in self.moves}

    @property
    def copies(self) -> int:
        """Replicas to be copied."""
        return sum(len(each.move.adding) for each in self.moves)

    @property
    def bytes_to_copy(self) -> int | None:
        """Bytes to be copied; None where a size is not known."""
        sizes = [each.bytes_to_copy for each in self.moves]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    @property
    def leader_changes(self) -> int:
        """Partitions whose preferred leader changes."""
        return sum(each.move.before[:1] != each.move.after[:1] for each in self.moves)


# ---- A plan out of moves and the cluster that they were made for.


def make_plan(
    kind: PlanKind,
    moves: Iterable[Move],
    state: ClusterState,
    view: ClusterView,
    *,
    made: str,
    asked: Asked,
    racks_from: RacksFrom,
    sizes: Mapping[TopicPartition, int],
    pace: Pace,
    localities: Iterable[Locality] = (),
) -> Plan:
    """The plan. ``view`` is what it was planned on; ``sizes`` are bytes on leaders, as far as they
    are known; ``made`` is when, as ISO 8601 in UTC."""
    moves = sorted(moves, key=lambda move: move.partition)
    after = {**view.replicas, **{move.partition: move.after for move in moves}}
    return Plan(
        kind=kind,
        cluster_id=state.cluster_id,
        made=made,
        asked=asked,
        racks_from=racks_from,
        brokers=view.racks(),
        topic_ids={
            topic: state.topic_ids[topic] for topic in sorted({m.partition.topic for m in moves})
        },
        moves=tuple(
            PlannedMove(move, view.leaders.get(move.partition), sizes.get(move.partition))
            for move in moves
        ),
        before=_loads(view, view.replicas),
        after=_loads(view, after),
        pace=pace,
        localities=tuple(localities),
    )


def after_view(view: ClusterView, moves: Iterable[Move]) -> ClusterView:
    """The view when all moves are made; who leads then, the cluster decides."""
    replicas = {**view.replicas, **{move.partition: move.after for move in moves}}
    return replace(view, replicas=replicas, leaders={})


def _loads(
    view: ClusterView, replicas: Mapping[TopicPartition, tuple[int, ...]]
) -> dict[int, Load]:
    holds: Counter[int] = Counter()
    leads: Counter[int] = Counter()
    for row in replicas.values():
        holds.update(row)
        leads.update(row[:1])
    return {
        broker: Load(holds[broker], leads[broker]) for broker in sorted({*view.racks(), *holds})
    }
