"""Layouts for groups that share topics, and the cache of layouts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from assignors import Member
from placement_core import TopicPartition
from rack_traffic.prices import PriceTable
from rack_traffic.what_if import scenarios
from rack_traffic.what_if.cases import GroupCase, PartitionCase, scenario_metrics
from rack_traffic.what_if.scenarios import (
    groups_sharing_topics,
    leader_layout,
    scenario_assignments,
)

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
    "an assignment by brokers": replace(CASE, assigned_by_brokers=True),
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
    scenarios._cached_leaders.cache_clear()


def computed_layouts() -> int:
    """Return the number of layouts since the cache was empty that were not in it."""
    return scenarios._cached_leaders.cache_info().misses


@pytest.mark.parametrize("name", DIFFERENT_GROUPS)
def test_a_different_group_is_computed(name: str) -> None:
    fresh = leader_layout([DIFFERENT_GROUPS[name]])
    scenarios._cached_leaders.cache_clear()
    leader_layout([CASE])
    assert leader_layout([DIFFERENT_GROUPS[name]]) == fresh
    assert computed_layouts() == 2


@pytest.mark.parametrize("name", EQUAL_GROUPS)
def test_an_equal_group_is_cached(name: str) -> None:
    fresh = leader_layout([EQUAL_GROUPS[name]])
    scenarios._cached_leaders.cache_clear()
    assert leader_layout([CASE]).racks == leader_layout([EQUAL_GROUPS[name]]).racks == fresh.racks
    assert computed_layouts() == 1


def test_large_layouts_are_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = leader_layout([CASE])
    monkeypatch.setattr(scenarios, "MAX_CACHED_PARTITIONS", 3)
    assert leader_layout([CASE]) == cached
    assert scenarios._cached_leaders.cache_info()[:2] == (0, 1)


def test_a_partition_without_a_leader_gets_no_rack() -> None:
    with_leaders = leader_layout([CASE]).racks
    layout = leader_layout([LEADERLESS])
    assert layout.racks == {**with_leaders, TopicPartition("t", 3): None}
    assert layout.moves == sum(rack == "b" for rack in layout.racks.values())


def group(name: str, topic: str, rack: str, size: int) -> GroupCase:
    """Return a group with one member that reads all 4 partitions, which are led in rack a."""
    owned = {topic: [0, 1, 2, 3]}
    return GroupCase(
        cluster="c",
        group=name,
        assignor="range",
        hours=1.0,
        members=(Member(f"{name}-m", frozenset({topic}), rack, owned=owned),),
        partitions={
            TopicPartition(topic, n): PartitionCase(0, (0, 1), (0, 1), size) for n in range(4)
        },
        racks={0: "a", 1: "b", 2: "c"},
    )


def test_groups_that_share_topics_are_laid_out_together() -> None:
    groups = [group("d", "u", "a", 1), group("g", "t", "a", 1), group("h", "t", "b", 9)]
    both = replace(group("x", "t", "c", 1), partitions=groups[0].partitions)
    names = [[case.group for case in each] for each in groups_sharing_topics([*groups, both])]
    assert names == [["d", "x"], ["g", "h"]]
    through = replace(both, partitions={**both.partitions, **groups[1].partitions})
    names = [[case.group for case in each] for each in groups_sharing_topics([*groups, through])]
    assert names == [["d", "g", "h", "x"]]


def test_savings_of_groups_that_share_topics_can_be_added() -> None:
    """The same leaders cannot be in the racks of both groups."""
    groups = [group("g", "t", "b", 100), group("h", "t", "c", 100)]
    layout = leader_layout(groups)
    totals = dict.fromkeys(("as_is", "rackward_after_leader_layout"), 0)
    moves = 0
    for case in groups:
        scenarios = scenario_assignments(case, layout)
        for each in scenarios:
            if each.scenario in totals:
                result = scenario_metrics(case, each, scenarios[0], PriceTable())
                totals[each.scenario] += result.crossing_bytes
                moves += result.leader_moves
    assert totals == {"as_is": 800, "rackward_after_leader_layout": 400}
    assert moves == layout.moves == 4


# Groups that brokers assign (KIP-848).


def test_leaders_go_to_the_owners_of_a_group_that_brokers_assign() -> None:
    """Each of two members owns the partitions that are led in the rack of the other."""
    leaders = (0, 0, 1, 1)
    case = replace(
        CASE,
        assignor="uniform",
        assigned_by_brokers=True,
        members=(
            replace(MEMBERS[0], owned={"t": [2, 3]}),
            replace(MEMBERS[1], owned={"t": [0, 1]}),
        ),
        partitions={
            TopicPartition("t", n): PartitionCase(leader, (0, 1), (0, 1), n + 1)
            for n, leader in enumerate(leaders)
        },
    )
    layout = leader_layout([case])
    assert (list(layout.racks.values()), layout.moves) == (["b", "b", "a", "a"], 4)
    scenarios = scenario_assignments(case, layout)
    assert [(each.scenario, each.assignor) for each in scenarios] == [
        ("as_is", "uniform"),
        ("leader_layout", "uniform"),
        ("follower_fetching", "uniform"),
    ]
    after = scenario_metrics(case, scenarios[1], scenarios[0], PriceTable())
    assert (after.off_rack_partitions, after.crossing_bytes, after.moves) == (0, 0, 0)
    assert after.leader_moves == 4


def test_shared_leaders_go_to_the_group_with_more_bytes() -> None:
    for small, large in ((1, 50), (50, 1)):
        classic, by_brokers = group("g", "t", "a", small), group("h", "t", "b", large)
        by_brokers = replace(by_brokers, assigned_by_brokers=True)
        layout = leader_layout([classic, by_brokers])
        # At most twice the mean of leaders, 4 / 3, may be on one broker of three.
        assert Counter(layout.racks.values())["b"] == (3 if large > small else 0)
