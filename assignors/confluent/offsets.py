"""Offsets of partitions: which ones to commit, and confluent's TopicPartition as dictionary items.

librdkafka keeps three offsets for each partition: the position, up to which the application has
received records; the stored offset; and the offset that it last committed. Only the position can be
read, so :class:`OffsetTracker` keeps the other two, by librdkafka's rules:

- With ``enable.auto.offset.store`` the stored offset is the position. A seek resets the position
  and not the stored offset. Without, the stored offset is what ``store_offsets`` was called with.
- A stored offset belongs to one assignment of the partition, and is dropped with it.
- A commit without arguments leaves out what is not after the last commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    Message,
    TopicPartition,
)

PartitionKey = tuple[str, int]
"""Topic and partition number."""

START_AT_COMMITTED = (OFFSET_INVALID, OFFSET_STORED)
"""Offsets that mean: start at the committed offset, or else as auto.offset.reset says."""


@dataclass(frozen=True, slots=True)
class Position:
    """An offset, the leader epoch of the record before it (-1: unknown), and commit metadata."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = None

    def is_after(self, other: Position | None) -> bool:
        """Return whether it is after ``other``. The epoch counts before the offset."""
        if other is None:
            return True
        return (self.leader_epoch, self.offset) > (other.leader_epoch, other.offset)


class OffsetTracker:
    """The stored and the committed offsets of one consumer.

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
