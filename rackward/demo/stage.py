"""Where the story is played: a cluster of our own, or one that is there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placement_core import ClusterView
from rackward.clusters.protocol import Cluster
from rackward.demo.kafka_admin import admin_of, view_of
from rackward.demo.meters import BrokerCounters, LogGrowth, Meter, door


@dataclass(frozen=True, slots=True)
class Stage:
    """``cluster`` is None where the cluster is not ours to break. ``racks`` leaves out brokers
    that do not say theirs."""

    name: str
    bootstrap_servers: str
    racks: Mapping[int, str]
    cluster: Cluster | None = None

    @property
    def rack_names(self) -> tuple[str, ...]:
        """The racks, sorted."""
        return tuple(sorted(set(self.racks.values())))

    def bootstrap(self, strategy: str, rack: str) -> str:
        """The servers by which ``strategy``'s members in ``rack`` know the cluster."""
        if self.cluster is None:
            return self.bootstrap_servers
        return self.cluster.bootstrap(door(strategy, rack))

    def view(self, topic: str) -> ClusterView:
        """The brokers, and the replicas and leaders of ``topic``, as of now."""
        if self.cluster is not None:
            return self.cluster.view([topic])
        with admin_of(self.bootstrap_servers) as admin:
            return view_of(admin, [topic])

    def meter(self, topic: str, partitions: int) -> Meter:
        """What reads the bytes here, starting now."""
        if self.cluster is None:
            return LogGrowth(self.bootstrap_servers, topic, partitions)
        return BrokerCounters(self.cluster, self.racks)

    def create_topic(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Create ``topic`` with these replicas (index = partition), leaders first."""
        with admin_of(self.bootstrap_servers) as admin:
            admin.create_topics(
                {topic: {"assignments": dict(enumerate(map(list, replicas)))}},
                wait_for_metadata=True,
            )

    def remove(self, topic: str, groups: Sequence[str]) -> None:
        """Delete what the demo left on a cluster that stays."""
        with admin_of(self.bootstrap_servers) as admin:
            admin.delete_topics([topic])
            admin.delete_groups(list(groups))
