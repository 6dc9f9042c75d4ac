"""Layouts are remembered: for what is alike, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from assignors import Member
from placement_core import ClusterView, TopicPartition
from placement_core.leaders import LeaderLayout, Readers, plan_leaders
from rack_traffic.what_if import leader_layout as layout
from rack_traffic.what_if.inputs import GroupCase, PartitionCase
from rack_traffic.what_if.leader_layout import laid_out

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


OTHERS: dict[str, GroupCase] = {
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
ALIKE: dict[str, GroupCase] = {
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
def nothing_remembered() -> None:
    layout._kept.cache_clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many layouts were worked out so far."""
    calls: list[ClusterView] = []

    def counted(view: ClusterView, readers: Sequence[Readers]) -> LeaderLayout:
        calls.append(view)
        return plan_leaders(view, readers)

    monkeypatch.setattr(layout, "plan_leaders", counted)
    return lambda: len(calls)


@pytest.mark.parametrize("name", OTHERS)
def test_what_differs_is_worked_out_anew(name: str, asked: Callable[[], int]) -> None:
    fresh = laid_out(OTHERS[name])
    layout._kept.cache_clear()
    laid_out(CASE)
    assert laid_out(OTHERS[name]) == fresh
    assert asked() == 3


@pytest.mark.parametrize("name", ALIKE)
def test_what_is_alike_is_not(name: str, asked: Callable[[], int]) -> None:
    fresh = laid_out(ALIKE[name])
    layout._kept.cache_clear()
    assert laid_out(CASE) == laid_out(ALIKE[name]) == fresh
    assert asked() == 2


def test_large_layouts_are_not_kept(
    monkeypatch: pytest.MonkeyPatch, asked: Callable[[], int]
) -> None:
    monkeypatch.setattr(layout, "MOST_PARTITIONS", 3)
    assert laid_out(CASE) == laid_out(CASE)
    assert asked() == 2


def test_a_partition_without_a_leader_stays_without() -> None:
    with_leaders, _ = laid_out(CASE)
    racks, moves = laid_out(LEADERLESS)
    assert racks == {**with_leaders, TopicPartition("t", 3): None}
    assert moves == sum(rack == "b" for rack in racks.values())
