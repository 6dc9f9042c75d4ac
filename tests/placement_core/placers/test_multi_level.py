"""Placement over racks with levels: spread at every node, even over brokers, any tree."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placement_core import PlacementSpec
from placement_core.placers import (
    MissingRacksError,
    MultiLevelPlacer,
    PlacementError,
    SimplePlacer,
)
from placement_core.racks import RackPath
from tests.support.placement import (
    check_form,
    check_leaders,
    check_present_first,
    check_replicas,
    check_tree,
    cluster,
    counts,
    rack_trees,
)

SEED_4 = ((3, 0, 5), (2, 4, 1), (4, 0, 5))
REGULAR = (([2, 2],), ([1, 1], [1, 1]), ([2, 2], [2, 2]), ([1, 1],) * 3, ([2, 2],) * 3, ([3], [3]))
seeds = st.integers(0, 1 << 32)


def tree_of(*shape: list[int]) -> dict[int, str]:
    """Return racks by broker id. Each argument is a data centre: the sizes of its racks."""
    racks = [
        f"/dc{dc}/r{rack}"
        for dc, sizes in enumerate(shape)
        for rack, size in enumerate(sizes)
        for _ in range(size)
    ]
    return dict(enumerate(racks))


@given(rack_trees(), st.integers(1, 9), st.integers(1, 40), seeds)
def test_any_tree(racks: dict[int, str], replicas: int, partitions: int, seed: int) -> None:
    replicas = min(replicas, len(racks))
    placed = MultiLevelPlacer(seed=seed).place(PlacementSpec(partitions, replicas), cluster(racks))
    check_form(placed, partitions, replicas, racks)
    check_tree(placed, racks)
    check_leaders(placed, racks, slack=int(partitions % len(racks) > 0) * 2)
    for shorter in range(1, replicas):
        # Every prefix of a list is spread as well.
        check_tree(tuple(row[:shorter] for row in placed), racks)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.integers(1, 6),
    st.integers(1, 50),
    seeds,
)
def test_even_trees_are_even(shape: list[int], replicas: int, partitions: int, seed: int) -> None:
    """``shape`` has the number of children of each node by level; the last level is brokers."""
    paths: list[RackPath] = [()]
    for width in shape:
        paths = [(*path, f"n{child}") for path in paths for child in range(width)]
    racks = dict(enumerate("/" + "/".join(path[:-1]) if path[1:] else "x" for path in paths))
    replicas = min(replicas, len(racks))
    placed = MultiLevelPlacer(seed=seed).place(PlacementSpec(partitions, replicas), cluster(racks))
    check_tree(placed, racks)
    check_leaders(placed, racks, slack=int(partitions % len(racks) > 0))
    check_replicas(placed, racks, slack=int(partitions * replicas % len(racks) > 0))


@pytest.mark.parametrize(
    ("racks", "partitions", "replicas", "expected"),
    [
        # A room with one broker.
        (tree_of([9, 1], [5, 5], [5, 5]), 120, 3, [12] * 30),
        # A data centre that every partition uses.
        (tree_of([1], [5]), 60, 2, [60] + [12] * 5),
        # More replicas than a data centre has brokers, and as many as there are brokers.
        (tree_of([1], [2], [8]), 88, 6, [88] * 3 + [33] * 8),
        (tree_of([1], [2, 1]), 8, 4, [8] * 4),
        # Racks with missing levels.
        ({0: "/d", 1: "/d/r", 2: "/d/r", 3: "e", 4: "/e"}, 10, 3, None),
    ],
)
def test_brokers_of_uneven_trees_get_equal_shares(
    racks: dict[int, str], partitions: int, replicas: int, expected: list[int] | None
) -> None:
    for seed in range(4):
        spec = PlacementSpec(partitions, replicas)
        placed = MultiLevelPlacer(seed=seed).place(spec, cluster(racks))
        check_form(placed, partitions, replicas, racks)
        check_tree(placed, racks)
        check_leaders(placed, racks)
        on_brokers = counts(racks, chain.from_iterable(placed))
        assert expected is None or list(on_brokers.values()) == expected


@given(rack_trees(), st.integers(1, 6), st.integers(1, 6), st.integers(1, 24), seeds)
@example({0: "/a", 1: "/a/a", 2: "/b", 3: "/b", 4: "/a/a", 5: "/b"}, 1, 5, 6, 0)
def test_replicas_are_added_to_planned_lists(
    racks: dict[int, str], first: int, second: int, partitions: int, seed: int
) -> None:
    low, high = sorted((min(first, len(racks)), min(second, len(racks))))
    view = cluster(racks)
    present = MultiLevelPlacer(seed=seed).place(PlacementSpec(partitions, low), view)
    spec = PlacementSpec(partitions, high, present=present)
    placed = MultiLevelPlacer(seed=seed + 1).place(spec, view)
    check_form(placed, partitions, high, racks)
    check_present_first(placed, present)
    check_tree(placed, racks)


@given(st.sampled_from(REGULAR), st.integers(1, 3), st.integers(1, 3), st.integers(1, 6), seeds)
def test_added_replicas_leave_regular_trees_even(
    shape: tuple[list[int], ...], first: int, more: int, turns: int, seed: int
) -> None:
    racks = tree_of(*shape)
    first = min(first, len(racks) - 1)
    more = min(more, len(racks) - first)
    partitions = turns * len(racks)
    placer = MultiLevelPlacer(seed=seed)
    present = placer.place(PlacementSpec(partitions, first, topic="t"), cluster(racks))
    spec = PlacementSpec(partitions, first + more, topic="t", present=present)
    placed = placer.place(spec, cluster(racks, t=present))
    check_present_first(placed, present)
    check_tree(placed, racks)
    assert set(Counter(chain.from_iterable(placed)).values()) == {turns * (first + more)}


@given(rack_trees(), st.integers(1, 6), st.data())
def test_replicas_are_added_to_any_lists(
    racks: dict[int, str], replicas: int, data: st.DataObject
) -> None:
    """Present replicas may be on dead brokers, and all in one rack."""
    chosen = data.draw(st.sets(st.sampled_from(range(len(racks))), min_size=1))
    replicas = min(replicas, len(chosen))
    ids = st.sampled_from([*sorted(chosen), 100])
    lists = st.lists(ids, unique=True, max_size=replicas).map(tuple)
    present = tuple(data.draw(st.lists(lists, min_size=1, max_size=9)))
    spec = PlacementSpec(len(present) + 1, replicas, present=present)
    placed = MultiLevelPlacer(seed=1).place(spec, cluster(racks), broker_ids=chosen)
    check_form(placed, len(present) + 1, replicas, [*racks, 100])
    check_present_first(placed, present)
    tops: dict[str, set[int]] = {}
    for broker in chosen:
        tops.setdefault(top(racks[broker]), set()).add(broker)
    for row, before in zip(placed, (*present, ()), strict=True):
        assert chosen.issuperset(row[len(before) :])
        # At the widest level, replicas go to the child with the fewest that has a free broker.
        per_top = Counter(top(racks[broker]) for broker in row if broker in racks)
        for broker in row[len(before) :]:
            for name, brokers in tops.items():
                if brokers.difference(row):
                    assert per_top[top(racks[broker])] <= per_top[name] + 1, (row, before)


def test_brokers_with_replicas_must_be_among_those_to_use() -> None:
    spec = PlacementSpec(2, 2, present=((1,), (0,)))
    view = cluster({0: "/d/r", 1: "/d/r", 2: "/e/r"})
    with pytest.raises(PlacementError, match="partition 1 has a replica on broker 0, "):
        MultiLevelPlacer(seed=1).place(spec, view, broker_ids=[1, 2])


def top(rack: str) -> str:
    return rack.split("/")[1]


def test_added_partitions_continue_the_rings() -> None:
    racks = tree_of([2, 2], [2, 2], [2, 2])
    for seed in range(5):
        before = MultiLevelPlacer(seed=seed).place(PlacementSpec(7, 3, topic="t"), cluster(racks))
        spec = PlacementSpec(5, 3, topic="t", first_partition=7)
        added = MultiLevelPlacer(seed=seed + 9).place(spec, cluster(racks, t=before))
        check_tree(added, racks)
        check_leaders(before + added, racks)
        check_replicas(before + added, racks)


def test_leaders_and_first_followers_form_many_pairs() -> None:
    """120 partitions use most of the 96 pairs of leader and first follower; 1200 use all."""
    racks = tree_of([2, 2], [2, 2], [2, 2])
    placed = MultiLevelPlacer(seed=3).place(PlacementSpec(1200, 3), cluster(racks))
    assert len({row[:2] for row in placed[:120]}) > 60
    assert len({row[:2] for row in placed}) == 96


def test_the_same_seed_gives_the_same_layout() -> None:
    view = cluster(tree_of([2, 1], [3]))
    spec = PlacementSpec(3, 3, topic="orders")
    placer = MultiLevelPlacer(seed=4)
    assert placer.place(spec, view) == placer.place(spec, view) == SEED_4
    starts = {MultiLevelPlacer(seed=seed).place(PlacementSpec(1, 1), view)[0] for seed in range(60)}
    assert len(starts) == 6
    assert MultiLevelPlacer().seed != MultiLevelPlacer().seed


def test_missing_racks() -> None:
    view = cluster({0: "/d/r", 1: None, 2: "/", 3: "/e/r"})
    placer = MultiLevelPlacer(seed=1)
    with pytest.raises(MissingRacksError, match="brokers 1, 2 without a rack"):
        placer.place(PlacementSpec(4, 2), view)
    for spec, seen in (
        (PlacementSpec(4, 2, ignore_racks=True), view),
        (PlacementSpec(4, 2), cluster([None] * 4)),
    ):
        assert placer.place(spec, seen) == SimplePlacer(seed=1).place(spec, seen)
