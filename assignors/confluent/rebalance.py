"""The partitions of a consumer: rebalance callbacks, and librdkafka's assignment.

What confluent does in a rebalance is done here for a RebalanceEvent: the application's callback is
called, and if it did not assign or unassign anything itself, that is done for it, as a whole in an
eager group and incrementally in a cooperative one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from assignors.confluent.commits import (
    START_AT_COMMITTED,
    OffsetCommitter,
    is_partition_list,
    key_of,
    keys_of,
    to_partitions,
)
from assignors.confluent.config import Configuration
from assignors.confluent.events import (
    PartitionKey,
    Position,
    RebalanceEvent,
    RebalanceKind,
    kafka_exception,
)
from assignors.confluent.member import GroupMember
from assignors.confluent.polling import NativeConsumer

RebalanceCallback = Callable[[Any, list[TopicPartition]], object]

_EAGER = (
    "Changes to the current assignment must be made using assign() when rebalance protocol type"
    " is EAGER"
)


class PartitionAssignment:
    """Applies rebalances, and the application's own assignments, to librdkafka."""

    def __init__(
        self,
        native: NativeConsumer,
        committer: OffsetCommitter,
        configuration: Configuration,
        member: GroupMember,
    ) -> None:
        self.callbacks: dict[RebalanceKind, RebalanceCallback] = {}
        self.owned: set[PartitionKey] | None = None
        """What the group has assigned; None before its first assignment and after a loss."""
        self.rebalances = 0
        """Number of assignments and revocations by the group."""
        self.last_rebalance: float | None = None
        """When the last of these began, by `time.monotonic`."""
        self._native = native
        self._committer = committer
        self._member = member
        self._cooperative = configuration.cooperative
        self._offset_reset = configuration.offset_reset
        self._event: RebalanceEvent | None = None
        self._assigned_by_user = False
        self._pending_commits: list[Future[Any]] = []

    @property
    def handling(self) -> RebalanceKind | None:
        """What the application's callback is being called for, if it is."""
        return None if self._event is None else self._event.kind

    # ---- the application's calls

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Assign as confluent does."""
        if not is_partition_list(partitions):
            return self._native.methods.assign(partitions)  # Raises TypeError.
        # A call that is refused counts too: confluent does not assign the group's partitions then.
        self._assigned_by_user = True
        self._require_eager("Failed to set assignment")
        return self._replace(partitions)

    def unassign(self) -> None:
        """Unassign as confluent does."""
        self._assigned_by_user = True
        self._require_eager("Failed to remove assignment")
        self._remove_all()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Assign incrementally as confluent does."""
        if not is_partition_list(partitions):
            return self._native.methods.incremental_assign(partitions)  # Raises TypeError.
        self._assigned_by_user = True
        self._require_cooperative()
        return self._assign(partitions, self._native.methods.incremental_assign)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Unassign incrementally as confluent does."""
        if not is_partition_list(partitions):
            return self._native.methods.incremental_unassign(partitions)  # Raises TypeError.
        self._assigned_by_user = True
        self._require_cooperative()
        keys = keys_of(partitions)
        if set(keys_of(self._native.assignment())).issuperset(keys):
            self._on_revoke(keys)
        return self._native.methods.incremental_unassign(partitions)

    # ---- rebalances

    def rebalance(self, event: RebalanceEvent, consumer: object) -> None:
        """Call the application's callback with ``consumer``, and apply what it left undone."""
        keys = self._event_partitions(event)
        if keys is None:
            event.finish(True)
            return
        self.rebalances += 1
        self.last_rebalance = time.monotonic()
        self._event, self._assigned_by_user = event, False
        try:
            callback = self.callbacks.get(event.kind)
            if callback is None and event.kind is RebalanceKind.LOST:
                callback = self.callbacks.get(RebalanceKind.REVOKE)
            if callback is not None:
                callback(consumer, [TopicPartition(*key) for key in keys])
        finally:
            try:
                if not self._assigned_by_user and not self._native.closed:
                    self._apply(event.kind, keys)
            finally:
                self._event = None
                self._update_owned(event.kind, keys)
                self._finish(event)

    def _event_partitions(self, event: RebalanceEvent) -> list[PartitionKey] | None:
        """Return the partitions for the callback; None if there is nothing to report."""
        if event.kind is RebalanceKind.ASSIGN:
            return sorted(set(event.partitions or ()) - (self.owned or set()))
        if self.owned is None:
            return None
        if event.partitions is not None:
            return sorted(self.owned.intersection(event.partitions))
        # librdkafka does not call back a cooperative member that has no partitions to give up.
        return sorted(self.owned) if self.owned or not self._cooperative else None

    def _apply(self, kind: RebalanceKind, keys: list[PartitionKey]) -> None:
        partitions = [TopicPartition(*key) for key in keys]
        if kind is RebalanceKind.ASSIGN and self._cooperative:
            self._assign(partitions, self._native.methods.incremental_assign)
        elif kind is RebalanceKind.ASSIGN:
            self._replace(partitions)
        elif self._cooperative:
            assigned = set(keys_of(self._native.assignment()))
            revoked = [key for key in keys if key in assigned]
            self._on_revoke(revoked)
            self._native.methods.incremental_unassign([TopicPartition(*key) for key in revoked])
        else:
            self._remove_all()

    def _update_owned(self, kind: RebalanceKind, keys: list[PartitionKey]) -> None:
        if kind is RebalanceKind.ASSIGN:
            self.owned = (self.owned or set()).union(keys)
        elif self._cooperative and kind is RebalanceKind.REVOKE:
            self.owned = (self.owned or set()).difference(keys)
        else:
            self.owned = None

    def _finish(self, event: RebalanceEvent) -> None:
        """Finish the event after the commits of its partitions, where the next owner starts."""
        commits, self._pending_commits = self._pending_commits, []
        unfinished: list[object] = [event, *commits]

        def finish_one(_: object) -> None:
            unfinished.pop()
            if not unfinished:
                event.finish(True)

        for commit in commits:
            commit.add_done_callback(finish_one)
        finish_one(None)

    # ---- librdkafka's assignment

    def _assign(
        self, partitions: list[TopicPartition], assign: Callable[[list[TopicPartition]], None]
    ) -> None:
        committed = None if self._event is None else self._event.committed
        assign(with_start_offsets(partitions, committed, self._offset_reset))
        self._committer.on_assign(partitions, committed or {})

    def _replace(self, partitions: list[TopicPartition]) -> None:
        self._on_revoke(keys_of(self._native.assignment()))
        self._assign(partitions, self._native.methods.assign)

    def _remove_all(self) -> None:
        self._on_revoke(keys_of(self._native.assignment()))
        self._native.methods.unassign()

    def _on_revoke(self, keys: list[PartitionKey]) -> None:
        commit = self._committer.on_revoke(keys, lost=self.handling is RebalanceKind.LOST)
        if commit is not None and self._event is not None:
            self._pending_commits.append(commit)

    def _require_eager(self, action: str) -> None:
        if self._cooperative and self._member.has_joined:
            raise kafka_exception(KafkaError._STATE, action)

    def _require_cooperative(self) -> None:
        if not self._cooperative and self._member.has_joined:
            raise KafkaException(KafkaError(KafkaError._STATE, _EAGER))


_RESETS = {
    **dict.fromkeys(("smallest", "earliest", "beginning"), OFFSET_BEGINNING),
    **dict.fromkeys(("largest", "latest", "end"), OFFSET_END),
}


def with_start_offsets(
    partitions: list[TopicPartition],
    committed: Mapping[PartitionKey, Position] | None,
    offset_reset: str,
) -> list[TopicPartition]:
    """Return the partitions with the offsets to start at, as far as these are known.

    ``committed`` are the group's committed offsets; None: unknown. ``offset_reset`` is
    auto.offset.reset: with "error" librdkafka reports that there is no offset.
    """
    if committed is None:
        return partitions
    reset = Position(_RESETS.get(offset_reset.lower(), OFFSET_INVALID))
    started = []
    for partition in partitions:
        start = committed.get(key_of(partition), reset)
        if partition.offset in START_AT_COMMITTED and start.offset != OFFSET_INVALID:
            started += to_partitions({key_of(partition): start})
        else:
            started.append(partition)
    return started
