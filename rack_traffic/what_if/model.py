"""A group as the scenarios see it, and what comes out of one: frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignors import Member
from placement_core import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionCase:
    """A partition: brokers that lead, hold and are in sync with it, and the bytes that the group
    read from it over the interval."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class GroupCase:
    """A group at the end of an interval of ``hours`` hours.

    ``members`` own what they own now. ``partitions`` are those of every topic that a member
    subscribes to. ``racks`` holds the brokers' racks (None: not known), ``shared_topics`` counts
    the topics that other groups read too.
    """

    cluster: str
    group: str
    assignor: str
    hours: float
    members: tuple[Member, ...]
    partitions: Mapping[TopicPartition, PartitionCase]
    racks: Mapping[int, str | None]
    shared_topics: int = 0

    def rack_of(self, broker: int | None) -> str | None:
        """The rack of a broker; None where the broker, or its rack, is not known."""
        return None if broker is None else self.racks.get(broker)

    def leader_racks(self) -> dict[str, list[str | None]]:
        """The racks of the leaders in the form that assignors take."""
        return self.racks_by_topic({p: self.rack_of(c.leader) for p, c in self.partitions.items()})

    def racks_by_topic(
        self, racks: Mapping[TopicPartition, str | None]
    ) -> dict[str, list[str | None]]:
        """Racks of partitions as topic to list, index = partition."""
        found: dict[str, list[str | None]] = {}
        for topic, partition in sorted(self.partitions):
            row = found.setdefault(topic, [])
            row.extend([None] * (partition + 1 - len(row)))
            row[partition] = racks[TopicPartition(topic, partition)]
        return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """A scenario's answer: who reads each partition (a member's id; partitions that nobody reads
    are absent), from which rack, and how many preferred leaders change for it."""

    scenario: str
    assignor: str
    owner: Mapping[TopicPartition, str]
    source: Mapping[TopicPartition, str | None]
    leader_moves: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """What an outcome is worth; the fields are columns of ``schemas.WHAT_IF``."""

    scenario: str
    assignor: str
    members: int
    partitions: int
    off_rack_partitions: int
    unknown_partitions: int
    bytes: int
    local_bytes: int
    crossing_bytes: int
    unknown_bytes: int
    cost: float
    cost_per_month: float
    most_partitions: int
    least_partitions: int
    most_bytes: int
    mean_bytes: float
    moves: int
    leader_moves: int
    shared_topics: int = field(default=0)
