"""Where the story is played: a cluster of our own, or one that is there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placement_core import ClusterView
from rackward.admin import connect, read_state
from rackward.admin.topics import NewPartitions, await_layout, make_partitions
from rackward.clusters.protocol import Cluster
from rackward.demo.groups import DemoError
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
        with connect({}, self.bootstrap_servers) as admin:
            return read_state(admin, [topic], ongoing=False).view

    def meter(self, topic: str, partitions: int) -> Meter:
        """What reads the bytes here, starting now."""
        if self.cluster is None:
            return LogGrowth(self.bootstrap_servers, topic, partitions)
        return BrokerCounters(self.cluster, self.racks)

    def create_topic(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Create ``topic`` with these replicas (index = partition), leaders first."""
        wanted = [NewPartitions(topic, tuple(map(tuple, replicas)))]
        with connect({}, self.bootstrap_servers) as admin:
            for error in make_partitions(admin, wanted).values():
                raise error
            for fault in await_layout(admin, wanted).values():
                raise DemoError(f"the topic {topic} was created, but {fault}")

    def remove(self, topic: str, groups: Sequence[str]) -> None:
        """Delete what the demo left on a cluster that stays."""
        with connect({}, self.bootstrap_servers) as admin:
            admin.call(f"deleting {topic}", lambda client: client.delete_topics([topic]))
            admin.call("deleting groups", lambda client: client.delete_groups(list(groups)))
