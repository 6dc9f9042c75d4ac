"""Records of intents: there and back, and whatever else may be in the topic."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import TopicPartition
from placement_core.under_replication import Wanted
from rackward.controller.pending_replicas import (
    Intent,
    IntentError,
    IntentReader,
    layout_digest,
    parse_intent,
    wanted_of,
    with_placeholders,
)
from tests.support.pending_replicas import intent

BROKERS = st.integers(0, 2**31 - 1)
ROWS = st.lists(BROKERS, max_size=5, unique=True).map(tuple)


@given(
    topic=st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True),
    topic_id=st.none() | st.text(max_size=30),
    factor=st.integers(1, 1000),
    open=st.sets(st.integers(0, 100_000), max_size=20),
    stand_ins=st.frozensets(BROKERS, max_size=4),
    filling=st.dictionaries(st.integers(0, 1000), ROWS, max_size=4),
)
def test_there_and_back(
    topic: str,
    topic_id: str | None,
    factor: int,
    open: set[int],
    stand_ins: frozenset[int],
    filling: dict[int, tuple[int, ...]],
) -> None:
    made = Intent("0a", topic, topic_id, factor, tuple(sorted(open)), "digest", stand_ins, filling)
    assert parse_intent(made.key.encode(), made.record()) == made


def test_a_million_partitions_make_a_short_record() -> None:
    made = intent(rows=dict.fromkeys(range(1_000_000), (0, 1)))
    assert len(made.record()) < 300
    assert parse_intent(made.key.encode(), made.record()).open == made.open


@given(st.binary(max_size=80), st.binary(max_size=200))
def test_random_bytes_are_no_intent(key: bytes, value: bytes) -> None:
    with pytest.raises(IntentError):
        parse_intent(key, value)


SOUND = json.loads(intent(filling={0: (0, 1, 2)}, stand_ins=[5]).record())


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": None},
        {"topic": "other"},
        {"topic_id": 7},
        {"replication_factor": 0},
        {"replication_factor": True},
        {"replication_factor": 10**9},
        {"open": [[0, 10**12]]},
        {"open": [[5, 4]]},
        {"open": [[0, 3], [2, 5]]},
        {"open": [[-1, 0]]},
        {"open": "all"},
        {"stand_ins": [1, 1]},
        {"stand_ins": {"1": 2}},
        {"filling": {"x": [1]}},
        {"filling": {"0": [-1]}},
        {"filling": {"0": list(range(5000))}},
        {"filling": [1]},
    ],
    ids=str,
)
def test_a_record_that_cannot_be_meant_is_none(change: dict[str, object]) -> None:
    with pytest.raises(IntentError):
        parse_intent(b"t/i", json.dumps({**SOUND, **change}).encode())


def test_nesting_is_bounded() -> None:
    with pytest.raises(IntentError):
        parse_intent(b"t/i", b"[" * 100_000)


def test_the_last_record_counts_and_an_empty_one_ends_it() -> None:
    reader = IntentReader()
    first, second = intent(), intent(filling={0: (0, 1, 2)})
    reader.take(b"t/i", first.record())
    reader.take(b"t/i", second.record())
    assert reader.intents == {"t/i": second}
    reader.take(b"x", b"rubbish")
    assert list(reader.faults) == [b"x"]
    reader.take(b"t/i", None)
    reader.take(b"x", None)
    assert (reader.intents, reader.faults) == ({}, {})


def test_rubbish_over_an_intent_does_not_pass_for_it() -> None:
    reader = IntentReader()
    reader.take(b"t/i", intent().record())
    reader.take(b"t/i", b"{}")
    assert reader.intents == {}
    assert "no intent" in reader.faults[b"t/i"]


def test_callers_see_placeholders() -> None:
    wanted = wanted_of([intent(rows={0: (0, 1), 1: (1, 2)}, stand_ins=[2])])
    lists = {
        TopicPartition("t", 0): (0, 1),
        TopicPartition("t", 1): (1, 2, 0),
        TopicPartition("u", 0): (0,),
    }
    shown = with_placeholders(lists, wanted, live=[0, 1])
    assert list(shown.values()) == [(0, 1, -1), (1, 0, -1), (0,)]


def test_two_intents_want_the_greater() -> None:
    wanted = wanted_of([intent(id="a", stand_ins=[7]), intent(id="b", factor=5)])
    assert wanted == {TopicPartition("t", 0): Wanted(5, frozenset({7}))}


def test_a_digest_knows_a_layout() -> None:
    rows = {0: (0, 1), 1: (1, 0)}
    assert layout_digest(rows) == layout_digest(dict(reversed(rows.items())))
    assert layout_digest(rows) != layout_digest({0: (1, 0), 1: (1, 0)})
    assert layout_digest({0: (1, 10)}) != layout_digest({0: (11, 0)})
