"""The difference of two layouts, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement_core.cluster import TopicPartition


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
