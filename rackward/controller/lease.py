"""The lease of the active controller, and the changes of the cluster that need it.

The lease is the only partition of the topic of pending replicas.

All controllers are members of one consumer group, and Kafka assigns the partition to one of them;
it assigns it to another when that one stops sending heartbeats for the session timeout. The owner
reads all records from the beginning and then acts on them. `Lease.verify_ownership` verifies with
the group's coordinator, by a commit, that this member is still the owner: the coordinator refuses
commits of members of an older generation.

Two threads use a lease. One works: it calls `Lease.poll`, plans, and makes each change of the
cluster within `Lease.fenced`. The other calls `Lease.heartbeat`, so that the member stays in the
group while the first is in the middle of long work. What the first has planned is out of date once
the lease was lost, also if this member has it again: nothing is changed until its next `poll`.

Nobody else can own the partition until the session timeout after the commit, since the coordinator
counts commits as heartbeats, and this member does not rejoin the group within `fenced`. A change
has half of this time to be sent, measured from before the commit; the rest is for its way to the
brokers. A process that was suspended in between sends nothing: the clock also runs while the
machine sleeps.

A consumer keeps its position in a partition that it gets back in a rebalance, so reading on would
miss all records before it. Whenever the lease is given, also to the member that had it, reading
begins at the beginning of the topic, and `Lease.ready` requires that it began there.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import kafka
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import (
    CommitFailedError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata

from assignors.kafka_python import enable_workarounds, install
from placement_core import RackwardError, TopicPartition
from placement_core.cluster import Move
from rackward.kafka import (
    AdminConnection,
    AdminError,
    AdminTimeoutError,
    ClusterState,
    connect,
    read_reassignments,
    read_state,
)
from rackward.kafka.client import CLIENT_ID, Guard, client_settings
from rackward.kafka.errors import wrap
from rackward.kafka.topics import reassign
from rackward.reassignment.throttle import ReplicationThrottle
from rackward.topics.pending_replicas import (
    CONTROLLER_GROUP,
    PENDING_REPLICAS_TOPIC,
    ElectionTimes,
    PendingReplicas,
    PendingReplicasReader,
    PendingReplicasWriter,
    ensure_topic,
)
from rackward.units import Deadline

SESSION_TIMEOUT_MS = 10_000
MAX_POLL_INTERVAL_MS = 120_000
COMMIT_TIMEOUT_MS = 5_000
READ_TIMEOUT_MS = 5_000
HEARTBEAT_SECONDS = 2.0
"""Maximum time between two polls while the controller works."""
_HEARTBEAT_POLL_SECONDS = 0.2
_ACLS = {
    "topic_acl": f"Read on {PENDING_REPLICAS_TOPIC}",
    "group_acl": f"Read on group {CONTROLLER_GROUP}",
}

if hasattr(time, "CLOCK_BOOTTIME"):
    seconds_since_boot: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
else:
    seconds_since_boot = time.monotonic

WRITING_RECORDS = "writing records"

Result = TypeVar("Result")

log = logging.getLogger("rackward.controller")


class LeaseLostError(RackwardError):
    """The lease was lost, so the cluster was not changed."""


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """How far the topic is read: of ``offsets`` in it, ``read`` since the lease was given.

    ``offsets`` are counted by the brokers, ``read`` by the consumer from where it began, so a
    reader that began too late cannot seem to be at the end.
    """

    read: int = 0
    offsets: int = 0


class Lease(ConsumerRebalanceListener):  # type: ignore[misc]
    """This process's membership in the group of controllers.

    ``name`` identifies it in the group's description; ``properties`` are connection settings;
    ``clock`` counts seconds. Raises AdminError if the cluster cannot be reached.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        name: str,
        clock: Callable[[], float] = seconds_since_boot,
    ) -> None:
        self._tp = kafka.TopicPartition(PENDING_REPLICAS_TOPIC, 0)
        self._name, self._clock = name, clock
        self.max_change_seconds = SESSION_TIMEOUT_MS / 2000
        """Seconds that a change has from the time at which it is confirmed."""
        self._lock = threading.RLock()
        # Not taken by rebalance callbacks, which run while `poll` or `heartbeat` holds it.
        self._polled_at = -math.inf
        self._lost = True
        """Whether the lease was lost since `poll`."""
        self._owned = False
        self._read_from: int | None = None
        self._progress: ReadProgress | None = None
        self._reported: set[bytes] = set()
        self._reader = PendingReplicasReader()
        install()
        try:
            self._consumer: Any = kafka.KafkaConsumer(
                **{
                    **client_settings(properties, f"{CLIENT_ID}-{name}"),
                    "group_id": CONTROLLER_GROUP,
                    "enable_auto_commit": False,
                    "auto_offset_reset": "earliest",
                    "allow_auto_create_topics": False,
                    "session_timeout_ms": SESSION_TIMEOUT_MS,
                    "heartbeat_interval_ms": SESSION_TIMEOUT_MS // 5,
                    "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
                    "metadata_max_age_ms": 10_000,
                }
            )
        except KafkaError as error:
            raise wrap(f"joining group {CONTROLLER_GROUP}", error, **_ACLS) from error
        enable_workarounds(self._consumer)
        self._consumer.subscribe([PENDING_REPLICAS_TOPIC], listener=self)

    @property
    def owned(self) -> bool:
        """Whether this member owns the partition."""
        return self._owned

    @property
    def ready(self) -> bool:
        """Whether this member owns the partition and has read all records."""
        progress = self._progress
        return self._owned and progress is not None and progress.read >= progress.offsets

    @property
    def progress(self) -> ReadProgress | None:
        """How far the owner has read; None if this member is not the owner, or does not know."""
        return self._progress if self._owned else None

    @property
    def records(self) -> Mapping[str, PendingReplicas]:
        """The records that were read since the lease was given, by key."""
        with self._lock:
            return dict(self._reader.records)

    @property
    def elections(self) -> ElectionTimes | None:
        """The elections that were read since the lease was given; None if there is no record."""
        return self._reader.elections

    def poll(self, seconds: float) -> None:
        """Read more records, for this long. Raises AdminError.

        Changes are then confirmed as long as this member keeps the lease.
        """
        with self._lock:
            self._poll(seconds)
            self._lost = False

    def heartbeat(self) -> bool:
        """Keep the membership while the thread that calls `poll` does something else.

        Return whether the coordinator has just confirmed the lease. Raises AdminError.
        """
        with self._lock:
            if self._clock() - self._polled_at < HEARTBEAT_SECONDS:
                return False
            self._poll(_HEARTBEAT_POLL_SECONDS)
            return self.verify_ownership()

    def _poll(self, seconds: float) -> None:
        was_ready = self.ready
        try:
            batches = self._consumer.poll(timeout_ms=int(seconds * 1000))
            for records in batches.values():
                for record in records:
                    self._reader.apply(record.key, record.value)
            if self._owned:
                self._read_progress()
        except KafkaError as error:
            raise wrap(f"reading {PENDING_REPLICAS_TOPIC}", error, **_ACLS) from error
        finally:
            self._polled_at = self._clock()
        if self.ready and not was_ready:
            log.info("active controller: records=%d", len(self._reader.records))
        for key in self._reader.invalid.keys() - self._reported:
            log.warning("%s", self._reader.invalid[key])
        self._reported = set(self._reader.invalid)

    @contextmanager
    def fenced(self, operation: str) -> Iterator[Deadline]:
        """Hold the lease for one change of the cluster; yield the time until which to send it.

        Raises LeaseLostError if this member does not have the lease, or has lost it since `poll`,
        and AdminError.
        """
        with self._lock:
            deadline = Deadline.after(self.max_change_seconds, self._clock)
            if self._lost or not self.verify_ownership():
                raise LeaseLostError(f"{operation}: the lease was lost, so nothing is changed")
            yield deadline

    def verify_ownership(self) -> bool:
        """Return whether the coordinator still accepts this member as owner. Raises AdminError."""
        with self._lock:
            if not self.ready:
                return False
            try:
                # Always offset 0, since the next owner has to read all records.
                self._consumer.commit(
                    {self._tp: OffsetAndMetadata(0, f"owned by {self._name}", -1)},
                    timeout_ms=COMMIT_TIMEOUT_MS,
                )
            except CommitFailedError:
                self._set_owned(owned=False)
                return False
            except KafkaError as error:
                operation = f"verifying the membership in group {CONTROLLER_GROUP}"
                raise wrap(operation, error, **_ACLS) from error
            return self.ready

    def update(
        self, records: Iterable[PendingReplicas | ElectionTimes], deleted: Iterable[str]
    ) -> None:
        """Apply what this controller has just written, before it is read back."""
        with self._lock:
            for record in records:
                if isinstance(record, ElectionTimes):
                    self._reader.elections = record
                else:
                    self._reader.records[record.key] = record
            for key in deleted:
                self._reader.records.pop(key, None)

    def reset(self) -> None:
        """Drop all records; the owner reads them again from the beginning."""
        with self._lock:
            self._reset()

    def _reset(self) -> None:
        self._lost = True
        self._reader, self._read_from, self._progress = PendingReplicasReader(), None, None
        if self._owned:
            # Until reading begins at the beginning: the position may be anywhere.
            self._consumer.pause(self._tp)

    def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        """Begin to own the partition if it is assigned; called by the consumer."""
        self._set_owned(owned=self._tp in assigned)

    def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        """Cease to own the partition; called by the consumer."""
        if revoked:
            self._set_owned(owned=False)

    on_partitions_lost = on_partitions_revoked

    def _set_owned(self, *, owned: bool) -> None:
        if self._owned and not owned:
            log.warning("standing by: another controller may be active now")
        if owned != self._owned:
            self._owned = owned
            self._reset()

    def _read_progress(self) -> None:
        try:
            begin = self._offset(self._consumer.beginning_offsets)
            if self._read_from is None or self._read_from > begin:
                self._reader, self._progress = PendingReplicasReader(), None
                self._consumer.seek_to_beginning(self._tp)
                self._read_from = self._consumer.position(self._tp, timeout_ms=READ_TIMEOUT_MS)
                self._consumer.resume(self._tp)
            position = self._consumer.position(self._tp, timeout_ms=READ_TIMEOUT_MS)
            end = self._offset(self._consumer.end_offsets)
        except (KafkaTimeoutError, UnknownTopicOrPartitionError) as error:
            # Not an error of this pass: the reconciler creates a topic that was deleted.
            log.debug("the offsets of %s are not known: %s", PENDING_REPLICAS_TOPIC, error)
            return
        if self._read_from is not None and position is not None:
            self._progress = ReadProgress(position - self._read_from, end - begin)

    def _offset(self, read: Callable[..., Mapping[Any, int]]) -> int:
        return read([self._tp], timeout_ms=READ_TIMEOUT_MS)[self._tp]

    def close(self) -> None:
        """Leave the group, so that the next owner need not wait for the session timeout."""
        with self._lock:
            self._owned = False
            self._consumer.close(autocommit=False)


# ---- Changes of the cluster.


class ReconnectingAdmin:
    """An AdminConnection that is opened when it is needed and closed after an error.

    A client keeps using brokers that are gone, and is late to notice new ones; a new client is not.
    ``guard`` permits its changes. Not thread-safe.
    """

    def __init__(self, properties: Mapping[str, object], timeout: float) -> None:
        self.properties, self.timeout = properties, timeout
        self.guard: Guard | None = None
        self._admin: AdminConnection | None = None

    def run(self, function: Callable[[AdminConnection], Result]) -> Result:
        """Return what ``function`` returns. Raises AdminError, and what ``function`` raises."""
        if self._admin is None:
            self._admin = connect(self.properties, timeout=self.timeout)
        self._admin.guard = self.guard
        try:
            return function(self._admin)
        except AdminError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, if one is open. Idempotent."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


def restore_topic(admin: ReconnectingAdmin, records: Collection[PendingReplicas] = ()) -> None:
    """Create the topic of pending replicas unless it exists, and write ``records`` to it.

    Without the lease, which is the topic's partition. Raises AdminError.
    """
    bootstrap = admin.run(
        lambda connection: ensure_topic(
            connection, read_state(connection, [PENDING_REPLICAS_TOPIC], reassignments=False)
        )
    )
    new = [*records, *([bootstrap] if bootstrap is not None else [])]
    if new:
        with closing(PendingReplicasWriter(admin.properties, admin.timeout)) as writer:
            writer.write(new)


class ControllerCluster:
    """What the controller reads and changes of its cluster. Every method raises AdminError.

    Every change, also one through ``admin``, needs the lease and is not sent later than it permits;
    it raises LeaseLostError if another controller may have the lease.
    """

    def __init__(self, admin: ReconnectingAdmin, lease: Lease) -> None:
        self.admin, self._lease = admin, lease
        admin.guard = lease.fenced
        self._writer: PendingReplicasWriter | None = None

    def read_state(self, topics: Collection[str] | None) -> ClusterState:
        """Read these topics (None: all), reassignments in progress, and fenced brokers."""
        return self.admin.run(lambda admin: read_state(admin, topics))

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        """See :func:`rackward.kafka.topics.reassign`."""
        return self.admin.run(lambda admin: reassign(admin, targets))

    def throttle(self, rate: int, moves: Collection[Move]) -> None:
        """Throttle the copying of ``moves`` to ``rate`` bytes per second and broker, or to the
        rate that another run of rackward has set; no longer list what has been copied."""

        def change(admin: AdminConnection) -> None:
            throttle = ReplicationThrottle(admin)
            # Kafka's lists have a maximum length.
            throttle.release({move.partition.topic for move in moves}, read_reassignments(admin))
            throttle.add(rate, moves)

        self.admin.run(change)

    def remove_throttle(self) -> bool:
        """Remove the throttles of runs that have ended; return whether there were any."""
        return self.admin.run(
            lambda admin: ReplicationThrottle(admin).remove(keep=read_reassignments(admin))
        )

    @property
    def elections(self) -> ElectionTimes | None:
        """See `Lease.elections`."""
        return self._lease.elections

    def write(
        self,
        records: Collection[PendingReplicas | ElectionTimes],
        deleted: Collection[str] = (),
    ) -> None:
        """Write records, and delete those with the keys ``deleted``; the lease has them then."""
        if self._writer is None:
            # No record is sent later than the session timeout after the lease was confirmed.
            timeout = min(self.admin.timeout, self._lease.max_change_seconds)
            self._writer = PendingReplicasWriter(self.admin.properties, timeout)
        try:
            with self._lease.fenced(WRITING_RECORDS) as deadline:
                if not deadline.remaining:
                    raise AdminTimeoutError(
                        f"{WRITING_RECORDS}: not begun within {deadline.seconds:g} s"
                    )
                self._writer.write(records, deleted)
                self._lease.update(records, deleted)
        except AdminError:
            self._close_writer()
            raise

    def restore_topic(self, records: Collection[PendingReplicas]) -> None:
        """See `restore_topic`."""
        restore_topic(self.admin, records)

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self._close_writer()
        self.admin.close()

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            # Records that could not be written have been reported as errors already.
            with suppress(RackwardError):
                writer.close()
