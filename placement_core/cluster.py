"""What the pure code knows of a Kafka cluster: frozen values, no client objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker and the rack that it says it stands in (None: it does not say)."""

    id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Brokers, and the replica list of every partition; the first replica is the preferred leader.

    ``leaders`` holds the present leader of each partition where it is known; a partition
    that is absent from it has none.
    """

    brokers: tuple[Broker, ...]
    replicas: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    leaders: Mapping[TopicPartition, int] = field(default_factory=dict)

    def racks(self) -> dict[int, str | None]:
        """Broker id to rack, for every broker."""
        return {broker.id: broker.rack for broker in self.brokers}

    def without_racks(self) -> ClusterView:
        """The same, as if no broker said its rack."""
        return replace(self, brokers=tuple(Broker(broker.id) for broker in self.brokers))

    def leader_racks(self) -> dict[str, list[str | None]]:
        """Topic to the racks of its partitions' leaders, index = partition.

        None stands for a leader that is unknown or whose broker does not say its rack, and
        for the gap where a partition number is missing from the view.
        """
        racks = self.racks()
        found: dict[str, list[str | None]] = {}
        for topic, partition in sorted({*self.replicas, *self.leaders}):
            row = found.setdefault(topic, [])
            row.extend([None] * (partition + 1 - len(row)))
            leader = self.leaders.get(TopicPartition(topic, partition))
            row[partition] = None if leader is None else racks.get(leader)
        return found
