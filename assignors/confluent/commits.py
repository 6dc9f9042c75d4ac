"""Committing offsets: by the application, automatically, and before partitions are given up.

Commits of a group member go through its membership, with its generation. Those of a consumer
without a subscription are librdkafka's own: there is no generation that could be obsolete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    Message,
    TopicPartition,
)

from assignors.confluent.config import Configuration
from assignors.confluent.events import PartitionKey, Position, kafka_exception
from assignors.confluent.member import GroupMember
from assignors.confluent.polling import NativeConsumer, UnreturnedRecords
from assignors.group_leader import format_list, log

_ARGUMENTS = ("message", "offsets", "async", "asynchronous")
_ACTION = "Commit failed"

START_AT_COMMITTED = (OFFSET_INVALID, OFFSET_STORED)
"""Offsets that mean: start at the committed offset, or else as auto.offset.reset says."""


@dataclass(frozen=True)
class CommitResult:
    """The error of a commit as a whole, and its partitions with their errors."""

    error: KafkaError | None
    partitions: list[TopicPartition]


class OffsetCommitter:
    """Commits the offsets of one consumer, and stores them until they are committed.

    ``report`` gets a function, which calls ``on_commit`` with the result of an asynchronous commit.
    """

    def __init__(
        self,
        native: NativeConsumer,
        unreturned: UnreturnedRecords,
        configuration: Configuration,
        member: GroupMember,
        report: Callable[[Callable[[], object]], object],
    ) -> None:
        self.report = report
        self._native = native
        self._unreturned = unreturned
        self._configuration = configuration
        self._member = member
        self._tracker = OffsetTracker(configuration.auto_offset_store)
        self._next_auto_commit = time.monotonic() + configuration.auto_commit_interval
        self._native_offsets: dict[PartitionKey, Position] = {}
        self._native_commits = 0

    # ---- the application's calls

    def commit(self, *args: Any, **kwargs: Any) -> list[TopicPartition] | None:
        """Commit as confluent does. Arguments that confluent refuses are passed on to it."""
        parsed = _parse_commit_args(args, kwargs)
        if parsed is None or not self._member.is_subscribed:
            committed: list[TopicPartition] | None
            committed = self._native.methods.commit(*args, **kwargs)
            if committed is not None:
                self._record_native(committed)
            return committed
        message, offsets, asynchronous = parsed
        partitions = self._partitions_to_commit(message, offsets)
        if asynchronous:
            self._commit_and_report(partitions)
            return None
        result = self._start_commit(partitions).result()
        if result.error is not None:
            raise kafka_exception(result.error.code(), _ACTION)
        return result.partitions

    def store_offsets(
        self, message: Message | None = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """Store offsets as confluent does."""
        given: dict[str, Any] = {"message": message, "offsets": offsets}
        # Before confluent-kafka 2.13, None counts as given.
        self._native.methods.store_offsets(**{k: v for k, v in given.items() if v is not None})
        if message is not None:
            offsets = [next_position(message)]
        assigned = set(keys_of(self._native.assignment()))
        for partition in offsets or ():
            if key_of(partition) in assigned:
                self._tracker.store(key_of(partition), position_of(partition))

    def seek(self, partition: TopicPartition) -> None:
        """Seek as confluent does. The position before it stays stored."""
        if not isinstance(partition, TopicPartition):
            return self._native.methods.seek(partition)  # Raises TypeError.
        key = key_of(partition)
        # To read the position of another partition would change the error of the seek.
        assigned = key in keys_of(self._native.assignment())
        before = self._positions([key])[key] if assigned else None
        self._native.methods.seek(partition)
        if before is not None and self._configuration.auto_offset_store:
            self._tracker.store(key, before)
        return None

    def committed(self) -> dict[PartitionKey, Position]:
        """Return the last committed offsets, as far as these are known, without a request."""
        return dict(self._tracker.committed)

    def flush(self) -> None:
        """Wait for unanswered commits, for a session timeout at most, then cancel and log them."""
        timeout = self._configuration.session_timeout
        unanswered = self._member.flush_commits(timeout)
        if unanswered:
            offsets = [
                f"{topic}-{partition} at {position.offset}"
                for commit in unanswered
                for (topic, partition), position in commit.offsets.items()
            ]
            log.warning(
                "group=%s cancelled %d commits that were not answered within %.0f s of close: %s",
                self._configuration.group_id,
                len(unanswered),
                timeout,
                format_list(offsets),
            )

    # ---- changes of the assignment

    def on_assign(
        self, partitions: list[TopicPartition], committed: Mapping[PartitionKey, Position]
    ) -> None:
        """Partitions have been added to librdkafka's assignment; ``committed``: the group's."""
        self._tracker.forget_stored(keys_of(partitions))
        # Where reading starts at the committed offset, only later offsets are uncommitted.
        resumed = {
            key_of(partition) for partition in partitions if partition.offset in START_AT_COMMITTED
        }
        self._tracker.committed.update({key: committed[key] for key in resumed & committed.keys()})

    def on_revoke(self, keys: list[PartitionKey], *, lost: bool) -> Future[CommitResult] | None:
        """Partitions are about to leave librdkafka's assignment: commit them automatically.

        Return the future of that commit; None if nothing is committed.
        """
        if not keys:
            return None
        commit = None
        if self._configuration.auto_commit and not lost and not self._member.is_lost:
            stored = self._tracker.stored(self._positions(keys))
            if stored:
                commit = self._commit_and_report(to_partitions(stored), final=True)
        self._tracker.forget_stored(keys)
        self._tracker.forget_committed(keys)
        return commit

    # ---- automatic commits, and librdkafka's

    def auto_commit(self, now: float) -> None:
        """Commit the stored offsets if it is time, and no rebalance is in progress."""
        interval = self._configuration.auto_commit_interval
        if not self._configuration.auto_commit or not interval or now < self._next_auto_commit:
            return
        self._next_auto_commit = now + interval
        if self._member.is_subscribed and not self._member.is_stable:
            return
        offsets = self._tracker.uncommitted(self._positions(keys_of(self._native.assignment())))
        if offsets and self._member.is_subscribed:
            self._commit_and_report(to_partitions(offsets))
        elif offsets != self._native_offsets:
            # librdkafka knows what it has committed, and so whether there is anything to commit.
            self._native_offsets = offsets
            self._native_commits += 1
            self._native.call(self._native.methods.commit, asynchronous=True)

    def on_native_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Report a commit of librdkafka's to the application, in the thread that polls.

        An automatic commit with nothing to commit is not reported.
        """
        if error is None:
            self._record_native(partitions)
        automatic, self._native_commits = self._native_commits, max(0, self._native_commits - 1)
        if automatic and error is not None and error.code() == KafkaError._NO_OFFSET:
            return
        if self._configuration.on_commit is not None:
            self._configuration.on_commit(error, partitions)

    # ---- internals

    def _positions(self, keys: Collection[PartitionKey]) -> dict[PartitionKey, Position | None]:
        """Return up to where the application has received records; None: it has received none."""
        if not keys:
            return {}
        partitions = [TopicPartition(*key) for key in keys]
        with self._unreturned.positions(keys) as unreturned:
            positions = self._native.call(self._native.methods.position, partitions)
        return {
            key_of(partition): unreturned.get(key_of(partition))
            or (position_of(partition) if partition.offset >= 0 else None)
            for partition in positions
        }

    def _partitions_to_commit(
        self, message: Message | None, offsets: list[TopicPartition] | None
    ) -> list[TopicPartition]:
        if message is not None:
            return [next_position(message)]
        if offsets is not None:
            return list(offsets)
        keys = sorted(keys_of(self._native.assignment()))
        if keys and self._member.is_lost:
            raise kafka_exception(KafkaError._ASSIGNMENT_LOST, _ACTION)
        uncommitted = self._tracker.uncommitted(self._positions(keys))
        return to_partitions({key: uncommitted.get(key) for key in keys})

    def _start_commit(
        self, partitions: list[TopicPartition], *, final: bool = False
    ) -> Future[CommitResult]:
        """Commit the partitions that have an offset; see :meth:`GroupMember.commit`."""
        future: Future[CommitResult] = Future()
        offsets = {
            key_of(partition): with_librdkafkas_metadata(position_of(partition))
            for partition in partitions
            if partition.offset >= 0
        }

        def on_response(code: int, codes: Mapping[PartitionKey, int]) -> None:
            self._tracker.committed.update(
                {key: offsets[key] for key, failed in codes.items() if not failed}
            )
            # As in librdkafka, the last error of a partition is that of the commit, and of all
            # partitions without one.
            code = code or next(filter(None, reversed([*codes.values()])), 0)
            codes = {key: codes.get(key) or code for key in offsets}
            error = KafkaError(code) if code else None
            future.set_result(CommitResult(error, with_errors(partitions, codes)))

        self._member.commit(offsets, self._configuration.session_timeout, on_response, final=final)
        return future

    def _commit_and_report(
        self, partitions: list[TopicPartition], *, final: bool = False
    ) -> Future[CommitResult]:
        """Commit asynchronously, and report the result for ``on_commit``."""
        if not self._member.is_subscribed:
            self._native.call(self._native.methods.commit, offsets=partitions, asynchronous=True)
            done: Future[CommitResult] = Future()
            done.set_result(CommitResult(None, partitions))
            return done
        future = self._start_commit(partitions, final=final)
        on_commit = self._configuration.on_commit
        if on_commit is not None:

            def report(done: Future[CommitResult]) -> None:
                result = done.result()
                self.report(partial(on_commit, result.error, result.partitions))

            future.add_done_callback(report)
        return future

    def _record_native(self, partitions: Iterable[TopicPartition]) -> None:
        """Record what librdkafka has committed."""
        self._tracker.committed.update(
            {
                key_of(partition): position_of(partition)
                for partition in partitions
                if partition.offset >= 0 and partition.error is None
            }
        )


def _parse_commit_args(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Message | None, list[TopicPartition] | None, bool] | None:
    """Return message, offsets and asynchronous; None for arguments that confluent refuses."""
    named = dict(zip(_ARGUMENTS, args, strict=False))
    if len(args) > len(_ARGUMENTS) or named.keys() & kwargs.keys():
        return None
    named.update(kwargs)
    if not named.keys() <= set(_ARGUMENTS):
        return None
    message, offsets = named.get("message"), named.get("offsets")
    if message is not None and (offsets is not None or type(message) is not Message):
        return None
    if message is not None and message.error() is not None:
        return None
    if offsets is not None and not is_partition_list(offsets):
        return None
    return message, offsets, bool(named.get("asynchronous", named.get("async", True)))


class OffsetTracker:
    """The stored and the committed offsets of one consumer.

    librdkafka keeps three offsets for each partition: the position, up to which the application has
    received records; the stored offset; and the offset that it last committed. Only the position
    can be read, so the other two are kept here, by librdkafka's rules:

    - With ``enable.auto.offset.store`` the stored offset is the position. A seek resets the
      position and not the stored offset. Without, it is what ``store_offsets`` was called with.
    - A stored offset belongs to one assignment of the partition, and is dropped with it.
    - A commit without arguments leaves out what is not after the last commit.

    Thread-safe: each access to a dictionary is one call of a method.
    """

    def __init__(self, auto_store: bool) -> None:
        self.committed: dict[PartitionKey, Position] = {}
        """The last committed offsets, as far as these are known."""
        self._auto_store = auto_store
        self._stored: dict[PartitionKey, Position] = {}

    def store(self, key: PartitionKey, position: Position) -> None:
        """Store an offset: the application's, or the position that a seek is about to reset.

        A logical offset, which is negative, clears what is stored.
        """
        if position.offset >= 0:
            self._stored[key] = position
        else:
            self._stored.pop(key, None)

    def forget_stored(self, keys: Iterable[PartitionKey]) -> None:
        """Drop the stored offsets: an assignment of these partitions begins or ends."""
        for key in keys:
            self._stored.pop(key, None)

    def forget_committed(self, keys: Iterable[PartitionKey]) -> None:
        """Drop the committed offsets: other members may commit from now on."""
        for key in keys:
            self.committed.pop(key, None)

    def stored(
        self, positions: Mapping[PartitionKey, Position | None]
    ) -> dict[PartitionKey, Position]:
        """Return the stored offsets of the partitions in ``positions`` (None: no position yet)."""
        stored = {
            key: position if self._auto_store and position is not None else self._stored.get(key)
            for key, position in positions.items()
        }
        return {key: position for key, position in stored.items() if position is not None}

    def uncommitted(
        self, positions: Mapping[PartitionKey, Position | None]
    ) -> dict[PartitionKey, Position]:
        """Return the stored offsets that are after the last commit."""
        return {
            key: position
            for key, position in self.stored(positions).items()
            if position.is_after(self.committed.get(key))
        }


# ---- confluent's TopicPartition.


class PartitionWithError(TopicPartition):
    """A TopicPartition with an error. confluent's own can only get one in C."""

    def __init__(self, key: PartitionKey, position: Position, code: int) -> None:
        super().__init__(*key, position.offset, **_optional_arguments(position))
        self._error = KafkaError(code)

    @property
    def error(self) -> KafkaError:  # type: ignore[override]
        """The error."""
        return self._error


def is_partition_list(partitions: object) -> bool:
    """Return whether confluent accepts the value as a list of partitions."""
    return isinstance(partitions, list) and all(
        isinstance(partition, TopicPartition) for partition in partitions
    )


def key_of(partition: TopicPartition) -> PartitionKey:
    """Return topic and partition number."""
    return (partition.topic, partition.partition)


def keys_of(partitions: Iterable[TopicPartition]) -> list[PartitionKey]:
    """Return topic and partition number of each."""
    return [key_of(partition) for partition in partitions]


def position_of(partition: TopicPartition) -> Position:
    """Return the offset with its leader epoch and metadata."""
    epoch = partition.leader_epoch
    return Position(partition.offset, -1 if epoch is None else epoch, partition.metadata)


def with_librdkafkas_metadata(position: Position) -> Position:
    """Return the position with its metadata in librdkafka's form, which ends with a NUL.

    ``committed`` of librdkafka reads the metadata up to a NUL, past its end if there is none.
    """
    if position.metadata is None:
        return position
    return replace(position, metadata=position.metadata + "\0")


def next_position(message: Message) -> TopicPartition:
    """Return the offset to commit when ``message`` has been processed.

    OFFSET_INVALID for a message of the application's own that has no offset.
    """
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    epoch = message.leader_epoch()
    return TopicPartition(
        topic or "",
        -1 if partition is None else partition,
        OFFSET_INVALID if offset is None else offset + 1,
        leader_epoch=-1 if epoch is None else epoch,
    )


def to_partitions(positions: Mapping[PartitionKey, Position | None]) -> list[TopicPartition]:
    """Return partitions with their offsets, sorted; OFFSET_INVALID for None."""
    return [
        TopicPartition(*key, OFFSET_INVALID)
        if position is None
        else TopicPartition(*key, position.offset, **_optional_arguments(position))
        for key, position in sorted(positions.items())
    ]


def with_errors(
    partitions: Iterable[TopicPartition], codes: Mapping[PartitionKey, int]
) -> list[TopicPartition]:
    """Return the partitions, with an error for each whose code is not 0."""
    coded = [(partition, codes.get(key_of(partition), 0)) for partition in partitions]
    return [
        PartitionWithError(key_of(partition), position_of(partition), code) if code else partition
        for partition, code in coded
    ]


def _optional_arguments(position: Position) -> dict[str, Any]:
    # The constructor of TopicPartition does not accept None for either.
    arguments: dict[str, Any] = {"leader_epoch": position.leader_epoch}
    if position.metadata is not None:
        arguments["metadata"] = position.metadata
    return arguments
