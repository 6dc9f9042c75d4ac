"""The cache of layouts: equal groups share a layout, and different groups do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from assignors import Member
from placement_core import ClusterView, TopicPartition
from placement_core.leaders import ConsumerDemand, LeaderLayout, plan_leaders
from rack_traffic.what_if import leader_layout as layout
from rack_traffic.what_if.inputs import GroupCase, PartitionCase
from rack_traffic.what_if.leader_layout import leader_layout

TOPICS = frozenset({"t"})
MEMBERS = (Member("m", TOPICS, "a"), Member("n", TOPICS, "b"))
CASE = GroupCase(
    cluster="c",
    group="g",
    assignor="range",
    hours=1.0,
    members=MEMBERS,
    partitions={TopicPartition("t", n): PartitionCase(0, (0, 1), (0, 1), n) for n in range(4)},
    racks={0: "a", 1: "b", 2: "c"},
)


def with_partition(case: GroupCase, number: int, each: PartitionCase) -> GroupCase:
    return replace(case, partitions={**case.partitions, TopicPartition("t", number): each})


DIFFERENT_GROUPS: dict[str, GroupCase] = {
    "a leader": with_partition(CASE, 3, PartitionCase(1, (0, 1), (0, 1))),
    "replicas": with_partition(CASE, 3, PartitionCase(0, (0, 2), (0, 2))),
    "a partition more": with_partition(CASE, 4, PartitionCase(0, (0, 1), (0, 1))),
    "a broker's rack": replace(CASE, racks={0: "a", 1: "c", 2: "b"}),
    "a member's rack": replace(CASE, members=(MEMBERS[0], replace(MEMBERS[1], rack="a"))),
    "a member's unknown rack": replace(CASE, members=(MEMBERS[0], replace(MEMBERS[1], rack=None))),
    "a member more": replace(CASE, members=(*MEMBERS, Member("o", TOPICS, "b"))),
    "a subscription": replace(
        CASE, members=(MEMBERS[0], replace(MEMBERS[1], topics=frozenset({"u"})))
    ),
}
EQUAL_GROUPS: dict[str, GroupCase] = {
    "another group": replace(CASE, group="h", cluster="d"),
    "another hour": replace(
        CASE,
        hours=2.0,
        partitions={p: replace(each, bytes=7, isr=(0,)) for p, each in CASE.partitions.items()},
    ),
    "other owners": replace(
        CASE, members=(replace(MEMBERS[1], owned={"t": [0, 1, 2, 3]}), MEMBERS[0])
    ),
    "other names": replace(CASE, members=tuple(replace(m, id=f"x{m.id}") for m in MEMBERS)),
}

LEADERLESS = with_partition(CASE, 3, PartitionCase(None, (0, 1), ()))


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    layout._cached_leaders.cache_clear()


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that returns the number of computed layouts."""
    calls: list[ClusterView] = []

    def counting(view: ClusterView, readers: Sequence[ConsumerDemand]) -> LeaderLayout:
        calls.append(view)
        return plan_leaders(view, readers)

    monkeypatch.setattr(layout, "plan_leaders", counting)
    return lambda: len(calls)


@pytest.mark.parametrize("name", DIFFERENT_GROUPS)
def test_a_different_group_is_computed(name: str, computed: Callable[[], int]) -> None:
    fresh = leader_layout(DIFFERENT_GROUPS[name])
    layout._cached_leaders.cache_clear()
    leader_layout(CASE)
    assert leader_layout(DIFFERENT_GROUPS[name]) == fresh
    assert computed() == 3


@pytest.mark.parametrize("name", EQUAL_GROUPS)
def test_an_equal_group_is_cached(name: str, computed: Callable[[], int]) -> None:
    fresh = leader_layout(EQUAL_GROUPS[name])
    layout._cached_leaders.cache_clear()
    assert leader_layout(CASE) == leader_layout(EQUAL_GROUPS[name]) == fresh
    assert computed() == 2


def test_large_layouts_are_not_cached(
    monkeypatch: pytest.MonkeyPatch, computed: Callable[[], int]
) -> None:
    monkeypatch.setattr(layout, "MAX_CACHED_PARTITIONS", 3)
    assert leader_layout(CASE) == leader_layout(CASE)
    assert computed() == 2


def test_a_partition_without_a_leader_gets_no_rack() -> None:
    with_leaders, _ = leader_layout(CASE)
    racks, moves = leader_layout(LEADERLESS)
    assert racks == {**with_leaders, TopicPartition("t", 3): None}
    assert moves == sum(rack == "b" for rack in racks.values())
