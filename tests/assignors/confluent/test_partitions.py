from __future__ import annotations

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    TopicPartition,
)

from assignors.confluent.assignment import started, with_errors
from assignors.confluent.offsets import Position


def test_partitions_start_where_the_group_committed() -> None:
    given = [TopicPartition("t", 0), TopicPartition("t", 1, OFFSET_STORED)]
    found = started(given, {("t", 0): Position(5, 2), ("t", 1): Position(7)}, "error")
    assert [(p.partition, p.offset, p.leader_epoch) for p in found] == [(0, 5, 2), (1, 7, None)]


@pytest.mark.parametrize(
    ("reset", "offset"),
    [
        ("earliest", OFFSET_BEGINNING),
        ("smallest", OFFSET_BEGINNING),
        ("LATEST", OFFSET_END),
        ("largest", OFFSET_END),
        ("error", OFFSET_INVALID),
    ],
)
def test_without_a_commit_they_start_as_the_reset_says(reset: str, offset: int) -> None:
    assert [p.offset for p in started([TopicPartition("t", 0)], {}, reset)] == [offset]


def test_what_the_application_says_stays() -> None:
    given = [TopicPartition("t", 0, 3), TopicPartition("t", 1, OFFSET_END)]
    committed = {("t", 0): Position(5), ("t", 1): Position(7)}
    assert [p.offset for p in started(given, committed, "earliest")] == [3, OFFSET_END]


def test_what_is_not_known_is_left_to_librdkafka() -> None:
    given = [TopicPartition("t", 0)]
    assert started(given, None, "earliest") is given


def test_partitions_that_failed_say_so() -> None:
    given = [TopicPartition("t", 0, 3, "note", 1), TopicPartition("t", 1, 4)]
    failed, well = with_errors(given, {("t", 0): KafkaError.ILLEGAL_GENERATION, ("t", 1): 0})
    assert isinstance(failed, TopicPartition)
    assert failed.error is not None
    assert failed.error.code() == KafkaError.ILLEGAL_GENERATION
    assert (failed.offset, failed.metadata, failed.leader_epoch) == (3, "note", 1)
    assert well is given[1]
