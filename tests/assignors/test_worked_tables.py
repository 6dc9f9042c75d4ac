"""Small groups with known plans: those of KIP-881, and Apache's Range for groups without racks.

In KIP-881, members are in racks a, b and c, and the leader of partition i of a topic is in rack
(i + partitions of the topics before) mod 3.
"""

from __future__ import annotations

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from tests.support.assignments import check_range, check_sticky
from tests.support.random_groups import Group

ALL = ("t0", "t1", "t2")
FIRST_AND_THIRD = ("t0", "t2")


def kip_881(*counts: int, third: tuple[str, ...] = ALL, racks: str = "abc") -> Group:
    """Return three members, the third subscribed to ``third``, and leaders in a, b, c in turn."""
    leader_racks: dict[str, list[str | None]] = {}
    placed = 0
    for topic, count in zip(ALL, counts, strict=True):
        leader_racks[topic] = ["abc"[(placed + i) % 3] for i in range(count)]
        placed += count
    subscriptions = (ALL, ALL, third)
    members = tuple(
        Member(f"m{i}", frozenset(subscriptions[i]), rack=rack) for i, rack in enumerate(racks)
    )
    return Group(members, leader_racks)


@pytest.mark.parametrize(
    ("group", "by_range", "by_sticky"),
    [
        pytest.param(kip_881(6, 7, 2), 0, 0, id="all subscribe to all"),
        pytest.param(kip_881(6, 7, 2, third=FIRST_AND_THIRD), 2, 4, id="one topic of two"),
        pytest.param(kip_881(5, 5, 5), 10, 0, id="co-partitioned"),
        pytest.param(
            kip_881(5, 5, 5, third=FIRST_AND_THIRD), 9, 4, id="co-partitioned, one topic of two"
        ),
    ],
)
def test_at_most_as_many_off_rack_as_kip_881_expects(
    group: Group, by_range: int, by_sticky: int
) -> None:
    assert check_range(group).off_rack <= by_range
    assert check_sticky(group).off_rack <= by_sticky


@pytest.mark.parametrize("rackless", ["members", "leaders"])
def test_range_without_racks_equals_apaches_range(rackless: str) -> None:
    group = kip_881(6, 7, 2)
    members = [Member(m.id, m.topics) if rackless == "members" else m for m in group.members]
    leaders = {
        topic: [None if rackless == "leaders" else rack for rack in row]
        for topic, row in group.leader_racks.items()
    }
    plan = LeaderRackAwareRange().assign(members, leaders)
    assert plan.partitions == {
        "m0": {"t0": [0, 1], "t1": [0, 1, 2], "t2": [0]},
        "m1": {"t0": [2, 3], "t1": [3, 4], "t2": [1]},
        "m2": {"t0": [4, 5], "t1": [5, 6]},
    }


def test_static_members_come_first_by_instance_id() -> None:
    members = [
        Member("m0", frozenset({"t0"})),
        Member("m1", frozenset({"t0"}), instance_id="i-b"),
        Member("m2", frozenset({"t0"}), instance_id="i-a"),
        Member("a9", frozenset({"t0"})),
    ]
    plan = LeaderRackAwareRange().assign(members, {"t0": [None] * 6})
    assert plan.partitions == {
        "m2": {"t0": [0, 1]},
        "m1": {"t0": [2, 3]},
        "a9": {"t0": [4]},
        "m0": {"t0": [5]},
    }


def test_a_restarted_static_member_keeps_its_range() -> None:
    def run(id_of_second: str) -> list[int]:
        members = [
            Member("x", frozenset({"t0"}), instance_id="one"),
            Member(id_of_second, frozenset({"t0"}), instance_id="two"),
        ]
        return (
            LeaderRackAwareRange()
            .assign(members, {"t0": [None] * 5})
            .partitions[id_of_second]["t0"]
        )

    assert run("a-before") == run("z-after") == [3, 4]


def test_topics_are_assigned_together_or_separately() -> None:
    # Index 0 is local to a in one topic and to b in the other.
    members = [Member(rack, frozenset({"t0", "t1"}), rack=rack) for rack in "ab"]
    leaders = {"t0": ["a", "b"], "t1": ["b", "a"]}
    together = LeaderRackAwareRange().assign(members, leaders)
    assert together.off_rack == 2
    assert together.partitions["a"]["t0"] == together.partitions["a"]["t1"]
    separate = LeaderRackAwareRange(co_partitioned=False).assign(members, leaders)
    assert separate.off_rack == 0
    assert separate.partitions["a"] == {"t0": [0], "t1": [1]}


def test_range_balances_totals_among_equally_local_plans() -> None:
    # Three indexes over two members, twice: the second topic's extra goes to the other member.
    members = [
        Member("a1", frozenset({"t0", "t1"}), "a"),
        Member("a2", frozenset({"t0", "t1"}), "a"),
    ]
    leaders = {"t0": ["a", "a", "b"], "t1": ["a", "b", "b", "b", "a"]}
    plan = check_range(Group(tuple(members), leaders))
    assert plan.loads == {"a1": 4, "a2": 4}


def test_balance_precedes_locality_and_that_stickiness() -> None:
    owned = {"t0": [0, 1, 2, 3]}
    members = (
        Member("a", frozenset({"t0"}), rack="a", owned=owned, generation=1),
        Member("b", frozenset({"t0"}), rack="b"),
    )
    plan = check_sticky(Group(members, {"t0": ["a", "a", "a", "b"]}))
    assert plan.loads == {"a": 2, "b": 2}
    assert (plan.off_rack, plan.moved) == (1, 2)
    assert 3 in plan.partitions["b"]["t0"]


def test_the_widest_level_ranks_first() -> None:
    # No member is in a leader's rack; each partition is read within its data centre.
    members = (
        Member("near", frozenset({"t0"}), rack="/dc1/r2"),
        Member("far", frozenset({"t0"}), rack="/dc2/r1"),
    )
    plan = check_sticky(Group(members, {"t0": ["/dc1/r1", "/dc2/r2"]}))
    assert plan.partitions == {"near": {"t0": [0]}, "far": {"t0": [1]}}
    assert plan.crossings == (0, 2)
    assert plan.off_rack == 2


def test_a_group_without_members() -> None:
    for assignor in (LeaderRackAwareRange(), LeaderRackAwareCooperativeSticky()):
        plan = assignor.assign([], {"t0": ["a"]})
        assert (plan.partitions, plan.loads, plan.off_rack, plan.moved) == ({}, {}, 0, 0)
