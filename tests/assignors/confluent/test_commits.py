"""Stored offsets, uncommitted offsets and start offsets of partitions."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    Message,
    TopicPartition,
)

from assignors.confluent.commits import OffsetTracker, next_position, with_errors
from assignors.confluent.events import PartitionKey, Position
from assignors.confluent.internals import VERSION
from assignors.confluent.rebalance import with_start_offsets

A, B = ("t", 0), ("t", 1)


@pytest.mark.parametrize(
    ("position", "other", "is_after"),
    [
        (Position(0), None, True),
        (Position(5), Position(4), True),
        (Position(5), Position(5), False),
        (Position(4), Position(5), False),
        (Position(4, 2), Position(5, 1), True),
        (Position(6, 1), Position(5, 2), False),
    ],
)
def test_positions_are_ordered_by_epoch_then_offset(
    position: Position, other: Position | None, is_after: bool
) -> None:
    assert position.is_after(other) is is_after


def test_with_auto_store_the_position_precedes_the_stored_offset() -> None:
    tracker = OffsetTracker(auto_store=True)
    tracker.store(A, Position(9))
    assert tracker.stored({A: Position(2), B: None}) == {A: Position(2)}
    # After a seek.
    assert tracker.stored({A: None}) == {A: Position(9)}


@pytest.mark.parametrize("logical", [OFFSET_INVALID, OFFSET_STORED, OFFSET_END])
def test_a_logical_offset_clears_the_stored_offset(logical: int) -> None:
    tracker = OffsetTracker(auto_store=False)
    tracker.store(A, Position(3))
    tracker.store(A, Position(logical))
    assert tracker.uncommitted({A: Position(9)}) == {}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"topic": "t", "partition": 1, "offset": 7}, ("t", 1, 8)),
        ({"topic": "t", "partition": 1}, ("t", 1, OFFSET_INVALID)),
        ({"topic": "t", "offset": 0}, ("t", -1, 1)),
    ],
)
@pytest.mark.skipif(VERSION < (2, 13), reason="Message cannot be constructed")
def test_the_offset_after_a_message(
    message: dict[str, Any], expected: tuple[str, int, int]
) -> None:
    partition = next_position(Message(**message))
    assert (partition.topic, partition.partition, partition.offset) == expected


def test_without_auto_store_the_position_is_not_stored() -> None:
    tracker = OffsetTracker(auto_store=False)
    tracker.store(A, Position(3, 1, "half"))
    assert tracker.stored({A: Position(9), B: Position(9)}) == {A: Position(3, 1, "half")}


def test_a_new_assignment_has_no_stored_offset() -> None:
    tracker = OffsetTracker(auto_store=False)
    tracker.store(A, Position(3))
    tracker.store(B, Position(4))
    tracker.forget_stored([A])
    assert tracker.stored({A: None, B: None}) == {B: Position(4)}


def test_only_offsets_after_the_last_commit_are_uncommitted() -> None:
    tracker = OffsetTracker(auto_store=True)
    positions: dict[PartitionKey, Position | None] = {A: Position(5), B: Position(7)}
    assert tracker.uncommitted(positions) == positions
    tracker.committed.update({A: Position(5)})
    assert tracker.uncommitted(positions) == {B: Position(7)}
    # After a seek back the committed offset is still ahead.
    assert tracker.uncommitted({A: Position(1)}) == {}
    tracker.forget_committed([A])
    assert tracker.uncommitted({A: Position(1)}) == {A: Position(1)}


# Start offsets and errors of partitions.


def test_partitions_start_at_the_committed_offset() -> None:
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1, OFFSET_STORED)]
    started = with_start_offsets(partitions, {A: Position(5, 2), B: Position(7)}, "error")
    assert [(p.partition, p.offset, p.leader_epoch) for p in started] == [(0, 5, 2), (1, 7, None)]


@pytest.mark.parametrize(
    ("offset_reset", "offset"),
    [
        ("earliest", OFFSET_BEGINNING),
        ("smallest", OFFSET_BEGINNING),
        ("LATEST", OFFSET_END),
        ("largest", OFFSET_END),
        ("error", OFFSET_INVALID),
    ],
)
def test_without_a_committed_offset_auto_offset_reset_applies(
    offset_reset: str, offset: int
) -> None:
    started = with_start_offsets([TopicPartition("t", 0)], {}, offset_reset)
    assert [p.offset for p in started] == [offset]


def test_offsets_of_the_application_are_kept() -> None:
    partitions = [TopicPartition("t", 0, 3), TopicPartition("t", 1, OFFSET_END)]
    started = with_start_offsets(partitions, {A: Position(5), B: Position(7)}, "earliest")
    assert [p.offset for p in started] == [3, OFFSET_END]


def test_unknown_committed_offsets_are_left_to_librdkafka() -> None:
    partitions = [TopicPartition("t", 0)]
    assert with_start_offsets(partitions, None, "earliest") is partitions


def test_failed_partitions_have_errors() -> None:
    partitions = [TopicPartition("t", 0, 3, "note", 1), TopicPartition("t", 1, 4)]
    failed, succeeded = with_errors(partitions, {A: KafkaError.ILLEGAL_GENERATION, B: 0})
    assert isinstance(failed, TopicPartition)
    assert failed.error is not None
    assert failed.error.code() == KafkaError.ILLEGAL_GENERATION
    assert (failed.offset, failed.metadata, failed.leader_epoch) == (3, "note", 1)
    assert succeeded is partitions[1]
