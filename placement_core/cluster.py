"""What the pure code knows of a Kafka cluster: frozen values, no client objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


# ---- The difference of two layouts, partition by partition.


@dataclass(frozen=True, slots=True)
class Move:
    """A partition whose replica list is to change. First in a list: the preferred leader."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that have to copy the partition."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that lose it when the copies are in sync."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def order_only(self) -> bool:
        """Whether only the order changes, and no data."""
        return not self.adding and not self.removing

    def reversed(self) -> Move:
        """The way back."""
        return Move(self.partition, self.after, self.before)


def moves_between(
    before: Mapping[TopicPartition, tuple[int, ...]],
    after: Mapping[TopicPartition, tuple[int, ...]],
) -> tuple[Move, ...]:
    """What leads from one layout to another, in order of topic and partition.

    Partitions that only ``before`` has stay as they are; those that only ``after`` has have no
    replicas before.
    """
    return tuple(
        Move(partition, before.get(partition, ()), after[partition])
        for partition in sorted(after)
        if before.get(partition, ()) != after[partition]
    )


# ---- Placeholders: -1, -2, -3 in a replica list stand for replicas that no broker holds yet
# (KIP-409).
#
# They are what callers of rackward see. No broker ever hears of them: on the cluster such a
# partition is one with fewer replicas.


def placeholders(count: int) -> tuple[int, ...]:
    """So many of them: (-1, -2, ...)."""
    return tuple(range(-1, -1 - count, -1))


def without_placeholders(row: Iterable[int]) -> tuple[int, ...]:
    """The replicas of a list that brokers hold, in their order."""
    return tuple(broker for broker in row if broker >= 0)


def padded(row: Iterable[int], replication_factor: int) -> tuple[int, ...]:
    """The held replicas, and a placeholder for each that is missing."""
    held = without_placeholders(row)
    return held + placeholders(max(0, replication_factor - len(held)))
