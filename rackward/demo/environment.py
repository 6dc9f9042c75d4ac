"""Where the demo runs: a cluster that it starts, or an existing one.

An `Environment` creates the topic, reads its state, and measures the bytes that each strategy's
members read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from placement_core import ClusterView
from rackward.admin import connect, read_state
from rackward.admin.topics import NewPartitions, create_partitions, wait_for_layout
from rackward.clusters import Cluster
from rackward.demo import DemoError
from rackward.measurement.assignments import AssignmentSnapshot, TrafficMatrix
from rackward.measurement.meter import BrokerMeter, client_rack
from rackward.measurement.producer import RECORD_BYTES

MAX_RACKS = 6
"""Two members run per rack and strategy; more would overload one machine."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A cluster to run on.

    ``cluster`` is None for an existing cluster, whose brokers and leaders are left alone.
    ``racks`` maps broker ids to racks, without brokers that have none.
    """

    description: str
    bootstrap_servers: str
    racks: Mapping[int, str]
    cluster: Cluster | None = None

    @property
    def rack_names(self) -> tuple[str, ...]:
        """The distinct racks, sorted."""
        return tuple(sorted(set(self.racks.values())))

    def bootstrap(self, strategy: str, rack: str) -> str:
        """Return the bootstrap servers for the members of ``strategy`` in ``rack``."""
        if self.cluster is None:
            return self.bootstrap_servers
        return self.cluster.bootstrap(client_rack(strategy, rack))

    def view(self, topic: str) -> ClusterView:
        """Return the brokers, and the replicas and leaders of ``topic``."""
        if self.cluster is not None:
            return self.cluster.view([topic])
        with connect({}, self.bootstrap_servers) as admin:
            return read_state(admin, [topic], reassignments=False).view

    def traffic_meter(self, topic: str, partitions: int) -> TrafficMeter:
        """Return a meter that starts at zero now."""
        if self.cluster is None:
            return LogGrowthMeter(self.bootstrap_servers, topic, partitions)
        return BrokerMeter(self.cluster, self.racks)

    def create_topic(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Create ``topic`` with these replicas (index = partition), leaders first."""
        requested = [NewPartitions(topic, tuple(map(tuple, replicas)))]
        with connect({}, self.bootstrap_servers) as admin:
            for error in create_partitions(admin, requested).values():
                raise error
            for problem in wait_for_layout(admin, requested).values():
                raise DemoError(f"the topic {topic} was created, but {problem}")

    def delete(self, topic: str, groups: Sequence[str]) -> None:
        """Delete the demo's topic and groups from an existing cluster."""
        with connect({}, self.bootstrap_servers) as admin:
            admin.call(f"deleting {topic}", lambda client: client.delete_topics([topic]))
            admin.call("deleting groups", lambda client: client.delete_groups(list(groups)))


def existing_cluster(bootstrap_servers: str) -> Environment:
    """Return the environment on an existing cluster.

    Raises DemoError if the brokers' racks are not what the demo can compare.
    """
    with connect({}, bootstrap_servers) as admin:
        view = read_state(admin, [], reassignments=False).view
    racks = {broker.id: broker.rack for broker in view.brokers if broker.rack is not None}
    names = sorted(set(racks.values()))
    if len(names) < 2:
        reported = f"only rack {names[0]!r}" if names else "no rack"
        raise DemoError(
            f"the brokers at {bootstrap_servers} have {reported}: the demo needs at least two "
            "racks; set broker.rack in the brokers' configuration"
        )
    if len(names) > MAX_RACKS:
        raise DemoError(
            f"the brokers at {bootstrap_servers} have {len(names)} racks: the demo starts two "
            f"members per rack and strategy, and supports at most {MAX_RACKS} racks"
        )
    if any(name.startswith("/") for name in names):
        raise DemoError(
            f"the brokers at {bootstrap_servers} have racks with levels ({names[0]}): the demo "
            "supports only racks without levels"
        )
    return Environment(f"the cluster at {bootstrap_servers}", bootstrap_servers, racks)


class TrafficMeter(Protocol):
    """Measures bytes since its construction."""

    def read(self, snapshots: Mapping[str, AssignmentSnapshot], /) -> Mapping[str, TrafficMatrix]:
        """Return the bytes so far by strategy key, given the groups' present assignments."""

    def reset_broker(self, broker_id: int) -> None:
        """Expect the counters of a broker that was killed to start at zero again."""

    def close(self) -> None:
        """Close connections."""


class LogGrowthMeter:
    """Bytes estimated from the growth of partitions, on a cluster without such listeners.

    The growth of a partition since the last call is attributed to its present reader and leader,
    even if a rebalance happened in between. Requests, headers and repeated reads are not counted.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._consumer: Any = KafkaConsumer(bootstrap_servers=bootstrap, metrics_enabled=False)
        self._partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._total: dict[str, Counter[tuple[str, str]]] = {}
        self._last = self._end_offsets()

    def read(self, snapshots: Mapping[str, AssignmentSnapshot], /) -> Mapping[str, TrafficMatrix]:
        ends = self._end_offsets()
        growth = [(end - last) * RECORD_BYTES for end, last in zip(ends, self._last, strict=True)]
        self._last = ends
        for strategy, snapshot in snapshots.items():
            matrix = self._total.setdefault(strategy, Counter())
            matrix.update(traffic_matrix(growth, snapshot))
        return {strategy: dict(self._total[strategy]) for strategy in snapshots}

    def reset_broker(self, broker_id: int) -> None:
        pass

    def close(self) -> None:
        self._consumer.close()

    def _end_offsets(self) -> list[int]:
        try:
            offsets = self._consumer.end_offsets(self._partitions)
        except KafkaError as error:
            raise DemoError(f"cannot read the end offsets of the topic: {error}") from error
        return [offsets[partition] for partition in self._partitions]


def traffic_matrix(
    growth: Sequence[int], snapshot: AssignmentSnapshot
) -> dict[tuple[str, str], int]:
    """Return ``growth`` (bytes, index = partition) by reader's rack and leader's rack.

    Partitions without a reader, or without a leader in a known rack, are left out.
    """
    matrix: Counter[tuple[str, str]] = Counter()
    for member, partitions in snapshot.assignment.items():
        for partition in partitions:
            leader_rack = snapshot.leader_racks[partition]
            if leader_rack is not None:
                matrix[snapshot.member_racks[member], leader_rack] += growth[partition]
    return dict(matrix)
