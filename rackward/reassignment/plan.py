"""Plans: the moves that ``placement plan`` and ``leaders plan`` propose, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from placement_core import ClusterView, TopicPartition
from placement_core.audit import audit
from placement_core.cluster import Load, Move, cluster_load
from placement_core.leaders import Locality
from rackward.admin import ClusterState

PlanOptions = Mapping[str, str | int | float | bool | list[str] | list[int] | dict[str, int] | None]
"""The command-line options that a plan was made with, for information; never a secret."""


class PlanKind(StrEnum):
    """What a plan changes."""

    PLACEMENT = "placement"
    """The brokers of the replicas, and their order: data may be copied."""
    LEADERS = "leaders"
    """The order of replicas only: no data is copied."""


class RackSource(StrEnum):
    """Where the racks of a plan's brokers came from."""

    METADATA = "metadata"
    """The cluster's metadata: if a rack changes there, the plan is stale."""
    LOCATOR = "locator"
    """A rack locator; racks in the cluster's metadata may differ."""
    IGNORED = "ignored"
    """The plan does not depend on racks."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits for carrying out a plan; None: no limit, or the command's default.

    ``partitions`` and ``bytes`` are per batch, ``throttle`` is in bytes per second and broker,
    in each direction.
    """

    partitions: int | None = None
    bytes: int | None = None
    throttle: int | None = None

    def with_overrides(self, overrides: BatchLimits) -> BatchLimits:
        """Return these limits, replaced by those of ``overrides`` that are set."""
        return BatchLimits(
            partitions=overrides.partitions or self.partitions,
            bytes=overrides.bytes or self.bytes,
            throttle=overrides.throttle or self.throttle,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves, and the cluster that they were planned for.

    cluster_id
        None if the brokers do not report one.
    created_at
        ISO 8601, in UTC.
    brokers
        Rack by id of the brokers that were live, as the plan used them.
    topic_ids
        Id by name of the topics in ``moves``. A topic that is deleted and created again has
        another id. None if the brokers do not report ids.
    moves
        The partitions to change, sorted.
    leaders, sizes
        Leader, and bytes on the leader, of each partition in ``moves`` as far as known.
    loads
        Load of each broker over all topics; includes brokers that are down.
    localities
        Partitions that consumers read locally before and after; for plans of leaders.
    """

    kind: PlanKind
    cluster_id: str | None
    created_at: str
    options: PlanOptions
    rack_source: RackSource
    brokers: Mapping[int, str | None]
    topic_ids: Mapping[str, str | None]
    moves: tuple[Move, ...]
    leaders: Mapping[TopicPartition, int]
    sizes: Mapping[TopicPartition, int]
    loads: Mapping[int, Load]
    limits: BatchLimits = field(default_factory=BatchLimits)
    localities: tuple[Locality, ...] = ()

    @property
    def target(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The replica lists after the plan."""
        return {move.partition: move.after for move in self.moves}


def build_plan(
    kind: PlanKind,
    moves: Iterable[Move],
    state: ClusterState,
    view: ClusterView,
    *,
    created_at: str,
    options: PlanOptions,
    rack_source: RackSource,
    sizes: Mapping[TopicPartition, int],
    limits: BatchLimits,
    localities: Iterable[Locality] = (),
) -> Plan:
    """Return the plan of ``moves``.

    ``view`` is what they were planned on: ``state`` with the racks of a locator, and with
    reassignments in progress counted as completed.
    """
    moves = tuple(sorted(moves, key=lambda move: move.partition))
    load = cluster_load(view, view_after(view, moves))
    return Plan(
        kind=kind,
        cluster_id=state.cluster_id,
        created_at=created_at,
        options=options,
        rack_source=rack_source,
        brokers=view.racks(),
        topic_ids={
            topic: state.topic_ids[topic] for topic in sorted({m.partition.topic for m in moves})
        },
        moves=moves,
        leaders={
            move.partition: leader
            for move in moves
            if (leader := view.leader(move.partition)) is not None
        },
        sizes={m.partition: sizes[m.partition] for m in moves if m.partition in sizes},
        loads={broker: each for broker, (_, each) in load.brokers.items()},
        limits=limits,
        localities=tuple(localities),
    )


def view_after(view: ClusterView, moves: Iterable[Move]) -> ClusterView:
    """Return the view after the moves. Its leaders are unknown: the cluster elects them."""
    replicas = {**view.replicas, **{move.partition: move.after for move in moves}}
    return replace(view, replicas=replicas, leaders=None)


# The cost of moves.


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """Moves on a view of the whole cluster, and their cost.

    ``sizes`` are bytes per partition on its leader, as far as known. ``throttle`` is in bytes per
    second and broker. ``topics`` are those that could change; None: all.
    """

    view: ClusterView
    moves: tuple[Move, ...]
    sizes: Mapping[TopicPartition, int]
    throttle: int | None = None
    localities: tuple[Locality, ...] = ()
    topics: frozenset[str] | None = None

    @property
    def after(self) -> ClusterView:
        """The view after the moves."""
        return view_after(self.view, self.moves)

    @property
    def min_copy_seconds(self) -> float | None:
        """The time that copying takes at least; None without a throttle or with unknown sizes."""
        if self.throttle is None or bytes_to_copy(self.moves, self.sizes) is None:
            return None
        return min_copy_seconds(self.moves, self.sizes, self.throttle)

    def rack_rule_violations(self) -> tuple[int, int] | None:
        """Return the partitions that break the rack rules before and after; None without racks.

        Only those of ``topics`` are counted.
        """
        before, after = (
            audit(self._of_topics(view)).figures.against_rack_rules
            for view in (self.view, self.after)
        )
        return None if before is None or after is None else (before, after)

    def _of_topics(self, view: ClusterView) -> ClusterView:
        if self.topics is None:
            return view
        replicas = {tp: row for tp, row in view.replicas.items() if tp.topic in self.topics}
        return replace(view, replicas=replicas, leaders=None)


def count_copies(moves: Iterable[Move]) -> int:
    """Return the number of replicas to copy."""
    return sum(len(move.adding) for move in moves)


def count_removals(moves: Iterable[Move]) -> int:
    """Return by how many the number of replicas falls, over the partitions that lose some."""
    return sum(max(0, len(move.before) - len(move.after)) for move in moves)


def count_leader_changes(moves: Iterable[Move]) -> int:
    """Return the number of partitions whose preferred leader changes."""
    return sum(move.before[:1] != move.after[:1] for move in moves)


def bytes_to_copy(moves: Iterable[Move], sizes: Mapping[TopicPartition, int]) -> int | None:
    """Return the bytes to copy; None if a size is unknown."""
    total = 0
    for move in moves:
        if move.adding:
            if move.partition not in sizes:
                return None
            total += sizes[move.partition] * len(move.adding)
    return total


def min_copy_seconds(
    moves: Iterable[Move], sizes: Mapping[TopicPartition, int], rate: int
) -> float:
    """Return the time that copying takes at least, with ``rate`` bytes per second and broker.

    The limit applies to sending and to receiving. The first replica is taken for the leader,
    which sends. Partitions of unknown size count as empty.
    """
    sent: dict[int, int] = {}
    received: dict[int, int] = {}
    for move in moves:
        size = sizes.get(move.partition, 0)
        for broker in move.adding:
            received[broker] = received.get(broker, 0) + size
            if move.before:
                sent[move.before[0]] = sent.get(move.before[0], 0) + size
    return max([*sent.values(), *received.values()], default=0) / rate
