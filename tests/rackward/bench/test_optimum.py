"""The formula for the optimum, compared with all assignments."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from rackward.bench.figures import min_off_rack

RACKS = st.sampled_from([None, "a", "b", "c"])


def minimum_of_all_assignments(members: list[str | None], leaders: list[str | None]) -> int:
    minimum = len(leaders)
    for owners in product(range(len(members)), repeat=len(leaders)):
        loads = Counter(dict.fromkeys(range(len(members)), 0))
        loads.update(owners)
        if max(loads.values()) - min(loads.values()) <= 1:
            off_rack = sum(
                rack is not None and members[owner] != rack
                for owner, rack in zip(owners, leaders, strict=True)
            )
            minimum = min(minimum, off_rack)
    return minimum


@settings(max_examples=300, deadline=None)
@given(st.lists(RACKS, min_size=1, max_size=4), st.lists(RACKS, max_size=6))
def test_equals_the_minimum_of_all_assignments(
    members: list[str | None], leaders: list[str | None]
) -> None:
    assert min_off_rack(members, leaders) == minimum_of_all_assignments(members, leaders)


@settings(max_examples=200, deadline=None)
@given(st.lists(RACKS, min_size=1, max_size=12), st.lists(RACKS, min_size=1, max_size=80))
def test_both_assignors_reach_the_optimum(
    members: list[str | None], leaders: list[str | None]
) -> None:
    group = [
        Member(id=f"m-{index:02}", topics=frozenset({"t"}), rack=rack)
        for index, rack in enumerate(members)
    ]
    for assignor in (LeaderRackAwareCooperativeSticky(), LeaderRackAwareRange()):
        plan = assignor.assign(group, {"t": leaders})
        assert plan.off_rack == min_off_rack(members, leaders)


def test_a_group_without_members_is_an_error() -> None:
    with pytest.raises(ValueError, match="without members"):
        min_off_rack([], ["a"])
