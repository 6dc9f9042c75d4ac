"""The lease of the active controller: the only partition of the topic of pending replicas.

All controllers are members of one consumer group, and Kafka assigns the partition to one of them;
it assigns it to another when that one stops sending heartbeats for the session timeout. The owner
reads all records from the beginning and then acts on them. `Lease.verify_ownership` verifies with
the group's coordinator, by a commit, that this member is still the owner: the coordinator refuses
commits of members of an older generation.

A consumer keeps its position in a partition that it gets back in a rebalance, so reading on would
miss all records before it. Whenever the lease is given, also to the member that had it, reading
begins at the beginning of the topic, and `Lease.ready` requires that it began there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from assignors.connection import kafka_python_settings
from assignors.kafka_python import enable_workarounds, install
from rackward.admin.client import CLIENT_ID
from rackward.admin.errors import wrap
from rackward.controller.pending_replicas import (
    CONTROLLER_GROUP,
    PENDING_REPLICAS_TOPIC,
    PendingReplicas,
    PendingReplicasReader,
)

SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_INTERVAL_MS = 2_000
MAX_POLL_INTERVAL_MS = 120_000
COMMIT_TIMEOUT_MS = 5_000
READ_TIMEOUT_MS = 5_000

log = logging.getLogger("rackward.controller")


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """How far the topic is read: of ``offsets`` in it, ``read`` since the lease was given.

    ``offsets`` are counted by the brokers, ``read`` by the consumer from where it began, so a
    reader that began too late cannot seem to be at the end.
    """

    read: int = 0
    offsets: int = 0


class Lease:
    """This process's membership in the group of controllers.

    ``name`` identifies it in the group's description; ``properties`` are connection settings.
    Raises AdminError if the cluster cannot be reached.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        name: str,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        from kafka import KafkaConsumer, TopicPartition
        from kafka.errors import KafkaError

        self._tp = TopicPartition(PENDING_REPLICAS_TOPIC, 0)
        self._name = name
        self._owned = False
        self._read_from: int | None = None
        self._progress: ReadProgress | None = None
        self._reported: set[bytes] = set()
        self._reader = PendingReplicasReader()
        install()
        try:
            self._consumer: Any = KafkaConsumer(
                **{
                    "client_id": f"{CLIENT_ID}-{name}",
                    **kafka_python_settings(properties),
                    "group_id": CONTROLLER_GROUP,
                    "enable_auto_commit": False,
                    "auto_offset_reset": "earliest",
                    "allow_auto_create_topics": False,
                    "session_timeout_ms": session_timeout_ms,
                    "heartbeat_interval_ms": min(HEARTBEAT_INTERVAL_MS, session_timeout_ms // 4),
                    "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
                    "metadata_max_age_ms": 10_000,
                }
            )
        except KafkaError as error:
            raise wrap(f"joining group {CONTROLLER_GROUP}", error) from error
        enable_workarounds(self._consumer)
        self._consumer.subscribe([PENDING_REPLICAS_TOPIC], listener=_listener(self))

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
        return self._reader.records

    def poll(self, seconds: float) -> None:
        """Read more records, for this long. Raises AdminError."""
        from kafka.errors import KafkaError

        was_ready = self.ready
        try:
            batches = self._consumer.poll(timeout_ms=int(seconds * 1000))
            for records in batches.values():
                for record in records:
                    self._reader.apply(record.key, record.value)
            if self._owned:
                self._read_progress()
        except KafkaError as error:
            raise wrap(f"reading {PENDING_REPLICAS_TOPIC}", error) from error
        if self.ready and not was_ready:
            log.info("active controller: records=%d", len(self._reader.records))
        for key in self._reader.invalid.keys() - self._reported:
            log.warning("%s", self._reader.invalid[key])
        self._reported = set(self._reader.invalid)

    def verify_ownership(self) -> bool:
        """Return whether the coordinator still accepts this member as owner. Raises AdminError."""
        from kafka.errors import CommitFailedError, KafkaError
        from kafka.structs import OffsetAndMetadata

        if not self.ready:
            return False
        try:
            # Always offset 0, since the next owner has to read all records.
            self._consumer.commit(
                {self._tp: OffsetAndMetadata(0, f"owned by {self._name}", -1)},
                timeout_ms=COMMIT_TIMEOUT_MS,
            )
        except CommitFailedError:
            self.on_assigned([], lost=True)
            return False
        except KafkaError as error:
            raise wrap(f"verifying the membership in group {CONTROLLER_GROUP}", error) from error
        return self.ready

    def update(self, records: Iterable[PendingReplicas], deleted: Iterable[str]) -> None:
        """Apply what this controller has just written, before it is read back."""
        self._reader.records.update((record.key, record) for record in records)
        for key in deleted:
            self._reader.records.pop(key, None)

    def reset(self) -> None:
        """Drop all records; the owner reads them again from the beginning."""
        self._reader, self._read_from, self._progress = PendingReplicasReader(), None, None
        if self._owned:
            # Until reading begins at the beginning: the position may be anywhere.
            self._consumer.pause(self._tp)

    def on_assigned(self, partitions: Collection[Any], *, lost: bool = False) -> None:
        """Apply an assignment, or the loss of one."""
        owned = not lost and self._tp in partitions
        if self._owned and not owned:
            log.warning("standing by: another controller may be active now")
        if owned != self._owned:
            self._owned = owned
            self.reset()

    def _read_progress(self) -> None:
        from kafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError

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
        self._owned = False
        self._consumer.close(autocommit=False)


def _listener(lease: Lease) -> Any:
    from kafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
            if revoked:
                lease.on_assigned([], lost=True)

        def on_partitions_lost(self, lost: Collection[Any]) -> None:
            if lost:
                lease.on_assigned([], lost=True)

        def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
            lease.on_assigned(assigned)

    return Listener()
