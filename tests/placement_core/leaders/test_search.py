"""The leaders with which the search begins, which decide how much work large topics take."""

from __future__ import annotations

import numpy as np
import pytest

from placement_core.leaders import ConsumerDemand
from placement_core.leaders.problem import LeaderCosts, Quotas, RankScales
from placement_core.leaders.search import LeaderChoice, set_initial_leaders


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

    A group has three consumers in its rack, and one in the other.
    """
    choice = LeaderChoice.of(np.tile(np.arange(4), (8, 1)), np.zeros(8, np.int64), 4)
    demand = ConsumerDemand("g", frozenset("t"), {"a": 3, "b": 1})
    quotas = Quotas.of(demand, [("a",), ("b",)], None, 8, 1)
    assert quotas is not None
    scales = RankScales.of(4, 8 + max(others), changes_first=changes_first)
    costs = LeaderCosts(np.array([0, 0, 1, 1]), np.array(others), scales, 4)
    set_initial_leaders(choice, costs, [quotas])
    assert choice.loads.tolist() == loads
