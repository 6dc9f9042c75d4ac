"""A cluster at one moment, as its brokers tell it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from placement_core import Broker, ClusterView, TopicPartition

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Ongoing:
    """A reassignment under way: all ``replicas`` now, those to come and those to go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas at the end, in order."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a cluster's metadata says; empty where nobody asked for it.

    cluster_id
        None where the brokers do not tell.
    view
        Live brokers, replicas and present leaders of the topics asked for.
    in_sync
        Per partition, the replicas in sync, in the brokers' order.
    offline
        Partition to the replicas that are away, or on a broken disk; only where there are any.
    fenced
        Brokers that the cluster knows and that are not live.
    addresses
        Broker id to ``host:port``, of live and of fenced ones.
    topic_ids
        Topic to its id, which a new topic of the same name does not have; None from brokers
        before Kafka 2.8.
    internal
        Topics that Kafka keeps for itself.
    ongoing
        Reassignments under way.
    """

    cluster_id: str | None
    view: ClusterView
    in_sync: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    offline: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    fenced: tuple[Broker, ...] = ()
    addresses: Mapping[int, str] = field(default_factory=dict)
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)
    internal: frozenset[str] = frozenset()
    ongoing: Mapping[TopicPartition, Ongoing] = field(default_factory=dict)

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics, sorted."""
        return tuple(sorted(self.topic_ids))

    def with_ongoing(self, ongoing: Mapping[TopicPartition, Ongoing]) -> ClusterState:
        """With those of the reassignments that are of its own topics."""
        known = self.view.replicas
        return replace(
            self, ongoing={place: each for place, each in ongoing.items() if place in known}
        )

    def only(self, topics: Collection[str]) -> ClusterState:
        """The same, of these topics alone."""
        chosen = frozenset(topics)

        def of(found: Mapping[TopicPartition, Value]) -> dict[TopicPartition, Value]:
            return {place: each for place, each in found.items() if place.topic in chosen}

        return replace(
            self,
            view=replace(
                self.view,
                replicas=of(self.view.replicas),
                leaders=of(self.view.leaders),
            ),
            in_sync=of(self.in_sync),
            offline=of(self.offline),
            topic_ids={name: each for name, each in self.topic_ids.items() if name in chosen},
            internal=self.internal & chosen,
            ongoing=of(self.ongoing),
        )
