"""Placement like another topic, so that partitions that are joined lie together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError, PlacementError, format_brokers
from placement_core.placers.spec import PlacementSpec, ReplicaLists, eligible_brokers
from placement_core.plugins import read_properties


@dataclass(frozen=True, slots=True)
class LikeTopicPlacer:
    """Gives partition i the replica list, and so the leader, of partition i of ``topic``.

    Racks are not considered: they are those of the other topic. If a partition has replicas
    already, they stay in front, and the other topic's list decides which ones are added. With
    ``topic`` on (0, 1, 2)::

        present   result
        ()        (0, 1, 2)
        (1,)      (1, 0, 2)
        (3,)      an error for RF 3: that makes 4 replicas
    """

    topic: str

    def __post_init__(self) -> None:
        if not self.topic:
            raise InvalidOptionError("topic is empty: name the topic to place like")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LikeTopicPlacer:
        """Construct from ``topic``, which is required. Raises InvalidOptionError."""
        return cls(read_properties("like-topic", {"topic": "", **properties}, topic=str)["topic"])

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists:
        """See ReplicaPlacer. Raises PlacementError if the topics or the brokers do not match."""
        usable = eligible_brokers(view, broker_ids)
        return tuple(
            self._place_one(
                spec.first_partition + index, spec.present_replicas(index), row, spec, usable
            )
            for index, row in enumerate(self._model(spec, view))
        )

    def _model(self, spec: PlacementSpec, view: ClusterView) -> ReplicaLists:
        """Return the other topic's lists for the partitions to place."""
        count = 1 + max((p for topic, p in view.replicas if topic == self.topic), default=-1)
        if not count:
            raise PlacementError(f"there is no topic {self.topic!r} to place like: name one")
        end = spec.first_partition + spec.partitions
        if end > count:
            raise PlacementError(
                f"{self.topic!r} has {count} partitions, but {end} are needed: request {count} "
                f"in all, or add partitions to {self.topic!r} first"
            )
        needed = [TopicPartition(self.topic, p) for p in range(spec.first_partition, end)]
        if missing := [p.partition for p in needed if p not in view.replicas]:
            raise PlacementError(
                f"the replicas of {self.topic!r} partition {missing[0]} are unknown: "
                "read the cluster's metadata again"
            )
        return tuple(tuple(view.replicas[partition]) for partition in needed)

    def _place_one(
        self,
        partition: int,
        present: tuple[int, ...],
        model: tuple[int, ...],
        spec: PlacementSpec,
        usable: frozenset[int],
    ) -> tuple[int, ...]:
        added = tuple(broker for broker in model if broker not in present)
        if unusable := [broker for broker in added if broker not in usable]:
            raise PlacementError(
                f"partition {partition} of {self.topic!r} is on {format_brokers(unusable)}, not "
                "live or not among the requested brokers: wait for it, or move that topic first"
            )
        row = present + added
        if len(row) != spec.replication_factor:
            what = f"has {len(model)} replicas {list(model)}"
            if present:
                what += f", and the partition to place has {list(present)} already"
            raise PlacementError(
                f"partition {partition} of {self.topic!r} {what}: that makes {len(row)} and not "
                f"{spec.replication_factor}; request replication factor {len(row)}, or choose "
                "another placer"
            )
        return row
