"""The layout under audit, with what all its checks need, and the words that they share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError

Partitions = list[TopicPartition]


@dataclass(frozen=True, slots=True)
class Subject:
    """A layout, the replicas in sync (all on known brokers, where it is not said), and the least
    number of these that each topic needs to be written."""

    view: ClusterView
    racks: Mapping[int, str | None]
    in_sync: Mapping[TopicPartition, frozenset[int]]
    least: Mapping[str, int]

    @classmethod
    def of(
        cls,
        view: ClusterView,
        in_sync: Mapping[TopicPartition, Collection[int]] | None,
        min_in_sync: int | Mapping[str, int],
    ) -> Subject:
        """Read what is given. Raises InvalidOptionError for a ``min_in_sync`` below 1."""
        racks = view.racks()
        topics = sorted({partition.topic for partition in view.replicas})
        least = {
            topic: min_in_sync if isinstance(min_in_sync, int) else min_in_sync.get(topic, 1)
            for topic in topics
        }
        if wrong := {topic: n for topic, n in least.items() if n < 1}:
            topic, number = next(iter(wrong.items()))
            raise InvalidOptionError(f"min.insync.replicas of {topic} is {number}: at least 1")
        return cls(
            view,
            racks,
            {
                partition: frozenset(
                    broker
                    for broker in (replicas if in_sync is None else in_sync.get(partition, ()))
                    if broker in racks
                )
                for partition, replicas in view.replicas.items()
            },
            least,
        )

    def leader(self, partition: TopicPartition) -> int | None:
        """The present leader; the preferred one, in a view that knows of no leaders."""
        if self.view.leaders:
            return self.view.leaders.get(partition)
        first = next(iter(self.view.replicas[partition]), None)
        return first if first in self.racks else None


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, Partitions]:
    """Partitions in order, by topic."""
    found: dict[str, Partitions] = {}
    for partition in sorted(partitions):
        found.setdefault(partition.topic, []).append(partition)
    return found


def numbers(partitions: Collection[TopicPartition], of: int | None = None) -> str:
    """``partition 3``, ``partitions 1, 2`` or, of many, a count and the first few."""
    some = ", ".join(str(partition.partition) for partition in list(partitions)[:5])
    if len(partitions) == 1:
        return f"partition {some}"
    if of == len(partitions):
        return f"all {of} partitions"
    return f"{len(partitions)} partitions ({some}{', ...' if len(partitions) > 5 else ''})"


def brokers_named(brokers: Collection[int]) -> str:
    """``broker 5`` or ``brokers 1, 2``; of many, the first ten."""
    some = ", ".join(map(str, sorted(brokers)[:10])) + (", ..." if len(brokers) > 10 else "")
    return f"broker{'' if len(brokers) == 1 else 's'} {some}"
