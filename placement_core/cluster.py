"""Values that describe a Kafka cluster: brokers, partitions, replica lists and leaders.

All of them are plain frozen values, so that one call serves a live cluster, a what-if and a test.
The first replica in a list is the partition's *preferred leader*. A :class:`Move` is the change of
one partition's list; :func:`moves_between` compares two layouts.

Placeholders
------------
With under-replicated creation (KIP-409), -1, -2, -3 ... at the end of a replica list stand for
replicas that no broker holds yet: RF 3 on broker 1 alone is ``(1, -1, -2)``. They exist only in
rackward's values. On the cluster, the partition has a shorter list; no request contains a
placeholder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _read_only(mapping: Mapping[_Key, _Value]) -> Mapping[_Key, _Value]:
    return MappingProxyType(mapping) if isinstance(mapping, dict) else mapping


class TopicPartition(NamedTuple):
    """A topic name and a partition number."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker id and its ``broker.rack``, None where it is not set."""

    id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The brokers and partitions of a cluster at one moment.

    brokers
        The live brokers.
    replicas
        The replica list of each partition, preferred leader first. Lists may name brokers that
        are not live.
    leaders
        The current leader of each partition that has one: a partition without an entry has no
        leader, and ``{}`` means that no partition has one. None (the default) means that leaders
        are unknown, which is different: nothing is then concluded about them.
    """

    brokers: tuple[Broker, ...]
    replicas: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    leaders: Mapping[TopicPartition, int] | None = None

    def __post_init__(self) -> None:
        """Make the mappings read-only: plug-ins get the view as well."""
        object.__setattr__(self, "replicas", _read_only(self.replicas))
        if self.leaders is not None:
            object.__setattr__(self, "leaders", _read_only(self.leaders))

    @property
    def known_leaders(self) -> Mapping[TopicPartition, int]:
        """``leaders``, or an empty mapping if leaders are unknown."""
        return {} if self.leaders is None else self.leaders

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the leader of a partition; None if it has none or leaders are unknown."""
        return self.known_leaders.get(partition)

    def leaders_or_preferred(self) -> Mapping[TopicPartition, int]:
        """Return ``leaders`` or, if they are unknown, the preferred leaders that are live."""
        if self.leaders is not None:
            return self.leaders
        live = self.racks()
        return {p: row[0] for p, row in self.replicas.items() if row and row[0] in live}

    def racks(self) -> dict[int, str | None]:
        """Return the rack of every live broker, by broker id."""
        return {broker.id: broker.rack for broker in self.brokers}

    def without_racks(self) -> ClusterView:
        """Return the same view with no rack on any broker."""
        return replace(self, brokers=tuple(Broker(broker.id) for broker in self.brokers))

    def leader_racks(self) -> dict[str, list[str | None]]:
        """Return the leaders' racks by topic, index = partition: the input of an assignor.

        An entry is None where the partition has no leader, where leaders are unknown, where the
        leader's broker has no rack or is not live, and where the partition number is missing.
        """
        racks = self.racks()
        by_topic: dict[str, list[str | None]] = {}
        for topic, partition in sorted({*self.replicas, *self.known_leaders}):
            row = by_topic.setdefault(topic, [])
            row.extend([None] * (partition + 1 - len(row)))
            leader = self.leader(TopicPartition(topic, partition))
            row[partition] = None if leader is None else racks.get(leader)
        return by_topic


@dataclass(frozen=True, slots=True)
class Move:
    """The change of one partition's replica list; the first of a list is the preferred leader."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        """The brokers that have to copy the partition."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """The brokers that drop their replica once the new ones are in sync."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def order_only(self) -> bool:
        """True if only the order of the replicas changes, so that no data is copied."""
        return not self.adding and not self.removing

    def reversed(self) -> Move:
        """Return the move that undoes this one."""
        return Move(self.partition, self.after, self.before)


def moves_between(
    before: Mapping[TopicPartition, tuple[int, ...]],
    after: Mapping[TopicPartition, tuple[int, ...]],
) -> tuple[Move, ...]:
    """Return the moves from one layout to another, sorted by topic and partition.

    Partitions that are only in ``before`` stay as they are. Those that are only in ``after`` have
    an empty list before.
    """
    return tuple(
        Move(partition, before.get(partition, ()), after[partition])
        for partition in sorted(after)
        if before.get(partition, ()) != after[partition]
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each topic, both sorted."""
    topics: dict[str, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(partition)
    return topics


def placeholders(count: int) -> tuple[int, ...]:
    """Return ``count`` placeholders: (-1, -2, ...)."""
    return tuple(range(-1, -1 - count, -1))


def without_placeholders(row: Iterable[int]) -> tuple[int, ...]:
    """Return the broker ids in a replica list, in their order."""
    return tuple(broker for broker in row if broker >= 0)


def with_placeholders(row: Iterable[int], replication_factor: int) -> tuple[int, ...]:
    """Return the broker ids in a replica list, followed by a placeholder for each missing one."""
    brokers = without_placeholders(row)
    return brokers + placeholders(max(0, replication_factor - len(brokers)))


# ---- Leaders and replicas per broker and per rack, before and after a change.


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """Preferred leaders and replicas of a broker before and after a change."""

    id: int
    rack: str | None
    leaders_before: int
    leaders_after: int
    replicas_before: int
    replicas_after: int


@dataclass(frozen=True, slots=True)
class RackLoad:
    """Preferred leaders and replicas of a rack before and after a change."""

    rack: str | None
    leaders_before: int
    leaders_after: int
    replicas_before: int
    replicas_after: int


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """The loads of a cluster.

    brokers
        In order of the ids; includes brokers that are down and still in replica lists.
    racks
        In order of the names; None (brokers without a rack) is last.
    """

    brokers: tuple[BrokerLoad, ...]
    racks: tuple[RackLoad, ...]


def cluster_load(before: ClusterView, after: ClusterView) -> ClusterLoad:
    """Return the loads in two views of one cluster, with the racks of ``after``."""
    rack_of = {**before.racks(), **after.racks()}
    counts = [*_count(before.replicas), *_count(after.replicas)]
    leaders_before, replicas_before, leaders_after, replicas_after = counts
    figures = (leaders_before, leaders_after, replicas_before, replicas_after)
    ids = sorted({*rack_of, *replicas_before, *replicas_after})
    by_rack: dict[str | None, list[int]] = {}
    for id in ids:
        by_rack.setdefault(rack_of.get(id), []).append(id)
    return ClusterLoad(
        tuple(BrokerLoad(id, rack_of.get(id), *(each[id] for each in figures)) for id in ids),
        tuple(
            RackLoad(rack, *(sum(each[id] for id in by_rack[rack]) for each in figures))
            for rack in sorted(by_rack, key=lambda rack: (rack is None, rack or ""))
        ),
    )


def _count(
    replicas: Mapping[TopicPartition, tuple[int, ...]],
) -> tuple[Counter[int], Counter[int]]:
    leaders, holders = Counter[int](), Counter[int]()
    for row in replicas.values():
        leaders.update(row[:1])
        holders.update(row)
    return leaders, holders
