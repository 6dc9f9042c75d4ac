"""split_into_batches: every move once, within the limits, brokers alternating."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import InvalidOptionError, TopicPartition
from placement_core.reassignment import Move, split_into_batches


def move(number: int, before: tuple[int, ...], after: tuple[int, ...]) -> Move:
    return Move(TopicPartition("t", number), before, after)


REPLICAS = st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True).map(tuple)
MOVES = st.lists(st.tuples(REPLICAS, REPLICAS), max_size=30).map(
    lambda pairs: [move(number, *pair) for number, pair in enumerate(pairs)]
)


@given(MOVES, st.none() | st.integers(1, 8), st.none() | st.integers(1, 500))
def test_every_move_is_in_one_batch_within_the_limits(
    moves: list[Move], max_partitions: int | None, max_bytes: int | None
) -> None:
    sizes = {m.partition: 100 + m.partition.partition for m in moves}
    batches = split_into_batches(
        moves[::-1], max_partitions=max_partitions, max_bytes=max_bytes, sizes=sizes
    )
    assert sorted(m.partition for b in batches for m in b.moves) == [m.partition for m in moves]
    for batch in batches:
        copied = sum(sizes[m.partition] * len(m.adding) for m in batch.moves)
        assert batch.bytes == copied
        assert batch.copies == sum(len(m.adding) for m in batch.moves)
        assert len(batch.moves) <= (max_partitions or len(moves))
        with_copies = [m for m in batch.moves if m.adding]
        assert max_bytes is None or copied <= max_bytes or len(with_copies) == 1
    for batch, next_batch in pairwise(batches):
        has_capacity = len(batch.moves) < (max_partitions or 1 << 30)
        next_move = next_batch.moves[0]
        total = (batch.bytes or 0) + sizes[next_move.partition] * len(next_move.adding)
        assert not has_capacity or (max_bytes is not None and total > max_bytes), "ended too early"
    assert split_into_batches(moves, max_partitions=2) == split_into_batches(
        moves[::-1], max_partitions=2
    )


def test_moves_without_copies_come_first_then_missing_replicas() -> None:
    same_factor = [move(0, (0, 1), (0, 2)), move(1, (0, 1), (0, 2)), move(2, (0, 1), (0, 3))]
    missing = [move(3, (0,), (0, 2)), move(4, (0,), (0, 3))]
    without_copies = [move(5, (0, 1), (1, 0)), move(6, (0, 1), (0,))]
    [batch] = split_into_batches([*same_factor, *missing, *without_copies])
    assert [m.partition.partition for m in batch.moves] == [5, 6, 3, 4, 0, 2, 1]
    assert batch.bytes is None
    assert split_into_batches([]) == ()


def test_invalid_limits_are_rejected() -> None:
    moves = [move(0, (0,), (1,)), move(1, (0,), (1,)), move(2, (0, 1), (1, 0))]
    with pytest.raises(InvalidOptionError, match="max_partitions is 0"):
        split_into_batches(moves, max_partitions=0)
    with pytest.raises(InvalidOptionError, match=r"size of t-1 is not known \(and of 0 more\)"):
        split_into_batches(moves, max_bytes=5, sizes={TopicPartition("t", 0): 3})


def test_every_batch_is_spread_over_brokers() -> None:
    moves = [move(n, (0,), (1 + n // 20,)) for n in range(60)]
    for batch in split_into_batches(moves, max_partitions=6):
        assert set(Counter(m.after[0] for m in batch.moves).values()) == {2}
