"""Placement with fewer live brokers than replicas (KIP-409).

Goal. Create a topic although some brokers are down: its partitions get the replicas that live
brokers can hold, and a placeholder, -1, -2, -3 ..., for each one that is missing (see
:mod:`placement_core.cluster`). :mod:`placement_core.under_replication` fills them later.

Constraints. There must be at least min(``min_insync_replicas``, RF) live brokers, so that producers
can write with any acks from the first moment on. Leaders are as even over the live brokers as the
wrapped placer makes them.

Algorithm. A partition can reach ``min(RF, live brokers + replicas that it has on other brokers)``
replicas. If all partitions reach RF, the wrapped placer places them. Otherwise it is called with
the number that they reach as replication factor: once if that number is the same for all, else
once for each run of consecutive partitions with the same number. Each call sees the lists of the
runs before it and the present lists of those after it, so that it continues their rotation.

Worked example, RF 3, brokers 0 in rack a and 1 in rack b live, 2 in rack c down::

    new topic of 3 partitions                      0 1 -1   1 0 -1   0 1 -1
    partition with replicas on 0 and 2             0 2 1
    partition with a replica on 0                  0 1 -1
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from placement_core.cluster import (
    ClusterView,
    TopicPartition,
    with_placeholders,
    without_placeholders,
)
from placement_core.errors import InvalidOptionError, PlacementError, format_brokers
from placement_core.placers.round_robin import RackAlternatingPlacer
from placement_core.placers.spec import (
    PlacementSpec,
    ReplicaLists,
    ReplicaPlacer,
    eligible_brokers,
    require_int,
)

UNNAMED_TOPIC = ""
"""Stands for the topic of a spec without a name; Kafka has no topic of this name."""


@dataclass(frozen=True, slots=True)
class UnderReplicatedPlacer:
    """Wraps a placer; returns placeholders for the replicas that no live broker can hold.

    ``min_insync_replicas`` is the topic's own setting if it has one, else the cluster's.

    Never used unless a placer is wrapped explicitly: brokers report such partitions as complete,
    but they have fewer copies than requested until the placeholders are filled.

    The rule and a worked table are in :mod:`placement_core.placers.under_replicated`.
    """

    placer: ReplicaPlacer = field(default_factory=RackAlternatingPlacer)
    min_insync_replicas: int = 1

    def __post_init__(self) -> None:
        require_int("min_insync_replicas", self.min_insync_replicas, 1)
        if isinstance(self.placer, UnderReplicatedPlacer):
            raise InvalidOptionError("an under-replicated placer wraps another one: wrap it once")

    def wrapping(self, placer: ReplicaPlacer) -> UnderReplicatedPlacer:
        """Return the same placer around another one."""
        return replace(self, placer=placer)

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists | None:
        """See ReplicaPlacer. Raises PlacementError if there are too few live brokers."""
        usable = eligible_brokers(view, broker_ids)
        reachable = [
            min(spec.replication_factor, len(usable.union(spec.present_replicas(index))))
            for index in range(spec.partitions)
        ]
        view = replace(
            view, replicas={p: without_placeholders(row) for p, row in view.replicas.items()}
        )
        if min(reachable) == spec.replication_factor:
            return self.placer.place(spec, view, broker_ids)
        self._require_writable(spec, usable)
        layout = self._place_runs(spec, view, broker_ids, reachable)
        if layout is None:
            return None
        return tuple(with_placeholders(row, spec.replication_factor) for row in layout)

    def _require_writable(self, spec: PlacementSpec, usable: frozenset[int]) -> None:
        minimum = min(self.min_insync_replicas, spec.replication_factor)
        if len(usable) < minimum:
            live = format_brokers(usable) if usable else "none"
            raise PlacementError(
                f"{minimum} in-sync replicas are needed to write (the smaller of "
                f"min.insync.replicas {self.min_insync_replicas} and replication factor "
                f"{spec.replication_factor}), but there are {len(usable)} live brokers ({live}): "
                "wait for more brokers, or lower min.insync.replicas"
            )

    def _place_runs(
        self,
        spec: PlacementSpec,
        view: ClusterView,
        broker_ids: Collection[int] | None,
        reachable: Sequence[int],
    ) -> ReplicaLists | None:
        """Place each run of partitions that reach the same number of replicas."""
        if len(set(reachable)) == 1:
            spec = replace(spec, replication_factor=reachable[0])
            return self.placer.place(spec, view, broker_ids)
        topic = UNNAMED_TOPIC if spec.topic is None else spec.topic
        rows = [spec.present_replicas(index) for index in range(spec.partitions)]
        start = 0
        for replicas, run in groupby(reachable):
            end = start + len(list(run))
            known = {
                TopicPartition(topic, spec.first_partition + index): row
                for index, row in enumerate(rows)
                if row
            }
            run_spec = replace(
                spec,
                partitions=end - start,
                replication_factor=replicas,
                topic=topic,
                first_partition=spec.first_partition + start,
                present=tuple(rows[start:end]),
            )
            run_view = replace(view, replicas={**view.replicas, **known})
            layout = self.placer.place(run_spec, run_view, broker_ids)
            if layout is None:
                return None
            rows[start:end] = map(tuple, layout)
            start = end
        return tuple(rows)
