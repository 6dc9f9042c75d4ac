"""Reading a cluster's metadata: brokers, topics, reassignments in progress, log offsets and sizes.

One request reads all topics, or a thousand topics by name, so that hundreds of thousands of
partitions take a handful of requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer.offsets import IsolationLevel, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from placement_core import Broker, ClusterView, TopicPartition
from rackward.kafka.client import AdminConnection
from rackward.kafka.errors import (
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC,
    RefusedError,
    TooOldError,
    from_code,
)

MAX_PER_REQUEST = 1000
"""Topics, or partitions, in one request."""

NO_LEADER = -1
_NO_TOPIC_ID = "00000000-0000-0000-0000-000000000000"

Value = TypeVar("Value")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment in progress: all present ``replicas``, those to be added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once it is complete, in order."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """The replicas before it, in Kafka's present order."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster at one moment. What was not read is empty.

    cluster_id
        None if the brokers do not return one.
    view
        Live brokers, and the replicas and leaders of the topics that were read.
    in_sync
        Partition to its in-sync replicas, in the brokers' order.
    fenced
        Registered brokers that are not live.
    addresses
        Broker id to ``host:port``, of live and fenced brokers.
    topic_ids
        Topic to its id, which is new when a topic is deleted and created again; None from brokers
        before Kafka 2.8.
    leader_epochs
        Partition to the epoch of its leader; only where brokers return one.
    internal
        Kafka's internal topics.
    reassignments
        Reassignments in progress.
    """

    cluster_id: str | None
    view: ClusterView
    in_sync: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    fenced: tuple[Broker, ...] = ()
    addresses: Mapping[int, str] = field(default_factory=dict)
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    internal: frozenset[str] = frozenset()
    reassignments: Mapping[TopicPartition, Reassignment] = field(default_factory=dict)

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics, sorted."""
        return tuple(sorted(self.topic_ids))

    def without_adding_replicas(self, view: ClusterView) -> ClusterView:
        """Return ``view`` without the replicas that reassignments in progress are adding."""
        present = {tp: each.original for tp, each in self.reassignments.items()}
        return replace(view, replicas={**view.replicas, **present})

    @property
    def by_leader(self) -> dict[int, list[TopicPartition]]:
        """Broker to the partitions that it leads, both sorted."""
        led: dict[int, list[TopicPartition]] = {}
        for tp, leader in sorted(self.view.known_leaders.items()):
            led.setdefault(leader, []).append(tp)
        return dict(sorted(led.items()))

    def with_reassignments(
        self, reassignments: Mapping[TopicPartition, Reassignment]
    ) -> ClusterState:
        """Return the state with those of the reassignments that concern its topics."""
        known = self.view.replicas
        return replace(
            self, reassignments={tp: each for tp, each in reassignments.items() if tp in known}
        )

    def only(self, topics: Collection[str]) -> ClusterState:
        """Return the state restricted to these topics."""
        chosen = frozenset(topics)

        def of(values: Mapping[TopicPartition, Value]) -> dict[TopicPartition, Value]:
            return {tp: each for tp, each in values.items() if tp.topic in chosen}

        return replace(
            self,
            view=replace(
                self.view, replicas=of(self.view.replicas), leaders=of(self.view.known_leaders)
            ),
            in_sync=of(self.in_sync),
            topic_ids={name: each for name, each in self.topic_ids.items() if name in chosen},
            leader_epochs=of(self.leader_epochs),
            internal=self.internal & chosen,
            reassignments=of(self.reassignments),
        )


def read_state(
    admin: AdminConnection,
    topics: Collection[str] | None = None,
    *,
    internal: bool = True,
    reassignments: bool = True,
) -> ClusterState:
    """Read live and fenced brokers, and ``topics`` (None: all that this user may describe).

    Named topics that do not exist are left out: see `check_topics`. ``internal`` False leaves out
    Kafka's internal topics; ``reassignments`` False does not list reassignments in progress, which
    needs Describe on the cluster. All requests have one deadline. Raises AdminError.
    """
    with admin.within():
        state = _with_fenced_brokers(admin, read_topics(admin, topics, internal=internal))
        return state.with_reassignments(read_reassignments(admin)) if reassignments else state


def read_topics(
    admin: AdminConnection, topics: Collection[str] | None = None, *, internal: bool = True
) -> ClusterState:
    """Read live brokers and topics only, as `read_state` does; no fenced brokers."""
    operation = "reading the topics"
    if topics is None:
        response = admin.send(operation, _metadata_request(None))
        return parse_metadata(response, internal=internal)
    found: list[Any] = []
    with admin.within():
        for names in batches(sorted(set(topics))) if topics else [()]:
            response = admin.send(operation, _metadata_request(names))
            for name, code in topic_errors(response).items():
                if code != UNKNOWN_TOPIC:
                    acl = f"Describe on {name}"
                    raise from_code(f"{operation}: {name}", "Metadata", code, acl=acl)
            found += response.topics
    response.topics = found
    return parse_metadata(response, internal=internal)


def check_topics(state: ClusterState, names: Iterable[str]) -> None:
    """Raise RefusedError, which names them, if some of the topics are not in the state."""
    if missing := sorted(set(names) - set(state.topic_ids)):
        listed = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise RefusedError(
            f"unknown topic{'s' if len(missing) > 1 else ''} {listed}: check the name, and that "
            "this user may describe it",
            UNKNOWN_TOPIC,
        )


def read_reassignments(admin: AdminConnection) -> dict[TopicPartition, Reassignment]:
    """Read all reassignments in progress. Raises AdminError."""
    operation = "listing the reassignments in progress"
    timeout_ms = admin.deadline().remaining_ms
    request = ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=None)
    response = admin.send_to_controller(operation, request)
    if response.error_code:
        raise from_code(operation, request.name, response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): Reassignment(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in response.topics
        for each in topic.partitions
    }


def parse_metadata(response: Any, *, internal: bool = True) -> ClusterState:
    """Return the state in a MetadataResponse of kafka-python, version 4 or later.

    Topics with an error code (unknown, not authorized, being deleted) are left out, and internal
    topics unless ``internal``.
    """
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    leaders: dict[TopicPartition, int] = {}
    leader_epochs: dict[TopicPartition, int] = {}
    in_sync: dict[TopicPartition, tuple[int, ...]] = {}
    topic_ids: dict[str, str | None] = {}
    internal_topics: set[str] = set()
    for topic in sorted(response.topics, key=lambda topic: str(topic.name)):
        if topic.error_code or (topic.is_internal and not internal):
            continue
        topic_ids[topic.name] = _topic_id(topic)
        if topic.is_internal:
            internal_topics.add(topic.name)
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index):
            tp = TopicPartition(topic.name, partition.partition_index)
            replicas[tp] = tuple(partition.replica_nodes)
            in_sync[tp] = tuple(partition.isr_nodes)
            if partition.leader_id > NO_LEADER:
                leaders[tp] = partition.leader_id
            if (epoch := getattr(partition, "leader_epoch", -1)) >= 0:
                leader_epochs[tp] = epoch
    live = sorted(response.brokers, key=lambda broker: broker.node_id)
    return ClusterState(
        cluster_id=getattr(response, "cluster_id", None),
        view=ClusterView(
            brokers=tuple(Broker(each.node_id, each.rack or None) for each in live),
            replicas=replicas,
            leaders=leaders,
        ),
        in_sync=in_sync,
        addresses={each.node_id: f"{each.host}:{each.port}" for each in live},
        topic_ids=topic_ids,
        leader_epochs=leader_epochs,
        internal=frozenset(internal_topics),
    )


def topic_errors(response: Any) -> dict[str, int]:
    """Return topic to error code, for the topics of a MetadataResponse that have one."""
    return {topic.name: topic.error_code for topic in response.topics if topic.error_code}


def batches(items: Sequence[Item], size: int = MAX_PER_REQUEST) -> Iterator[Sequence[Item]]:
    """Yield the items, at most ``size`` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _metadata_request(names: Sequence[str] | None) -> Any:
    topic = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=None if names is None else [topic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )


def _topic_id(topic: Any) -> str | None:
    topic_id = getattr(topic, "topic_id", None)
    return None if topic_id is None or str(topic_id) == _NO_TOPIC_ID else str(topic_id)


def _with_fenced_brokers(admin: AdminConnection, state: ClusterState) -> ClusterState:
    """Add the brokers that are registered and down, which Kafka returns from 4.0 on."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    try:
        response = admin.send("reading the brokers", request)
    except TooOldError:
        return state
    if response.error_code:
        return state
    live = state.view.racks()
    fenced = sorted(
        (each for each in response.brokers if each.broker_id not in live),
        key=lambda broker: broker.broker_id,
    )
    return replace(
        state,
        cluster_id=state.cluster_id or response.cluster_id,
        fenced=tuple(Broker(each.broker_id, each.rack or None) for each in fenced),
        addresses={**state.addresses, **{b.broker_id: f"{b.host}:{b.port}" for b in fenced}},
    )


# ---- Offsets and sizes of partitions' logs.

LATEST, EARLIEST = -1, -2
"""Timestamps of ListOffsets that stand for a log's end and its beginning."""


ReplicaSizes = dict[tuple[TopicPartition, int], int]
"""(Partition, broker id) to the bytes of that replica's log."""


def read_log_offsets(
    admin: AdminConnection,
    leader: int,
    partitions: Collection[TopicPartition],
    timestamp: int,
) -> dict[TopicPartition, int]:
    """Return the first offset of each log (EARLIEST) or the next record's (LATEST).

    One request to ``leader``. Partitions that it does not lead any more, or that were deleted, are
    left out. LATEST is the high watermark; open transactions do not lower it. Raises AdminError.
    """
    topic = ListOffsetsRequest.ListOffsetsTopic
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.ListOffsetsPartition(partition_index=number, timestamp=timestamp)
                    for number in numbers
                ],
            )
            for name, numbers in by_topic(partitions).items()
        ],
        min_version=1,
        max_version=9,
    )
    operation = f"reading the offsets of broker {leader}'s logs"
    response = admin.send(operation, request, node=leader)
    return {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code and each.offset >= 0
    }


def read_replica_sizes(
    admin: AdminConnection,
    brokers: Collection[int],
    partitions: Collection[TopicPartition] | None = None,
) -> ReplicaSizes:
    """Return the sizes of replicas on ``brokers``, of ``partitions`` or (None) of all.

    Replicas on failed disks, and copies from one disk to another within a broker, are left out.
    Needs Describe on the cluster. Raises AdminError if one of the brokers does not respond.
    """
    topics = None
    if partitions is not None:
        topics = [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=numbers)
            for name, numbers in by_topic(partitions).items()
        ]
    operation = "reading the sizes of replicas"
    # One request object per broker: during an upgrade their versions may differ.
    requests = {broker: DescribeLogDirsRequest(topics=topics) for broker in brokers}
    responses = admin.send_to_each(operation, requests)
    sizes: ReplicaSizes = {}
    for broker, response in responses.items():
        if code := getattr(response, "error_code", 0):
            raise from_code(f"{operation} of broker {broker}", "DescribeLogDirs", code)
        for log_dir in response.results:
            if log_dir.error_code:
                continue
            for topic in log_dir.topics:
                for each in topic.partitions:
                    if not each.is_future_key:
                        tp = TopicPartition(topic.name, each.partition_index)
                        sizes[tp, broker] = each.partition_size
    return sizes


def read_partition_sizes(
    admin: AdminConnection, view: ClusterView, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the bytes of each partition on its leader, as far as known. Raises AdminError."""
    leaders = {tp: leader for tp in partitions if (leader := view.leader(tp)) is not None}
    sizes = read_replica_sizes(admin, sorted(set(leaders.values())), list(leaders))
    return {tp: sizes[tp, leader] for tp, leader in leaders.items() if (tp, leader) in sizes}


METADATA_TOPIC = "__cluster_metadata"
"""The log of the controllers, which is no topic for clients."""


def read_hidden_topics(admin: AdminConnection, state: ClusterState) -> list[str]:
    """Return the topics that live brokers have replicas of and that are not in ``state``, sorted.

    ``state`` has all topics that this user may describe; brokers leave out the others without an
    error. Needs Describe on the cluster. Raises AdminError.
    """
    with admin.within():
        sizes = read_replica_sizes(admin, list(state.view.racks()))
        names = {tp.topic for tp, _ in sizes} - state.topic_ids.keys() - {METADATA_TOPIC}
        return unauthorized_topics(admin, names)


def unauthorized_topics(admin: AdminConnection, names: Iterable[str]) -> list[str]:
    """Return those of the topics that this user may not describe, sorted. Raises AdminError.

    Others of them may have been created or deleted a moment ago.
    """
    hidden: list[str] = []
    for batch in batches(sorted(names)):
        response = admin.send("reading the topics", _metadata_request(batch))
        errors = topic_errors(response)
        hidden += [name for name in batch if errors.get(name) == TOPIC_AUTHORIZATION_FAILED]
    return hidden


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return topic to partition numbers, both sorted."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return grouped
