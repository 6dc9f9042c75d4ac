"""Who keeps the intents: the one member of a consumer group that reads their topic.

Kafka gives the topic's only partition to one member of the group, and takes it from one that is
silent for the session's time. Whoever has it reads the intents from their beginning and then acts
on them. `LeaseHolder.confirm` asks the group's coordinator whether it is still so, with a commit,
which the coordinator refuses from a member of a past generation.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from assignors.connection import kafka_python_settings
from assignors.kafka_python import harden
from rackward.admin.client import CLIENT_ID, translated
from rackward.controller.pending_replicas import CONTROLLERS, INTENTS_TOPIC, Intent, IntentReader

SESSION_MS = 10_000
HEARTBEAT_MS = 2_000
LONGEST_TURN_MS = 120_000
CONFIRM_MS = 5_000

log = logging.getLogger("rackward.controller")


class Lease(Protocol):
    """The right to keep the intents, and the intents as they are now."""

    @property
    def owned(self) -> bool:
        """Whether it is ours."""

    @property
    def held(self) -> bool:
        """Whether it is ours, and all intents are read."""

    @property
    def intents(self) -> Mapping[str, Intent]:
        """By key; of one that held the lease before, as they were then."""

    def poll(self, seconds: float) -> None:
        """Read on, for so long. Raises AdminError."""

    def confirm(self) -> bool:
        """Ask whether it is still ours. Raises AdminError."""

    def written(self, intents: Iterable[Intent], forgotten: Collection[str]) -> None:
        """These were written by us, and will be read in a moment."""

    def forget(self) -> None:
        """Drop what was read; where the lease is ours, read it anew."""


class LeaseHolder:
    """A member of the group; see `Lease`. ``name`` tells it from others in the group's
    description; ``properties`` say how to connect."""

    def __init__(
        self, properties: Mapping[str, object], name: str, session_ms: int = SESSION_MS
    ) -> None:
        from kafka import KafkaConsumer, TopicPartition
        from kafka.errors import KafkaError

        self._place = TopicPartition(INTENTS_TOPIC, 0)
        self._name = name
        self._owned = False
        self._read = False
        self._faults: set[bytes] = set()
        self._reader = IntentReader()
        try:
            self._consumer: Any = KafkaConsumer(
                **{
                    "client_id": f"{CLIENT_ID}-{name}",
                    **kafka_python_settings(properties),
                    "group_id": CONTROLLERS,
                    "enable_auto_commit": False,
                    "auto_offset_reset": "earliest",
                    "allow_auto_create_topics": False,
                    "session_timeout_ms": session_ms,
                    "heartbeat_interval_ms": min(HEARTBEAT_MS, session_ms // 4),
                    "max_poll_interval_ms": LONGEST_TURN_MS,
                    "metadata_max_age_ms": 10_000,
                }
            )
        except KafkaError as error:
            raise translated("connecting to keep intents", error) from error
        harden(self._consumer)
        self._consumer.subscribe([INTENTS_TOPIC], listener=_listener(self))

    @property
    def owned(self) -> bool:
        """See Lease."""
        return self._owned

    @property
    def held(self) -> bool:
        """See Lease."""
        return self._owned and self._read

    @property
    def intents(self) -> Mapping[str, Intent]:
        """See Lease."""
        return self._reader.intents

    def poll(self, seconds: float) -> None:
        """See Lease."""
        from kafka.errors import KafkaError

        try:
            found = self._consumer.poll(timeout_ms=int(seconds * 1000))
            for records in found.values():
                for record in records:
                    self._reader.take(record.key, record.value)
            if self._owned and not self._read:
                end = self._consumer.end_offsets([self._place])[self._place]
                self._read = bool(self._consumer.position(self._place) >= end)
                if self._read:
                    log.info("keeping intents now: %d of them", len(self._reader.intents))
        except KafkaError as error:
            raise translated(f"reading {INTENTS_TOPIC}", error) from error
        for key in self._reader.faults.keys() - self._faults:
            log.warning("%s", self._reader.faults[key])
        self._faults = set(self._reader.faults)

    def confirm(self) -> bool:
        """See Lease."""
        from kafka.errors import CommitFailedError, KafkaError
        from kafka.structs import OffsetAndMetadata

        if not self.held:
            return False
        try:
            # Always the beginning: whoever comes next reads everything.
            self._consumer.commit(
                {self._place: OffsetAndMetadata(0, f"held by {self._name}", -1)},
                timeout_ms=CONFIRM_MS,
            )
        except CommitFailedError:
            self.given([], lost=True)
            return False
        except KafkaError as error:
            raise translated("asking who keeps the intents", error) from error
        return self.held

    def written(self, intents: Iterable[Intent], forgotten: Collection[str]) -> None:
        """See Lease."""
        self._reader.intents.update((intent.key, intent) for intent in intents)
        for key in forgotten:
            self._reader.intents.pop(key, None)

    def forget(self) -> None:
        """See Lease."""
        self._reader, self._read = IntentReader(), False
        if self._owned:
            self._consumer.seek_to_beginning(self._place)

    def given(self, places: Collection[Any], *, lost: bool = False) -> None:
        """What the group says that this member has now."""
        owned = not lost and self._place in places
        if self._owned and not owned:
            log.warning("another controller may keep the intents from now on: standing by")
        if owned and not self._owned:
            self._reader, self._read = IntentReader(), False
        self._owned = owned

    def close(self) -> None:
        """Leave the group, so that another one need not wait for the session's time."""
        self._owned = False
        self._consumer.close(autocommit=False)


def _listener(holder: LeaseHolder) -> Any:
    from kafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
            if revoked:
                holder.given([], lost=True)

        def on_partitions_lost(self, lost: Collection[Any]) -> None:
            if lost:
                holder.given([], lost=True)

        def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
            holder.given(assigned)

    return Listener()
