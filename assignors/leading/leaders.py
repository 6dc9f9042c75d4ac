"""What a client's metadata says of leaders, in the terms of the assignors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Leaders:
    """The racks of the leaders of some topics.

    ``racks`` is what an assignor takes, index = position. ``numbers`` has, for a topic whose
    partitions are not 0, 1, 2 … without a gap, the partition at each position; brokers do not
    answer so, but an assignor that believed it would give away partitions that are not there.
    ``unseen`` are the topics without metadata; ``brokers`` has each broker's rack.
    """

    racks: Mapping[str, list[str | None]]
    numbers: Mapping[str, list[int]]
    unseen: frozenset[str]
    brokers: Mapping[int, str | None]

    def to_positions(self, owned: Mapping[str, Sequence[int]]) -> Mapping[str, Sequence[int]]:
        """``owned`` by position instead of by partition; what does not exist is left out."""
        if self.numbers.keys().isdisjoint(owned):
            return owned
        translated = dict(owned)
        for topic in self.numbers.keys() & owned.keys():
            position = {number: index for index, number in enumerate(self.numbers[topic])}
            translated[topic] = [position[p] for p in owned[topic] if p in position]
        return translated

    def to_partitions(self, plan: Mapping[str, list[int]]) -> dict[str, list[int]]:
        """One member's part of a plan by partition instead of by position."""
        if self.numbers.keys().isdisjoint(plan):
            return dict(plan)
        return {
            topic: [self.numbers[topic][at] for at in positions]
            if topic in self.numbers
            else positions
            for topic, positions in plan.items()
        }


class Metadata(Protocol):
    """What kafka-python's and aiokafka's ClusterMetadata have in common."""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The topic's partitions, None where it has not been seen."""

    def partitions_for_broker(self, broker_id: int) -> Iterable[tuple[str, int]] | None:
        """The partitions that the broker leads."""


def read_leaders(
    metadata: Metadata, brokers: Mapping[int, str | None], topics: Iterable[str]
) -> Leaders:
    """The leaders' racks of ``topics`` as ``metadata`` knows them; ``brokers`` has theirs.

    A partition without a leader is there with the rack None. Leaders are taken broker by
    broker, which for many partitions is several times faster than asking for each.
    """
    racks: dict[str, list[str | None]] = {}
    numbers: dict[str, list[int]] = {}
    unseen = set()
    for topic in topics:
        partitions = metadata.partitions_for_topic(topic)
        if not partitions:
            unseen.add(topic)
            continue
        racks[topic] = [None] * len(partitions)
        if max(partitions) != len(partitions) - 1:
            numbers[topic] = sorted(partitions)
    position = {t: {p: at for at, p in enumerate(ps)} for t, ps in numbers.items()}
    for broker, rack in brokers.items():
        if not rack:
            continue
        for topic, partition in list(metadata.partitions_for_broker(broker) or ()):
            row = racks.get(topic)
            if row is None:
                continue
            at = position[topic].get(partition, -1) if topic in position else partition
            # Beyond the row only if the metadata changed under our hands.
            if 0 <= at < len(row):
                row[at] = rack
    return Leaders(racks, numbers, frozenset(unseen), dict(brokers))
