"""Where the demo runs: a cluster that it starts, or an existing one; and the producer.

An `Environment` creates the topic, reads its state, and measures the bytes that each strategy's
members read. Replica placement and leader moves are pure functions of the brokers' racks and a
seeded random generator.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from placement_core import ClusterView
from rackward.admin import connect, read_state
from rackward.admin.topics import NewPartitions, create_partitions, wait_for_layout
from rackward.clusters import Cluster
from rackward.demo import DemoError
from rackward.demo.metrics import AssignmentSnapshot, TrafficMatrix

# ---- A background producer with a constant rate, round-robin over the partitions.

RECORD_BYTES = 4096


class BackgroundProducer:
    """Writes ``rate`` bytes per second to all ``partitions`` of ``topic`` until stopped.

    ``failure`` holds the error that ended it, if any. Batches are small: a batch near the size of
    a consumer's fetch would be cut, fetched again and counted twice. Values are random, so that
    nothing compresses them.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: float) -> None:
        self.records = 0
        self.failure: BaseException | None = None
        self._topic = topic
        self._partitions = partitions
        self._interval = RECORD_BYTES / rate
        self._stop = threading.Event()
        self._producer: Any = _Producer(
            bootstrap_servers=bootstrap,
            # With acks=1, records that only a dying leader had would be missing for every group.
            acks="all",
            linger_ms=250,
            batch_size=32 * 1024,
            metadata_max_age_ms=5000,
            reconnect_backoff_max_ms=1000,
            metrics_enabled=False,
        )
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

    @property
    def bytes(self) -> int:
        """Bytes of the values written so far."""
        return self.records * RECORD_BYTES

    def offsets(self) -> list[int]:
        """Return the number of records written so far, index = partition."""
        per_partition, rest = divmod(self.records, self._partitions)
        return [per_partition + (partition < rest) for partition in range(self._partitions)]

    def stop(self) -> None:
        """Stop; return when all records are acknowledged, after 20 s at most."""
        self._stop.set()
        self._thread.join(5)
        with suppress(KafkaTimeoutError):
            self._producer.flush(timeout=20)

    def close(self) -> None:
        """Stop at once; records that are not acknowledged within 2 s are dropped."""
        self._stop.set()
        self._thread.join(5)
        with suppress(KafkaError):
            self._producer.close(timeout=2)

    def _run(self) -> None:
        value = random.Random(0).randbytes(RECORD_BYTES)
        start = time.monotonic()
        try:
            while not self._stop.is_set():
                due = int((time.monotonic() - start) / self._interval)
                while self.records < due and not self._stop.is_set():
                    self._producer.send(
                        self._topic, value=value, partition=self.records % self._partitions
                    )
                    self.records += 1
                self._stop.wait(0.02)
        except BaseException as error:  # noqa: BLE001 - reported by the demo's main thread
            self.failure = error


class _Producer(KafkaProducer):  # type: ignore[misc]
    def __del__(self) -> None:
        """Do nothing: the base class would flush again, and log errors, after a failed close."""


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


def spread_replicas(
    racks: Mapping[int, str | None], partitions: int, random: Random
) -> list[tuple[int, ...]]:
    """Return replica lists, index = partition, the leader first.

    Every partition has a replica in each of up to three racks. The numbers of leaders per broker
    differ by at most one, and followers are spread evenly within a rack. The leaders' order is
    shuffled: leaders in step with partition numbers would favour or penalise an assignor by
    coincidence.
    """
    by_rack: dict[str, list[int]] = defaultdict(list)
    for broker, rack in sorted(racks.items()):
        if rack is not None:
            by_rack[rack].append(broker)
    brokers = [broker for broker in sorted(racks) if racks[broker] is not None]
    leaders = [brokers[i % len(brokers)] for i in range(partitions)]
    random.shuffle(leaders)
    follower_count: Counter[int] = Counter()
    layout = []
    for leader in leaders:
        other_racks = sorted(rack for rack in by_rack if rack != racks[leader])
        followers = []
        for rack in random.sample(other_racks, min(2, len(other_racks))):
            follower = min(by_rack[rack], key=lambda broker: (follower_count[broker], broker))
            follower_count[follower] += 1
            followers.append(follower)
        layout.append((leader, *followers))
    return layout


def choose_leader_moves(
    replicas: Sequence[Sequence[int]],
    leaders: Sequence[int],
    racks: Mapping[int, str | None],
    share: float,
    random: Random,
) -> dict[int, int]:
    """Return new leaders by partition, for ``share`` of the partitions (at least one).

    Each new leader is a replica in another rack: a move within the rack would change nothing
    that the demo measures.
    """
    candidates = {
        partition: others
        for partition, brokers in enumerate(replicas)
        if (others := [each for each in brokers if racks[each] != racks[leaders[partition]]])
    }
    count = min(len(candidates), max(1, round(share * len(replicas))))
    return {
        partition: random.choice(candidates[partition])
        for partition in sorted(random.sample(list(candidates), count))
    }


def client_rack(strategy: str, rack: str) -> str:
    """Return the client rack of a strategy's members in ``rack`` on the demo's own cluster."""
    return f"{strategy}:{rack}"


def client_racks(strategies: Iterable[str], racks: Sequence[str]) -> tuple[str, ...]:
    """Return all client racks, each of which gets a listener on the demo's own cluster."""
    return tuple(client_rack(strategy, rack) for strategy in strategies for rack in racks)


class TrafficMeter(Protocol):
    """Measures bytes since its construction."""

    def read(self, snapshots: Mapping[str, AssignmentSnapshot]) -> Mapping[str, TrafficMatrix]:
        """Return the bytes so far by strategy key, given the groups' present assignments."""

    def reset_broker(self, broker_id: int) -> None:
        """Expect the counters of a broker that was killed to start at zero again."""

    def close(self) -> None:
        """Close connections."""


class BrokerMeter:
    """Bytes as counted by the brokers of the demo's own cluster.

    Each strategy's members in each rack have a listener of their own on every broker, so the
    brokers' counters per listener distinguish them.
    """

    def __init__(self, cluster: Cluster, racks: Mapping[int, str]) -> None:
        self._cluster = cluster
        self._racks = racks
        self._total: dict[str, Counter[tuple[str, str]]] = {}
        self._last = cluster.bytes_out()

    def read(self, snapshots: Mapping[str, AssignmentSnapshot]) -> Mapping[str, TrafficMatrix]:
        for counter, size in self._cluster.bytes_out().items():
            label, broker = counter
            strategy, reader_rack = label.split(":", 1)
            matrix = self._total.setdefault(strategy, Counter())
            matrix[reader_rack, self._racks[broker]] += size - self._last.get(counter, 0)
            self._last[counter] = size
        return {strategy: dict(self._total.get(strategy, {})) for strategy in snapshots}

    def reset_broker(self, broker_id: int) -> None:
        for counter in [counter for counter in self._last if counter[1] == broker_id]:
            del self._last[counter]

    def close(self) -> None:
        pass


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

    def read(self, snapshots: Mapping[str, AssignmentSnapshot]) -> Mapping[str, TrafficMatrix]:
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
