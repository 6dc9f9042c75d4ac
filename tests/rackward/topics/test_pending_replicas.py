"""Records of pending replicas, and other records in their topic."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import TopicPartition
from placement_core.placers.under_replicated import ReplicationTarget
from rackward.topics.pending_replicas import (
    ELECTIONS_KEY,
    ElectionTimes,
    InvalidRecordError,
    PendingReplicas,
    PendingReplicasReader,
    layout_digest,
    layout_with_placeholders,
    parse_record,
    replication_targets,
)
from tests.support.pending_replicas import pending

BROKERS = st.integers(0, 2**31 - 1)
ROWS = st.lists(BROKERS, max_size=5, unique=True).map(tuple)


RECORDS = st.builds(
    PendingReplicas,
    id=st.just("0a"),
    topic=st.from_regex(r"(?!__)[a-zA-Z0-9._-]{1,40}", fullmatch=True),
    topic_id=st.none() | st.text(max_size=30),
    replication_factor=st.integers(1, 16),
    partitions=st.sets(st.integers(0, 100_000), max_size=20).map(sorted).map(tuple),
    layout=st.just("digest"),
    offline_replicas=st.frozensets(BROKERS, max_size=4),
    assigned=st.dictionaries(st.integers(0, 1000), ROWS, max_size=4),
    version=st.just(1),
)


@given(RECORDS)
def test_a_record_is_parsed_as_it_was_written(record: PendingReplicas) -> None:
    assert parse_record(record.key.encode(), record.record()) == record


@given(st.binary(max_size=80), st.binary(max_size=200))
def test_random_bytes_are_not_a_record(key: bytes, value: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        parse_record(key, value)


VALID = json.loads(pending(assigned={0: (0, 1, 2)}, offline_replicas=[5]).record())


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": None},
        {"topic": "other"},
        {"topic_id": 7},
        {"replication_factor": 0},
        {"replication_factor": True},
        {"replication_factor": 17},
        {"replication_factor": 10**9},
        {"partitions": [0, 1_000_001]},
        {"partitions": [5, 4]},
        {"partitions": [4, 4]},
        {"partitions": [-1, 0]},
        {"partitions": "all"},
        {"offline_replicas": {"1": 2}},
        {"assigned": {"x": [1]}},
        {"assigned": {"0": [-1]}},
        {"assigned": {"0": list(range(5000))}},
        {"assigned": [1]},
    ],
    ids=str,
)
def test_invalid_records(change: dict[str, object]) -> None:
    with pytest.raises(InvalidRecordError):
        parse_record(b"t/i", json.dumps({**VALID, **change}).encode())


def test_nesting_is_bounded() -> None:
    with pytest.raises(InvalidRecordError):
        parse_record(b"t/i", b"[" * 100_000)


def test_internal_topics_are_refused() -> None:
    record = pending("__consumer_offsets")
    with pytest.raises(InvalidRecordError, match="of an internal topic"):
        parse_record(record.key.encode(), record.record())


def test_the_partitions_of_all_records_are_limited() -> None:
    reader = PendingReplicasReader()
    large = pending(rows=dict.fromkeys(range(999_999), (0, 1))).record()
    reader.apply(b"t/i", large)
    for number in range(20):
        record = pending("u", {0: (0, 1), 1: (1, 0)}, id=str(number))
        reader.apply(record.key.encode(), record.record())
    assert list(reader.records) == ["t/i"]
    assert len(reader.invalid) == 20
    assert "more than 1,000,000 partitions" in reader.invalid[b"u/0"]
    reader.apply(b"t/i", None)
    record = pending("u", {0: (0, 1), 1: (1, 0)}, id="0")
    reader.apply(record.key.encode(), record.record())
    assert reader.records == {"u/0": record}
    assert len(reader.invalid) == 19


def test_a_later_record_replaces_and_null_deletes() -> None:
    reader = PendingReplicasReader()
    first, second = pending(), pending(assigned={0: (0, 1, 2)})
    reader.apply(b"t/i", first.record())
    reader.apply(b"t/i", second.record())
    assert reader.records == {"t/i": second}
    reader.apply(b"x", b"invalid")
    assert list(reader.invalid) == [b"x"]
    reader.apply(b"t/i", None)
    reader.apply(b"x", None)
    assert (reader.records, reader.invalid) == ({}, {})


def test_an_invalid_record_deletes_the_earlier_one() -> None:
    reader = PendingReplicasReader()
    reader.apply(b"t/i", pending().record())
    reader.apply(b"t/i", b"{}")
    assert reader.records == {}
    assert "is not valid" in reader.invalid[b"t/i"]


def test_the_record_of_elections_is_apart() -> None:
    reader = PendingReplicasReader()
    elections = ElectionTimes(((1e9, {"t": (0, 2)}), (1e9 + 0.125, {"t": (1,), "u": (0,)})))
    reader.apply(ELECTIONS_KEY.encode(), elections.record())
    assert (reader.elections, reader.records, reader.invalid) == (elections, {}, {})
    reader.apply(ELECTIONS_KEY.encode(), b'{"elected": 1}')
    assert reader.elections is None
    assert "counted from 0" in reader.invalid[ELECTIONS_KEY.encode()]


def test_missing_replicas_are_shown_as_placeholders() -> None:
    targets = replication_targets([pending(rows={0: (0, 1), 1: (1, 2)}, offline_replicas=[2])])
    replicas = {
        TopicPartition("t", 0): (0, 1),
        TopicPartition("t", 1): (1, 2, 0),
        TopicPartition("u", 0): (0,),
    }
    shown = layout_with_placeholders(replicas, targets, live=[0, 1])
    assert list(shown.values()) == [(0, 1, -1), (1, 0, -1), (0,)]


def test_two_records_of_one_partition_are_combined() -> None:
    targets = replication_targets(
        [pending(id="a", offline_replicas=[7]), pending(id="b", factor=5)]
    )
    assert targets == {TopicPartition("t", 0): ReplicationTarget(5, frozenset({7}))}


def test_the_digest_identifies_a_layout() -> None:
    rows = {0: (0, 1), 1: (1, 0)}
    assert layout_digest(rows) == layout_digest(dict(reversed(rows.items())))
    assert layout_digest(rows) != layout_digest({0: (1, 0), 1: (1, 0)})
    assert layout_digest({0: (1, 10)}) != layout_digest({0: (11, 0)})
