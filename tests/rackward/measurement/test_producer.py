"""The order in which a producer writes to partitions."""

from __future__ import annotations

from collections import Counter

import pytest

from rackward.measurement.producer import weighted_cycle


def test_equal_weights_are_a_round() -> None:
    assert weighted_cycle([1, 1, 1]) == [0, 1, 2]


def test_each_partition_has_its_weight_and_its_turns_are_spread() -> None:
    cycle = weighted_cycle([6, 2, 1])
    assert Counter(cycle) == {0: 6, 1: 2, 2: 1}
    assert cycle == [0, 0, 1, 0, 2, 0, 0, 1, 0]


@pytest.mark.parametrize("weights", [[], [0, 1], [-1]])
def test_a_partition_without_traffic_is_an_error(weights: list[int]) -> None:
    with pytest.raises(ValueError, match="each must be at least 1"):
        weighted_cycle(weights)
