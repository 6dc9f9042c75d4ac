"""The minimum and maximum of replicas per rack, by the worked examples of their rule."""

from __future__ import annotations

import numpy as np
import pytest

from placement_core.rack_bounds import RackTree
from placement_core.racks import RackPath


def tree_of(sizes: dict[RackPath, int]) -> RackTree:
    return RackTree.of([rack for rack, size in sizes.items() for _ in range(size)])


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        (0, [(0, 0), (0, 0), (0, 0)]),
        (1, [(0, 1), (0, 1), (0, 1)]),
        (2, [(0, 1), (0, 1), (0, 1)]),
        (3, [(1, 1), (1, 1), (1, 1)]),
        (4, [(1, 1), (1, 2), (1, 2)]),
        (5, [(1, 1), (2, 2), (2, 2)]),
        (6, [(1, 1), (2, 2), (3, 3)]),
    ],
)
def test_bounds_of_racks(replicas: int, expected: list[tuple[int, int]]) -> None:
    lower, upper = tree_of({("a",): 1, ("b",): 2, ("c",): 3}).bounds(replicas)
    assert list(zip(lower.tolist(), upper.tolist(), strict=True)) == expected


def test_bounds_of_levels_are_nested() -> None:
    """Nodes: x, y, then x/1, x/2, y/1. Of three replicas, x or y has one."""
    tree = tree_of({("x", "1"): 2, ("x", "2"): 2, ("y", "1"): 2})
    assert tree.parent.tolist() == [-1, -1, 0, 0, 1]
    assert tree.sizes.tolist() == [4, 2, 2, 2, 2]
    lower, upper = tree.bounds(3)
    assert lower.tolist() == [1, 1, 0, 0, 1]
    assert upper.tolist() == [2, 2, 1, 1, 2]


def test_a_rack_with_fewer_levels_stands_beside_the_others() -> None:
    tree = RackTree.of([("x", "1"), ("x",), ("y", "1"), ("x",)])
    assert tree.levels == 2
    assert tree.rack_of.tolist() == [1, 0, 2, 0]
    assert tree.common_levels.tolist() == [[2, 1, 0], [1, 2, 0], [0, 0, 2]]


@pytest.mark.parametrize(
    ("counts", "replicas", "possible"),
    [
        ([0, 0, 0, 0, 0], 3, True),
        ([2, 1, 1, 1, 1], 3, True),
        # More than the bound of a rack, of a node, of all.
        ([2, 0, 2, 0, 0], 3, False),
        ([0, 2, 0, 0, 2], 3, True),
        ([0, 3, 0, 0, 3], 3, False),
        # y needs one, which is one too many beside those of x and y/1.
        ([2, 0, 1, 1, 0], 2, False),
        # Racks are within their bounds, but the node above is not.
        ([0, 0, 1, 1, 2], 3, False),
    ],
)
def test_replicas_that_can_be_extended_within_all_bounds(
    counts: list[int], replicas: int, possible: bool
) -> None:
    tree = tree_of({("x", "1"): 2, ("x", "2"): 2, ("y", "1"): 2})
    lower, upper = tree.bounds(3)
    [answer] = tree.can_extend(
        np.array([counts]), lower[None, :], upper[None, :], np.array([replicas])
    )
    assert bool(answer) == possible
