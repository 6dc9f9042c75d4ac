"""Placement beside another topic, so that what is joined lies together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError, PlacementError, listed
from placement_core.placers.spec import PlacementSpec, ReplicaLists, candidates
from placement_core.plugins import read_properties


@dataclass(frozen=True, slots=True)
class LikeTopicPlacer:
    """Partition i gets the replica list, and so the leader, of partition i of ``topic``.

    Racks play no part: they are those of the other topic. Where a partition has replicas
    already these stay in front, and the other topic's list says which ones to add.
    """

    topic: str

    def __post_init__(self) -> None:
        if not self.topic:
            raise InvalidOptionError("topic is empty: name the topic to place like")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LikeTopicPlacer:
        """From ``topic``, which must be given."""
        return cls(read_properties("like-topic", {"topic": "", **properties}, topic=str)["topic"])

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists:
        """See ReplicaPlacer. Raises PlacementError where the topics or the brokers do not fit."""
        ignoring = PlacementSpec(1, 1, ignore_racks=True)
        usable = frozenset(candidates(ignoring, view, broker_ids).ids)
        model = self._model(spec, view)
        return tuple(
            self._row(spec.first_partition + index, spec.row(index), row, spec, usable)
            for index, row in enumerate(model)
        )

    def _model(self, spec: PlacementSpec, view: ClusterView) -> ReplicaLists:
        """The lists of the other topic for the partitions to place."""
        count = 1 + max((p for topic, p in view.replicas if topic == self.topic), default=-1)
        if not count:
            raise PlacementError(f"there is no topic {self.topic!r} to place like: name one")
        end = spec.first_partition + spec.partitions
        if end > count:
            raise PlacementError(
                f"{self.topic!r} has {count} partitions, and {end} are wanted: ask for {count} "
                f"in all, or add partitions to {self.topic!r} first"
            )
        wanted = [TopicPartition(self.topic, p) for p in range(spec.first_partition, end)]
        if missing := [p.partition for p in wanted if p not in view.replicas]:
            raise PlacementError(
                f"the replicas of {self.topic!r} partition {missing[0]} are not known: "
                "look at the cluster again"
            )
        return tuple(tuple(view.replicas[partition]) for partition in wanted)

    def _row(
        self,
        partition: int,
        present: tuple[int, ...],
        model: tuple[int, ...],
        spec: PlacementSpec,
        usable: frozenset[int],
    ) -> tuple[int, ...]:
        added = tuple(broker for broker in model if broker not in present)
        if gone := [broker for broker in added if broker not in usable]:
            raise PlacementError(
                f"partition {partition} of {self.topic!r} lies on {listed(gone)}, which is not "
                "live or not among the brokers asked for: wait for it, or move that topic first"
            )
        row = present + added
        if len(row) != spec.replication_factor:
            what = f"has {len(model)} replicas {list(model)}"
            if present:
                what += f", and the partition to place has {list(present)} already"
            raise PlacementError(
                f"partition {partition} of {self.topic!r} {what}: that makes {len(row)} and not "
                f"{spec.replication_factor}; ask for replication factor {len(row)}, or choose "
                "another placer"
            )
        return row
