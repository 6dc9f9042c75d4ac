from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioners.choice import PartitionChooser, valid_max_share
from placement_core import InvalidOptionError, parse_rack
from placement_core.racks import nearest_groups

RACKS = st.sampled_from(["a", "b", "c", "", None, "/d/1", "/d/2", "/e/1", "/d", "/"])
LEADERS = st.dictionaries(st.integers(0, 60), RACKS, min_size=1, max_size=40)
SHARES = st.floats(1, 50)


def draw(
    leader_racks: Mapping[int, str | None], rack: str = "a", max_share: float = 3, n: int = 1200
) -> Counter[int]:
    chooser = PartitionChooser("t", rack, max_share, random.Random(1))
    chooser.update(leader_racks)
    return Counter(chooser.candidates()[0] for _ in range(n))


@given(LEADERS, SHARES)
def test_shares_sum_to_one_and_stay_below_the_bound(
    leaders: dict[int, str | None], max_share: float
) -> None:
    groups = nearest_groups(("a",), leaders, max_share)
    assert sum(share for _, share in groups) == pytest.approx(1)
    for partitions, share in groups:
        racks = {parse_rack(rack) for rack in leaders.values()} | {("a",)}
        maximum = max_share * len(racks - {None}) / len(leaders)
        assert 0 < share / len(partitions) <= maximum + 1e-9


@given(LEADERS, SHARES)
def test_batches_follow_the_shares(leaders: dict[int, str | None], max_share: float) -> None:
    counts = draw(leaders, max_share=max_share, n=600)
    for partitions, share in nearest_groups(("a",), leaders, max_share):
        assert abs(sum(counts[p] for p in partitions) - 600 * share) <= 2
        of_group = [counts[p] for p in partitions]
        assert max(of_group) - min(of_group) <= 1


def test_only_the_own_rack_is_written_where_it_leads_a_third() -> None:
    leaders = {p: "abc"[p % 3] for p in range(12)}
    assert draw(leaders) == dict.fromkeys((0, 3, 6, 9), 300)


def test_what_a_small_rack_cannot_take_spills_over() -> None:
    leaders = {p: "a" if p < 2 else "bc"[p % 2] for p in range(36)}
    counts = draw(leaders, n=2040)
    assert counts[0] == counts[1] == 510
    assert all(counts[p] == 30 for p in range(2, 36))


def test_a_rack_that_has_lost_a_broker_is_still_written_alone() -> None:
    assert set(draw({p: "a" if p < 2 else "bc"[p % 2] for p in range(12)})) == {0, 1}


def test_racks_with_a_share_rounded_down_are_written_alone() -> None:
    assert set(draw({p: "abcc"[p % 4] for p in range(10)}, max_share=1.2)) == {0, 4, 8}


def test_max_share_of_one_splits_by_the_leaders_of_racks() -> None:
    counts = draw({p: "a" if p < 2 else "b" for p in range(12)}, max_share=1)
    assert counts[0] == counts[1] == 200
    assert all(counts[p] == 80 for p in range(2, 12))


def test_nearest_levels_come_first() -> None:
    leaders = {0: "/d/2", 1: "/e/1", 2: "/d/1", 3: None, 4: "/d"} | dict.fromkeys(
        range(5, 25), "/e/1"
    )
    groups = nearest_groups(("d", "1"), leaders, 1)
    assert [partitions for partitions, _ in groups] == [[2], [0, 4], [1, 3, *range(5, 25)]]


def test_all_partitions_are_written_until_the_rack_leads_again() -> None:
    chooser = PartitionChooser("t", "a", 3, random.Random(1))
    for leaders, expected in (
        ({0: "a", 1: "b", 2: "c"}, {0}),
        ({1: "b", 2: "c"}, {1, 2}),
        ({0: "c", 1: "b", 2: None}, {0, 1, 2}),
        ({0: "c", 1: "a", 2: "b"}, {1}),
        ({0: "a", 1: "a", 2: "b", 3: "c"}, {0, 1}),
    ):
        chooser.update(leaders)
        assert {chooser.candidates()[0] for _ in range(30)} == expected


def test_no_writable_partition_gives_no_candidates() -> None:
    chooser = PartitionChooser("t", "a", 3)
    assert chooser.candidates() == ()
    chooser.update({0: "a"})
    assert chooser.candidates() == [0]
    chooser.update({})
    assert chooser.candidates() == ()


@pytest.mark.parametrize("value", [0.9, -1, float("nan"), float("inf"), "x", None])
def test_invalid_max_share_is_refused(value: object) -> None:
    with pytest.raises(InvalidOptionError, match="max_share"):
        valid_max_share(value)
