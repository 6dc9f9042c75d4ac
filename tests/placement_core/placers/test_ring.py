"""Rings against their rule, carried out replica by replica."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from placement_core.placers.ring import HeldChildren, Request, Ring, level_last

FREE: HeldChildren = ()


def one_by_one(
    sizes: Sequence[int], served: Sequence[int], seed: int, requests: Sequence[Request]
) -> list[int]:
    """Return the children for partitions by the rule that Ring's docstring has."""
    rng = random.Random(seed)
    angle = rng.random()
    children = range(len(sizes))
    marks = [
        -int(-(angle * size - 0.5) // 1) + turns for size, turns in zip(sizes, served, strict=True)
    ]
    offsets: list[int] = []

    def turn(child: int) -> tuple[float, int]:
        lap = marks[child] // sizes[child]
        while len(offsets) <= lap:
            offsets.append(rng.randrange(len(sizes)))
        return (marks[child] + 0.5) / sizes[child], (child + offsets[lap]) % len(sizes)

    picks = []
    for count, held_before in requests:
        held = list(held_before)
        for _ in range(count):
            not_full = [child for child in children if held.count(child) < sizes[child]]
            fewest = min(map(held.count, not_full))
            child = min((c for c in not_full if held.count(c) == fewest), key=turn)
            marks[child] += 1
            held.append(child)
            picks.append(child)
    return picks


def random_requests(rng: random.Random, sizes: Sequence[int]) -> list[Request]:
    """Return requests of a few kinds, in an order that repeats or not."""
    kinds: list[Request] = []
    for _ in range(rng.randint(1, 4)):
        held = [child for child, size in enumerate(sizes) for _ in range(size)]
        inside = rng.sample(held, rng.randint(0, min(3, len(held) - 1)))
        count = rng.randint(1, min(4, len(held) - len(inside)))
        kinds.append((count, tuple(inside)))
    if rng.random() < 0.5:
        return kinds * rng.randint(1, 150)
    return rng.choices(kinds, k=rng.randint(1, 300))


def picks_of(ring: Ring, requests: Sequence[Request]) -> list[int]:
    distinct = list(dict.fromkeys(requests))
    picks: list[int] = ring.pick(distinct, np.array(list(map(distinct.index, requests)))).tolist()
    return picks


@pytest.mark.parametrize("seed", range(150))
def test_picks_follow_the_rule(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 6)] * rng.randint(1, 8)
    if seed % 2:
        sizes = [rng.randint(1, 6) for _ in sizes]
    if sum(sizes) == 1:
        sizes = [2]
    served = [rng.choice([0, 0, 1, 30]) for _ in sizes]
    requests = random_requests(rng, sizes)
    ring = Ring(sizes, served, random.Random(seed))
    assert picks_of(ring, requests) == one_by_one(sizes, served, seed, requests)


@pytest.mark.parametrize("sizes", [[4] * 6, [3, 1, 2], [1] * 7, [5]])
def test_turns_follow_the_rule(sizes: list[int]) -> None:
    for seed in range(20):
        served = [random.Random(seed).randint(0, 9) for _ in sizes]
        new: Request = (1, ())
        expected = one_by_one(sizes, served, seed, [new] * 100)
        for count in (0, 1, 5, 100):
            turns = Ring(sizes, served, random.Random(seed)).turns(count)
            assert turns.tolist() == expected[:count], (seed, count)


@pytest.mark.parametrize("sizes", [[90, 1, 2], [1] * 300])
def test_rings_that_are_not_picked_for_in_blocks(sizes: list[int]) -> None:
    """A large child that is always passed over, and more children than fit into a byte."""
    requests: list[Request] = [(1, (0,))] * 200
    ring = Ring(sizes, [0] * len(sizes), random.Random(1))
    assert picks_of(ring, requests) == one_by_one(sizes, [0] * len(sizes), 1, requests)


def ring_with_one_ahead(sizes: Sequence[int], turns: int) -> Ring:
    """Return a ring in which child 0 is ahead of child 1, by twice as many turns."""
    ring = Ring(sizes, [0] * len(sizes), random.Random(0))
    for _ in range(turns):
        ring.move_turn(1, 0)
    return ring


@pytest.mark.parametrize(
    ("turns", "expected"),
    [(0, [[0], [0], [0]]), (1, [[0], [0], [1]]), (2, [[0], [1], [1]]), (9, [[1], [1], [1]])],
)
def test_the_last_replicas_go_to_a_child_that_is_a_turn_behind(
    turns: int, expected: list[list[int]]
) -> None:
    picked = [[0], [0], [0]]
    level_last(ring_with_one_ahead([2, 2], turns), picked, [FREE] * 3)
    assert picked == expected


def test_a_replica_moves_only_if_its_partition_stays_spread() -> None:
    picked = [[0], [0], [0, 0], [0, 0, 0]]
    held: list[HeldChildren] = [(1,), (1,), FREE, (1, 1)]
    level_last(ring_with_one_ahead([4, 2], 9), picked, held)
    # The first two have a replica below child 1, the last has one on each of its two brokers.
    assert picked == [[0], [0], [0, 1], [0, 0, 0]]
