"""Placement on fewer brokers than replicas are wanted, KIP-409."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from placement_core.cluster import ClusterView, TopicPartition, padded, without_placeholders
from placement_core.errors import InvalidOptionError, PlacementError, listed
from placement_core.placers.round_robin import RackAlternatingPlacer
from placement_core.placers.spec import PlacementSpec, ReplicaLists, ReplicaPlacer, among_live


@dataclass(frozen=True, slots=True)
class UnderReplicatedPlacer:
    """Another placer's lists, with placeholders for the replicas that no live broker can hold.

    Where there are brokers enough it is that placer. Where there are fewer, the placer is asked
    for as many replicas as can be had, and the rest are placeholders: -1, -2, -3 (see
    :mod:`placement_core.cluster`). On broker 1 alone, RF 3: 1 -1 -2.

    There must be at least min(``min_insync_replicas``, RF) live brokers, so that producers can
    write with any acks from the first moment on. ``min_insync_replicas`` is the topic's own
    setting where it has one, else the cluster's.

    Off unless somebody wraps a placer in it: the partitions show as complete to brokers, and have
    fewer copies than was asked for until the placeholders are filled
    (:mod:`placement_core.under_replication`).
    """

    placer: ReplicaPlacer = field(default_factory=RackAlternatingPlacer)
    min_insync_replicas: int = 1

    def __post_init__(self) -> None:
        least = self.min_insync_replicas
        if isinstance(least, bool) or not isinstance(least, int) or least < 1:
            raise InvalidOptionError(
                f"min_insync_replicas is {least!r}: give a whole number, 1 or more"
            )
        if isinstance(self.placer, UnderReplicatedPlacer):
            raise InvalidOptionError("an under-replicated placer wraps another one: wrap it once")

    def over(self, placer: ReplicaPlacer) -> UnderReplicatedPlacer:
        """The same, over another placer."""
        return replace(self, placer=placer)

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists | None:
        """See ReplicaPlacer. Raises PlacementError where the live brokers are too few."""
        usable = among_live(view, broker_ids)
        wanted = spec.replication_factor
        reach = [
            min(wanted, len(usable.union(spec.row(index)))) for index in range(spec.partitions)
        ]
        # Placers count what brokers hold.
        held = {place: without_placeholders(row) for place, row in view.replicas.items()}
        known = replace(view, replicas=held)
        if min(reach) == wanted:
            return self.placer.place(spec, known, broker_ids)
        self._check_writable(spec, usable)
        if len(set(reach)) == 1:
            layout = self.placer.place(
                replace(spec, replication_factor=reach[0]), known, broker_ids
            )
        else:
            layout = self._one_by_one(spec, known, broker_ids, reach)
        return None if layout is None else tuple(padded(row, wanted) for row in layout)

    def _check_writable(self, spec: PlacementSpec, usable: frozenset[int]) -> None:
        least = min(self.min_insync_replicas, spec.replication_factor)
        if len(usable) < least:
            live = listed(usable) if usable else "none"
            raise PlacementError(
                f"{least} replicas in sync are needed to write (the lesser of "
                f"min.insync.replicas {self.min_insync_replicas} and replication factor "
                f"{spec.replication_factor}), and the live brokers are {len(usable)} ({live}): "
                "wait for more brokers, or lower min.insync.replicas"
            )

    def _one_by_one(
        self,
        spec: PlacementSpec,
        view: ClusterView,
        broker_ids: Collection[int] | None,
        reach: list[int],
    ) -> ReplicaLists | None:
        """Partitions that hold replicas on dead brokers can have more than others."""
        rows: list[tuple[int, ...]] = []
        for index, replicas in enumerate(reach):
            number = spec.first_partition + index
            one = replace(
                spec,
                partitions=1,
                replication_factor=replicas,
                first_partition=number,
                present=(spec.row(index),),
            )
            layout = self.placer.place(one, view, broker_ids)
            if layout is None:
                return None
            rows.append(tuple(layout[0]))
            if spec.topic is not None:
                place = TopicPartition(spec.topic, number)
                view = replace(view, replicas={**view.replicas, place: rows[-1]})
        return tuple(rows)
