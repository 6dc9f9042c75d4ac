"""Brokers, racks and readers in numbers, and what leaders outside the choice count for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError
from placement_core.leaders.model import Readers
from placement_core.leaders.quotas import Quotas, racks_of, weight_steps
from placement_core.matching import IntArray
from placement_core.racks import parse_rack


@dataclass(frozen=True, slots=True)
class Setting:
    """What does not change while leaders are chosen.

    number
        Broker id to number.
    rack
        Per broker its rack; ``places - 2`` where that is not known.
    places
        The length of arrays per rack (see :class:`~placement_core.leaders.quotas.Quotas`).
    quotas
        Per set of readers; None where it has no consumers or no partitions.
    read_by
        Topic to the places of its readers (those with quotas).
    free, fixed
        Partitions to choose leaders of, and the others.
    """

    view: ClusterView
    number: dict[int, int]
    rack: IntArray
    places: int
    quotas: tuple[Quotas | None, ...]
    read_by: dict[str, tuple[int, ...]]
    free: tuple[TopicPartition, ...]
    fixed: tuple[TopicPartition, ...]

    @classmethod
    def of(
        cls,
        view: ClusterView,
        readers: Sequence[Readers],
        topics: Collection[str] | None,
        levels: int | None,
    ) -> Setting:
        """Check and number. Raises InvalidOptionError as ``plan_leaders`` does."""
        known = {partition.topic for partition in view.replicas}
        _check(known, readers, topics, levels)
        racks = racks_of(view.racks(), levels)
        place = {rack: n for n, rack in enumerate(racks)}
        paths = {broker: parse_rack(rack) for broker, rack in sorted(view.racks().items())}
        number = {broker: n for n, broker in enumerate(paths)}
        rack = [len(racks) if path is None else place[path[:levels]] for path in paths.values()]
        sizes: dict[str, int] = dict.fromkeys(sorted(known), 0)
        for partition in view.replicas:
            sizes[partition.topic] += 1
        steps = weight_steps([one.weight for one in readers])
        quotas = tuple(
            Quotas.of(one, racks, levels, sum(sizes.get(topic, 0) for topic in one.topics), step)
            for one, step in zip(readers, steps, strict=True)
        )
        read_by = {
            topic: tuple(n for n, one in enumerate(readers) if quotas[n] and topic in one.topics)
            for topic in sizes
        }
        may_change = known if topics is None else topics
        free: list[TopicPartition] = []
        fixed: list[TopicPartition] = []
        for partition, replicas in sorted(view.replicas.items()):
            can = partition.topic in may_change and any(broker in number for broker in replicas)
            (free if can else fixed).append(partition)
        return cls(
            view,
            number,
            np.array(rack, np.int64),
            len(racks) + 2,
            quotas,
            read_by,
            tuple(free),
            tuple(fixed),
        )

    def preferred(self, partitions: Collection[TopicPartition]) -> IntArray:
        """Preferred leaders per broker."""
        totals = np.zeros(len(self.number), np.int64)
        for partition in partitions:
            leader = self.number.get(next(iter(self.view.replicas[partition]), -1))
            if leader is not None:
                totals[leader] += 1
        return totals

    def per_rack(self, per_broker: IntArray) -> IntArray:
        """Leaders per rack, from those per broker."""
        led = np.zeros(self.places, np.int64)
        np.add.at(led, self.rack, per_broker)
        return led

    def led_elsewhere(self) -> list[IntArray]:
        """Per set of readers, preferred leaders of its fixed partitions, per rack."""
        return self._led({p: next(iter(self.view.replicas[p]), -1) for p in self.fixed})

    def led_today(self) -> list[IntArray]:
        """Per set of readers, present leaders per rack; preferred ones, in a view without any."""
        if not self.view.leaders:
            return self._led({p: next(iter(row), -1) for p, row in self.view.replicas.items()})
        return self._led({p: self.view.leaders.get(p, -1) for p in self.view.replicas})

    def _led(self, leaders: Mapping[TopicPartition, int]) -> list[IntArray]:
        """Where nobody leads, or a broker that is gone, counts as a rack that is not known."""
        led = [np.zeros(self.places, np.int64) for _ in self.quotas]
        for partition, broker in leaders.items():
            leader = self.number.get(broker)
            rack = self.places - 2 if leader is None else self.rack[leader]
            for n in self.read_by[partition.topic]:
                led[n][rack] += 1
        return led


def _check(
    known: Collection[str],
    readers: Sequence[Readers],
    topics: Collection[str] | None,
    levels: int | None,
) -> None:
    if levels is not None and levels < 1:
        raise InvalidOptionError(f"levels is {levels}: compare racks by at least one level")
    names = [one.name for one in readers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidOptionError(f"two sets of readers are named {twice[0]}: name each its own")
    if missing := sorted(set(topics or ()) - set(known)):
        raise InvalidOptionError(f"the cluster has no topic {', '.join(missing)}: check the names")
