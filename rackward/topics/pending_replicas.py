"""Replicas that partitions still lack: records in a compacted topic, and how they are used.

A topic may be created with fewer replicas than its replication factor while brokers are down
(KIP-409). A record of ``_rackward_pending_replicas`` then lists its partitions that have to get
more replicas. Records outlive the command that wrote them; the controller adds the replicas and
deletes the record (:mod:`rackward.controller.reconcile`). The topic has one partition, so that one
member of the controllers' consumer group reads all of it.

Whoever may write the topic asks the controller to use its rights, so a record is limited: no
internal topics, at most MAX_REPLICATION_FACTOR replicas, MAX_PARTITIONS in all records together;
and what it asks for is checked against the cluster (`rackward.controller.reconcile.is_safe`).

One more record, `ElectionTimes`, tells the next controller which leaders have moved in the last
hour.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any, Literal

import kafka
import msgspec
from kafka.errors import KafkaError
from msgspec import Meta

from placement_core import PlacementSpec, RackwardError, TopicPartition
from placement_core.cluster import with_placeholders, without_placeholders
from placement_core.placers import MultiLevelPlacer, UnderReplicatedPlacer, place
from placement_core.placers.under_replicated import ReplicationTarget, counted_replicas
from rackward.kafka import AdminConnection, AdminError, AdminTimeoutError, ClusterState, read_state
from rackward.kafka.client import ReliableProducer, client_settings, responding_settings
from rackward.kafka.configs import read_topic_configs
from rackward.kafka.errors import wrap
from rackward.kafka.topics import NewPartitions, create_partitions, wait_for_layout
from rackward.units import Deadline

PENDING_REPLICAS_TOPIC = "_rackward_pending_replicas"
CONTROLLER_GROUP = "rackward-controller"
"""The consumer group of the controllers."""

MAX_PARTITIONS = 1_000_000
"""The highest partition number, and the most partitions in all records together."""
MAX_REPLICATION_FACTOR = 16
MAX_OFFLINE_REPLICAS = 1000
ELECTIONS_KEY = "elections"
"""The key of the record of elections. Those of pending replicas have a slash."""
INTERNAL_PREFIX = "__"
"""Brokers' own topics begin with it, such as ``__consumer_offsets``."""

_TOPIC_REPLICATION_FACTOR = 3
_CLEANUP_POLICY = "cleanup.policy"

log = logging.getLogger("rackward.topics.pending_replicas")


_Partition = Annotated[int, Meta(ge=0, le=MAX_PARTITIONS)]
_Broker = Annotated[int, Meta(ge=0, lt=2**31)]
_Brokers = Annotated[tuple[_Broker, ...], Meta(max_length=MAX_OFFLINE_REPLICAS)]


class InvalidRecordError(RackwardError, ValueError):
    """A record of the topic is not one of pending replicas."""


@dataclass(frozen=True, slots=True)
class PendingReplicas:
    """Partitions of one topic that have fewer than ``replication_factor`` replicas.

    It is written to the topic as JSON, under its `key`.

    id
        Distinguishes the records of one topic.
    topic_id
        None until the topic is known to exist.
    partitions
        The numbers of the partitions that still lack replicas, ascending.
    layout
        The digest of the replicas that these partitions were to be created with (see
        `layout_digest`): it identifies the topic while ``topic_id`` is None.
    offline_replicas
        See :class:`placement_core.placers.under_replicated.ReplicationTarget`.
    assigned
        Partition number to the replica list that a controller has chosen and perhaps requested
        already. The next controller requests the same.
    """

    id: str
    topic: str
    topic_id: str | None
    replication_factor: Annotated[int, Meta(ge=1, le=MAX_REPLICATION_FACTOR)]
    partitions: tuple[_Partition, ...]
    layout: str
    offline_replicas: Annotated[frozenset[_Broker], Meta(max_length=MAX_OFFLINE_REPLICAS)] = (
        frozenset()
    )
    assigned: Mapping[_Partition, _Brokers] = field(default_factory=dict)
    version: Literal[1] = 1

    @property
    def key(self) -> str:
        """The key of the record."""
        return f"{self.topic}/{self.id}"

    @property
    def target(self) -> ReplicationTarget:
        """The replicas that each of the partitions has to get."""
        return ReplicationTarget(self.replication_factor, self.offline_replicas)

    def record(self) -> bytes:
        """Return the value of the record."""
        return msgspec.json.encode(self)


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    """When the controllers moved leaders of which partitions.

    Written to the topic as JSON, under ELECTIONS_KEY.

    elected
        Each time, in seconds since 1970, with the numbers of the partitions by topic.
    """

    elected: tuple[tuple[float, Mapping[str, tuple[_Partition, ...]]], ...] = ()
    version: Literal[1] = 1

    @property
    def key(self) -> str:
        """The key of the record."""
        return ELECTIONS_KEY

    def record(self) -> bytes:
        """Return the value of the record."""
        return msgspec.json.encode(self)


def parse_elections(value: bytes) -> ElectionTimes:
    """Return the elections in a record. Raises InvalidRecordError."""
    try:
        return msgspec.json.decode(value, type=ElectionTimes)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidRecordError(
            f"record {ELECTIONS_KEY} of {PENDING_REPLICAS_TOPIC} is not valid "
            f"({type(error).__name__}): elections are counted from 0"
        ) from error


def parse_record(
    key: bytes | None, value: bytes, max_partitions: int = MAX_PARTITIONS
) -> PendingReplicas:
    """Return the pending replicas in a record. Raises InvalidRecordError for any other record.

    A record of more than ``max_partitions`` is not valid.
    """
    name = f"record {key!r} of {PENDING_REPLICAS_TOPIC}"
    try:
        record = msgspec.json.decode(value, type=PendingReplicas)
        if record.key.encode() != key or not record.topic or not record.id:
            raise ValueError("the key is of another record")
        if any(a >= b for a, b in pairwise(record.partitions)):
            raise ValueError("the partitions do not ascend")
        if any(len(set(row)) < len(row) for row in record.assigned.values()):
            raise ValueError("a broker is listed twice")
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidRecordError(
            f"{name}, {len(value)} bytes, is not valid ({type(error).__name__}): it is ignored; "
            "was it written by another program, or by another version?"
        ) from error
    if record.topic.startswith(INTERNAL_PREFIX):
        raise InvalidRecordError(
            f"{name} is of an internal topic, which the controller does not change: it is ignored; "
            "who wrote it?"
        )
    if len(record.partitions) > max_partitions:
        raise InvalidRecordError(
            f"{name} is ignored: with it, the records have more than {MAX_PARTITIONS:,} "
            "partitions; who wrote it?"
        )
    return record


def layout_digest(rows: Mapping[int, Sequence[int]]) -> str:
    """Return a short text that identifies a layout: partition number to replica list."""
    text = ";".join(f"{number}={','.join(map(str, rows[number]))}" for number in sorted(rows))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def replication_targets(
    records: Iterable[PendingReplicas],
) -> dict[TopicPartition, ReplicationTarget]:
    """Return the target of every partition in the records; of several, the union."""
    targets: dict[TopicPartition, ReplicationTarget] = {}
    for record in sorted(records, key=lambda record: record.key):
        for number in record.partitions:
            tp = TopicPartition(record.topic, number)
            target, other = record.target, targets.get(tp)
            if other is not None:
                target = ReplicationTarget(
                    max(target.replication_factor, other.replication_factor),
                    target.offline_replicas | other.offline_replicas,
                )
            targets[tp] = target
    return targets


def layout_with_placeholders(
    replicas: Mapping[TopicPartition, tuple[int, ...]],
    targets: Mapping[TopicPartition, ReplicationTarget],
    live: Iterable[int],
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas with a placeholder for each one that is still missing."""
    up = frozenset(live)
    return {
        tp: with_placeholders(
            counted_replicas(row, targets[tp], up), targets[tp].replication_factor
        )
        if tp in targets
        else row
        for tp, row in replicas.items()
    }


def ensure_topic(admin: AdminConnection, state: ClusterState) -> PendingReplicas | None:
    """Create the topic of pending replicas unless ``state`` has it.

    ``state`` has all topics, or this one. The topic gets three replicas, or as many as there are
    live brokers: then its own pending replicas are returned, the bootstrap record, to be written to
    it. Another process may create the topic at the same time.

    Raises AdminError if it cannot be created, or is not compacted, so that records would be lost.
    """
    if PENDING_REPLICAS_TOPIC in state.topic_ids:
        _check_compacted(admin)
        return None
    # This topic is needed with or without racks, and with racks on some brokers only.
    view = replace(state.view, replicas={})
    ignore_racks = any(broker.rack is None for broker in view.brokers)
    spec = PlacementSpec(
        1, _TOPIC_REPLICATION_FACTOR, topic=PENDING_REPLICAS_TOPIC, ignore_racks=ignore_racks
    )
    (row,) = place(spec, view, UnderReplicatedPlacer(MultiLevelPlacer(seed=0)))
    new = NewPartitions(
        PENDING_REPLICAS_TOPIC,
        replicas=(without_placeholders(row),),
        configs={
            _CLEANUP_POLICY: "compact",
            # The topic has to be writable whenever an under-replicated topic may be created.
            "min.insync.replicas": "1",
            # Only closed segments are compacted, so small ones drop deleted records soon.
            "segment.bytes": str(16 << 20),
        },
    )
    if refused := create_partitions(admin, [new]):
        raise next(iter(refused.values()))
    # Differences are ignored: the layout of another process is as good.
    wait_for_layout(admin, [new])
    created = read_state(admin, [PENDING_REPLICAS_TOPIC], reassignments=False)
    if PENDING_REPLICAS_TOPIC not in created.topic_ids:
        raise AdminError(
            f"topic {PENDING_REPLICAS_TOPIC} was created, but brokers do not return it: try again"
        )
    _check_compacted(admin)
    row = created.view.replicas[TopicPartition(PENDING_REPLICAS_TOPIC, 0)]
    log.info("created topic=%s brokers=%s", PENDING_REPLICAS_TOPIC, list(row))
    if len(row) >= _TOPIC_REPLICATION_FACTOR:
        return None
    return PendingReplicas(
        id="bootstrap",
        topic=PENDING_REPLICAS_TOPIC,
        topic_id=created.topic_ids[PENDING_REPLICAS_TOPIC],
        replication_factor=_TOPIC_REPLICATION_FACTOR,
        partitions=(0,),
        layout=layout_digest({0: row}),
    )


def _check_compacted(admin: AdminConnection) -> None:
    configs = read_topic_configs(admin, [PENDING_REPLICAS_TOPIC], [_CLEANUP_POLICY])
    value = configs.get(PENDING_REPLICAS_TOPIC, {}).get(_CLEANUP_POLICY, "compact")
    if {policy.strip() for policy in value.split(",")} != {"compact"}:
        raise AdminError(
            f"topic {PENDING_REPLICAS_TOPIC} has {_CLEANUP_POLICY}={value}, which would delete "
            "records: set it to compact"
        )


class PendingReplicasReader:
    """The records of the topic, by key: each record replaces the one before with its key.

    ``elections`` is the record of these. ``invalid`` are the records that could not be parsed, key
    to reason; they count as absent.
    """

    def __init__(self) -> None:
        self.records: dict[str, PendingReplicas] = {}
        self.elections: ElectionTimes | None = None
        self.invalid: dict[bytes, str] = {}
        self._sizes: dict[str, int] = {}
        self._partitions = 0

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply the next record; a value of None deletes."""
        name = (key or b"").decode(errors="replace")
        self.invalid.pop(key or b"", None)
        self.records.pop(name, None)
        self._partitions -= self._sizes.pop(name, 0)
        if name == ELECTIONS_KEY:
            self.elections = None
        if value is None:
            return
        try:
            if name == ELECTIONS_KEY:
                self.elections = parse_elections(value)
                return
            record = parse_record(key, value, MAX_PARTITIONS - self._partitions)
            self.records[name] = record
            self._sizes[name] = len(record.partitions)
            self._partitions += len(record.partitions)
        except InvalidRecordError as error:
            self.invalid[key or b""] = str(error)


def read_pending_replicas(
    properties: Mapping[str, object], timeout: float
) -> PendingReplicasReader:
    """Read the topic to its end; it has to exist. Raises AdminError."""
    operation = f"reading {PENDING_REPLICAS_TOPIC}"
    reader = PendingReplicasReader()
    deadline = Deadline.after(timeout)
    consumer: Any = None
    try:
        consumer = kafka.KafkaConsumer(
            **{
                **responding_settings(client_settings(properties), deadline),
                "group_id": None,
                "auto_offset_reset": "earliest",
                "allow_auto_create_topics": False,
            }
        )
        tp = kafka.TopicPartition(PENDING_REPLICAS_TOPIC, 0)
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        end = consumer.end_offsets([tp])[tp]
        while consumer.position(tp) < end:
            if not deadline.remaining:
                raise AdminTimeoutError(f"{operation}: its end was not reached in {timeout:g} s")
            for records in consumer.poll(timeout_ms=200).values():
                for record in records:
                    reader.apply(record.key, record.value)
    except KafkaError as error:
        raise wrap(operation, error, topic_acl=f"Read on {PENDING_REPLICAS_TOPIC}") from error
    finally:
        if consumer is not None:
            consumer.close(autocommit=False)
    return reader


class PendingReplicasWriter:
    """Writes records to the topic; see ReliableProducer for the arguments and errors."""

    def __init__(self, properties: Mapping[str, object], timeout: float) -> None:
        self._producer = ReliableProducer(properties, PENDING_REPLICAS_TOPIC, timeout)

    def write(
        self, records: Iterable[PendingReplicas | ElectionTimes], deleted: Collection[str] = ()
    ) -> None:
        """Write the records, and delete those with the keys ``deleted``.

        Returns once all in-sync replicas have them. Raises AdminError; some may be written then.
        """
        values = [(record.key.encode(), record.record()) for record in records]
        tombstones = [(key.encode(), None) for key in deleted]
        self._producer.send([*values, *tombstones], partition=0)

    def close(self) -> None:
        """Close the connections."""
        self._producer.close()
