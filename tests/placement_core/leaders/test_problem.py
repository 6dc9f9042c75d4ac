"""What a rack's consumers can read, and the ranks of costs, in the search for leaders."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core.leaders import ConsumerDemand
from placement_core.leaders.problem import Quotas, RankScales

RACKS = (("a",), ("b",), ("c",))
counts = st.lists(st.integers(0, 4), min_size=3, max_size=3)


def most_local(consumers: list[int], leaders: list[int]) -> int:
    """Return the most partitions that balanced consumers can read in their racks, by trying all."""
    share, rest = divmod(sum(leaders), sum(consumers))
    return max(
        sum(
            min(count * share + more, led)
            for count, more, led in zip(consumers, extra, leaders, strict=True)
        )
        for extra in itertools.product(*(range(count + 1) for count in consumers))
        if sum(extra) == rest
    )


@given(counts, counts, counts)
def test_quotas_count_what_is_read_locally(
    consumers: list[int], leaders: list[int], others: list[int]
) -> None:
    """Whether leaders are chosen together or some are given makes no difference."""
    together = [led + other for led, other in zip(leaders, others, strict=True)]
    demand = ConsumerDemand(
        "g", frozenset("t"), {rack: count for (rack,), count in zip(RACKS, consumers, strict=True)}
    )
    quotas = Quotas.of(demand, RACKS, None, sum(together), 1)
    if not sum(consumers) or not sum(together):
        assert quotas is None
        return
    assert quotas is not None
    # No leader is in an unknown rack, and none in a rack without brokers.
    of_all, of_chosen, given_leaders = (
        np.array([*each, 0, 0]) for each in (together, leaders, others)
    )
    expected = most_local(consumers, together)
    assert quotas.local(of_all) == expected
    assert quotas.off_rack(of_all) == sum(together) - expected
    assert quotas.with_other_leaders(given_leaders).local(of_chosen) == expected


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
