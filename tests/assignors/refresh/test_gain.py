"""What a rebalance would gain, against a count apart from the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.refresh import NO_GAIN, Gain, crossing_gain
from tests.assignors.story import fed_back, move_leaders, random_leaders

STICKY = LeaderRackAwareCooperativeSticky().assign
RACKS = ("a", "b", "c")


def members(racks: Mapping[str, str | None], topics: Sequence[str] = ("t",)) -> list[Member]:
    return [Member(id_, frozenset(topics), rack) for id_, rack in racks.items()]


def owning(of: Mapping[str, tuple[str | None, Sequence[int]]]) -> list[Member]:
    return [
        Member(id_, frozenset("t"), rack, owned={"t": list(owned)}, generation=1)
        for id_, (rack, owned) in of.items()
    ]


def off_rack(group: Sequence[Member], leaders: Mapping[str, Sequence[str | None]]) -> int:
    return sum(
        leaders[topic][partition] not in (None, member.rack)
        for member in group
        for topic, partitions in member.owned.items()
        for partition in partitions
    )


@given(st.integers(0, 10**6), st.sampled_from([STICKY, LeaderRackAwareRange().assign]))
def test_it_is_what_the_new_plan_reads_less_from_afar(seed: int, assign: object) -> None:
    rng = Random(seed)
    assert callable(assign)
    leaders = random_leaders(rng, 3, 8, RACKS)
    group = members({f"m{n}": rng.choice([*RACKS, None]) for n in range(5)}, list(leaders))
    before = fed_back(group, assign(group, leaders, None), 1)
    moved = move_leaders(rng, leaders, rng.choice([0.0, 0.1, 0.5]), RACKS)
    after = fed_back(group, assign(before, moved, None), 2)
    now, then = off_rack(before, moved), off_rack(after, moved)
    gain = crossing_gain(assign, before, moved)
    assert (gain.off_rack, gain.reachable) == (now, then)
    assert gain.worth == pytest.approx(max(now - then, 0))
    # A plan made a moment ago has nothing to gain.
    assert crossing_gain(assign, after, moved).worth == 0


def test_with_weights_it_is_counted_in_partitions_of_average_traffic() -> None:
    group = owning({"a1": ("a", [0, 1]), "b1": ("b", [2, 3])})
    leaders = {"t": ["b", "a", "a", "b"]}
    assert crossing_gain(STICKY, group, leaders) == Gain(2.0, 2, 0)
    # 0 and 2 change places: 110 of 220 steps no longer cross, of four partitions.
    heavy = crossing_gain(STICKY, group, leaders, {"t": [100, 100, 10, 10]})
    assert heavy.worth == pytest.approx(2.0)
    assert (heavy.off_rack, heavy.reachable) == (2, 0)
    light = crossing_gain(STICKY, group, leaders, {"t": [10, 100, 10, 100]})
    assert light.worth == pytest.approx(4 * 20 / 220)


def test_with_levels_it_is_that_of_the_level_that_gains_most() -> None:
    # Read across the data centres: 0. Across rooms: all.
    group = owning({"x": ("/d1/r1", [0, 1]), "y": ("/d1/r2", [2, 3])})
    leaders = {"t": ["/d1/r2", "/d1/r2", "/d1/r1", "/d1/r1"]}
    assert crossing_gain(STICKY, group, leaders) == Gain(4.0, 4, 0)


def test_a_narrow_level_may_lose_where_a_wide_one_gains() -> None:
    # z is in the other data centre, and must take one of what is led in this one or that one.
    group = owning({"x": ("/d1/r1", [0]), "y": ("/d1/r2", [1]), "z": ("/d2/r1", [2])})
    leaders = {"t": ["/d1/r1", "/d2/r1", "/d1/r1"]}
    # Now 1 and 2 cross data centres. Best: none does, and one of 0 and 2 crosses rooms.
    assert crossing_gain(STICKY, group, leaders) == Gain(2.0, 2, 1)


def test_what_loses_at_a_wide_level_is_no_gain() -> None:
    def worse(group: Sequence[Member], *_: object) -> object:
        return STICKY(group, {"t": ["/d2/r1", "/d1/r1"]}, None)

    group = owning({"x": ("/d1/r1", [0]), "y": ("/d2/r1", [1])})
    gain = crossing_gain(worse, group, {"t": ["/d1/r1", "/d2/r1"]})  # type: ignore[arg-type]
    assert gain == Gain(0.0, 0, 2)


def test_what_nobody_owns_counts_for_nothing() -> None:
    group = owning({"a1": ("a", [0]), "b1": ("b", [])})
    assert crossing_gain(STICKY, group, {"t": ["a", "b", "b"]}) == Gain(0.0, 0, 0)
    assert crossing_gain(STICKY, members({"a1": "a"}), {"t": ["b"]}) == NO_GAIN
    assert crossing_gain(STICKY, members({"a1": "a"}), {}) == NO_GAIN
    # Of partitions that are gone nothing is said either.
    assert crossing_gain(STICKY, owning({"a1": ("a", [0, 7])}), {"t": ["a"]}) == NO_GAIN
