"""The ranks of costs, and the leaders with which the search for the best ones begins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core.leaders.problem import LeaderCosts, Quotas, RankScales
from placement_core.leaders.search import LeaderChoice, set_initial_leaders


@pytest.mark.parametrize("changes_first", [True, False])
@given(brokers=st.integers(1, 10_000), max_leaders=st.integers(0, 1_000_000))
def test_no_cycle_outweighs_a_higher_rank(
    changes_first: bool, brokers: int, max_leaders: int
) -> None:
    """A cycle changes one leader per broker and rack; a square then changes by its slope."""
    scales = RankScales.of(brokers, max_leaders, changes_first=changes_first)
    changes = scales.change * (brokers + 1)
    squares = scales.square * (brokers + 1) * (2 * max_leaders + 2)
    assert scales.off_rack > changes + squares
    if changes_first:
        assert scales.change > squares
    else:
        assert scales.square > changes


@pytest.mark.parametrize(
    ("changes_first", "others", "loads"),
    [
        (False, (0, 0, 0, 0), [3, 3, 1, 1]),
        (False, (2, 0, 0, 2), [2, 4, 2, 0]),
        # If a change matters more, each goes to the first replica in its rack.
        (True, (0, 0, 0, 0), [6, 0, 2, 0]),
    ],
)
def test_initial_leaders_are_leveled_within_racks(
    changes_first: bool, others: tuple[int, ...], loads: list[int]
) -> None:
    """Broker 0 leads eight partitions, with replicas on all four brokers of two racks.

    A group has three consumers in its rack, and one in the other. Only the speed depends on it.
    """
    choice = LeaderChoice.of(np.tile(np.arange(4), (8, 1)), np.zeros(8, np.int64), 4)
    quotas = Quotas.of(np.array([3, 1, 0, 0]), 8, "g", 1.0, 1)
    scales = RankScales.of(4, 8 + max(others), changes_first=changes_first)
    costs = LeaderCosts(np.array([0, 0, 1, 1]), np.array(others), scales, 4)
    set_initial_leaders(choice, costs, [quotas])
    assert choice.loads.tolist() == loads
