"""Balanced blocks against OR-tools' convex flow, and against their own definition."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from ortools.graph.python import min_cost_flow

from placement_core.flow import Block, IntArray, balanced_blocks, connected_components

CHUNK = 500


def random_subscriptions(seed: int) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    classes, groups = int(rng.integers(1, 8)), int(rng.integers(1, 8))
    subscribed = rng.random((classes, groups)) < rng.uniform(0.1, 0.9)
    for row in subscribed:
        if not row.any():
            row[rng.integers(groups)] = True
    return rng.integers(0, 15, classes), rng.integers(1, 5, groups), subscribed


def minimum_squares(sizes: IntArray, members: IntArray, subscribed: NDArray[np.bool_]) -> int:
    """Return the minimum sum of squared loads: the k-th unit of a member costs 2k - 1."""
    solver = min_cost_flow.SimpleMinCostFlow()
    add = solver.add_arc_with_capacity_and_unit_cost
    classes, groups = subscribed.shape
    source, total = classes + groups, int(sizes.sum())
    for i, size in enumerate(sizes.tolist()):
        add(source, i, size, 0)
    for i, group in zip(*np.nonzero(subscribed), strict=True):
        add(int(i), classes + int(group), total, 0)
    for group, count in enumerate(members.tolist()):
        for unit in range(1, total + 1):
            add(classes + group, source + 1, count, 2 * unit - 1)
    solver.set_node_supply(source, total)
    solver.set_node_supply(source + 1, -total)
    assert solver.solve() == solver.OPTIMAL
    return int(solver.optimal_cost())


def squares(blocks: list[Block], sizes: IntArray, members: IntArray) -> int:
    total = 0
    for block in blocks:
        count, units = int(members[block.groups].sum()), int(sizes[block.classes].sum())
        assert block.level == -(-units // count)
        floor, rest = divmod(units, count)
        total += rest * (floor + 1) ** 2 + (count - rest) * floor**2
    return total


@pytest.mark.parametrize("first", range(0, 2_000, CHUNK))
def test_blocks_have_the_minimum_sum_of_squares(first: int) -> None:
    for seed in range(first, first + CHUNK):
        sizes, members, subscribed = random_subscriptions(seed)
        blocks = balanced_blocks(sizes, members, subscribed)
        assert squares(blocks, sizes, members) == minimum_squares(sizes, members, subscribed), seed


@pytest.mark.parametrize("seed", range(200))
def test_every_class_and_group_is_in_one_block(seed: int) -> None:
    sizes, members, subscribed = random_subscriptions(seed)
    blocks = balanced_blocks(sizes, members, subscribed)
    assert sorted(np.concatenate([b.groups for b in blocks])) == list(range(len(members)))
    filled = np.flatnonzero(sizes).tolist()
    assert sorted(np.concatenate([b.classes for b in blocks])) == filled
    for block in blocks:
        assert subscribed[np.ix_(block.classes, block.groups)].any(axis=1).all()


def test_nested_subscriptions_make_one_block_per_level() -> None:
    """Group g subscribes to the classes 0 to g."""
    sizes = np.array([90, 40, 10])
    subscribed = np.array([[True, True, True], [False, True, True], [False, False, True]])
    blocks = balanced_blocks(sizes, np.ones(3, np.int64), subscribed)
    assert [(b.classes.tolist(), b.level) for b in blocks] == [([0, 1, 2], 47)]
    blocks = balanced_blocks(sizes[::-1].copy(), np.ones(3, np.int64), subscribed)
    levels = {tuple(b.classes.tolist()): b.level for b in blocks}
    assert levels == {(0,): 10, (1,): 40, (2,): 90}


def components(linked: list[str], rows: list[int], columns: list[int]) -> list[list[list[int]]]:
    flags = np.array([[mark == "x" for mark in row] for row in linked])
    found = connected_components(np.array(rows, np.int64), np.array(columns, np.int64), flags)
    return [[one.tolist(), other.tolist()] for one, other in found]


def test_components_are_in_order_of_their_first_column() -> None:
    linked = ["x.x.", ".x..", "x...", "...."]
    assert components(linked, [0, 1, 2, 3], [0, 1, 2, 3]) == [
        [[0, 2], [0, 2]],
        [[1], [1]],
        [[], [3]],
    ]
    # Without column 0, rows 0 and 2 are apart, and row 2 is in no component.
    assert components(linked, [0, 1, 2], [1, 2]) == [[[1], [1]], [[0], [2]]]


def test_a_graph_in_which_all_are_joined_is_one_component() -> None:
    assert components(["xx", "xx"], [0, 1], [0, 1]) == [[[0, 1], [0, 1]]]
    assert components(["xx", "xx"], [0, 1], []) == []
    assert components(["xx", "xx"], [], [0, 1]) == [[[], [0]], [[], [1]]]
