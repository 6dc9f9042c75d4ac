"""Explanations of small groups: the reasons, their text, and the remedies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.explain import (
    Explanation,
    LeaderBrokers,
    LocalityFinding,
    Reason,
    Remedy,
    RemedyKind,
    explain,
    partition_ranges,
    reason_text,
    remedy_text,
)
from assignors.model import Assignor

STICKY = LeaderRackAwareCooperativeSticky()
RANGE = LeaderRackAwareRange()


def members(racks: str, *topics: str) -> list[Member]:
    """Return one member per letter of ``racks``; ``?`` stands for an unknown rack."""
    subscription = frozenset(topics or {"t"})
    return [
        Member(f"m{number}", subscription, None if rack == "?" else rack)
        for number, rack in enumerate(racks)
    ]


def explain_best(
    group: Sequence[Member],
    racks: Mapping[str, Sequence[str | None]],
    assignor: Assignor = STICKY,
    leaders: LeaderBrokers | None = None,
) -> Explanation:
    """Return the explanation of the assignor's plan."""
    plan = assignor.assign(group, racks)
    return explain(group, racks, plan.partitions, assignor, leaders=leaders)


def texts(explanation: Explanation) -> list[tuple[Reason, int, str, list[str]]]:
    return [
        (
            each.reason,
            each.count,
            reason_text(each),
            [remedy_text(remedy) for remedy in each.remedies],
        )
        for each in explanation.findings
    ]


def test_ten_of_twelve_leaders_in_one_rack() -> None:
    explanation = explain_best(members("aabbcc"), {"t": "aaaaaaaaaabc"})
    assert texts(explanation) == [
        (
            Reason.TOO_MANY_LEADERS,
            6,
            "rack a leads 10 partitions, and its 2 members read 4 in balance",
            [
                "move 3 leaders to b and 3 to c: 0 off-rack at best",
                "start 8 more members in a: 0 off-rack at best",
            ],
        )
    ]
    assert (explanation.local, explanation.off_rack, explanation.optimum, explanation.uneven) == (
        6,
        6,
        6,
        False,
    )


def test_a_rack_without_members() -> None:
    explanation = explain_best(members("aabb"), {"t": "abcabcabcabc"})
    assert texts(explanation) == [
        (
            Reason.NO_MEMBER_IN_RACK,
            4,
            "rack c leads 4 partitions, and no member is in it",
            [
                "start 2 more members in c: 0 off-rack at best",
                "move 2 leaders to a and 2 to b: 0 off-rack at best",
            ],
        )
    ]


def test_members_in_the_rack_do_not_subscribe() -> None:
    group = [*members("ab", "t"), Member("u1", frozenset({"u"}), "c")]
    explanation = explain_best(group, {"t": "aabb", "u": "ac"})
    assert [(each[0], each[2]) for each in texts(explanation)] == [
        (Reason.NOT_SUBSCRIBED_IN_RACK, "the member in rack a does not subscribe to u")
    ]
    assert "move 1 leader to c: 0 off-rack at best" in texts(explanation)[0][3]


def test_co_partitioned_topics() -> None:
    explanation = explain_best(members("abc", "t", "u"), {"t": "abcabc", "u": "bcabca"}, RANGE)
    assert {each.reason for each in explanation.findings} == {Reason.CO_PARTITIONED}
    assert explanation.off_rack == explanation.optimum == 6
    option = "set co_partitioned=False in the assignor, unless these topics are joined"
    for *_, remedies in texts(explanation):
        assert remedies[0] == f"{option}: 0 off-rack at best"
    # Without co-partitioning, each partition is local to some member.
    separate = LeaderRackAwareRange(co_partitioned=False)
    explanation = explain_best(members("abc", "t", "u"), {"t": "abcabc", "u": "bcabca"}, separate)
    assert explanation.findings == ()


def test_a_member_without_a_rack() -> None:
    explanation = explain_best(members("a?"), {"t": "aabb"})
    assert texts(explanation) == [
        (
            Reason.RACKLESS_MEMBER,
            2,
            "the rack of the member that reads them is unknown",
            ["set the rack of this member: client.rack, RACKWARD_RACK, or the assignor's rack"],
        )
    ]
    assert explanation.findings[0].members == ("m1",)


def test_what_rackless_members_read_is_unknown() -> None:
    """It is neither local nor across racks, now and at best."""
    explanation = explain_best(members("??"), {"t": "aabb"})
    assert (explanation.local, explanation.off_rack, explanation.unknown) == (0, 0, 4)
    assert (explanation.optimum, explanation.unknown_at_best) == (0, 4)
    assert [each.reason for each in explanation.findings] == [Reason.RACKLESS_MEMBER]
    some = explain(members("a?"), {"t": "aabb"}, {"m0": {"t": [2, 3]}, "m1": {"t": [0, 1]}}, STICKY)
    assert (some.local, some.off_rack, some.unknown) == (0, 2, 2)
    assert (some.optimum, some.unknown_at_best) == (0, 2)


def test_leaders_without_a_rack() -> None:
    leaders = {"t": ["a", None, None, "a"]}
    brokers = {("t", 0): 7, ("t", 1): 8, ("t", 3): 7}
    explanation = explain_best(members("a"), leaders, leaders=brokers)
    assert {each.reason: each.partitions for each in explanation.findings} == {
        Reason.NO_LEADER: {"t": (2,)},
        Reason.RACKLESS_BROKER: {"t": (1,)},
    }
    remedies = [remedy_text(remedy) for each in explanation.findings for remedy in each.remedies]
    assert sorted(remedies) == ["bring their brokers back online", "set broker.rack on broker 8"]
    assert (explanation.unknown, explanation.off_rack, explanation.local) == (2, 0, 2)
    brokers_unknown = explain_best(members("a"), leaders)
    assert [each.reason for each in brokers_unknown.findings] == [Reason.LEADER_UNKNOWN]
    assert "set broker.rack on the brokers without one" in texts(brokers_unknown)[0][3]


def test_empty_leader_brokers_mean_no_leaders() -> None:
    explanation = explain_best(members("a"), {"t": [None, None]}, leaders={})
    assert [(each.reason, each.count) for each in explanation.findings] == [(Reason.NO_LEADER, 2)]


def test_an_assignment_without_regard_to_racks_is_not_optimal() -> None:
    by_index = {"m0": {"t": [0, 1]}, "m1": {"t": [2, 3]}, "m2": {"t": [4, 5]}}
    explanation = explain(members("abc"), {"t": "abcabc"}, by_index, STICKY)
    (finding,) = explanation.findings
    assert finding.reason is Reason.NOT_OPTIMAL
    assert finding.better_members == {
        ("t", 1): "m1",
        ("t", 2): "m2",
        ("t", 3): "m0",
        ("t", 4): "m1",
    }
    assert [remedy.off_rack_after for remedy in finding.remedies] == [0]


@pytest.mark.parametrize(
    "assigned",
    [
        {"m0": {"t": [0, 1]}, "m1": {"t": [2]}, "m2": {"t": [3]}},
        {"m0": {"t": [0]}, "m1": {"t": [2, 3]}, "m2": {"t": [1]}},
    ],
)
def test_an_equally_local_assignment_is_optimal(
    assigned: dict[str, dict[str, list[int]]],
) -> None:
    # One of a and b reads two partitions; one that the other leads goes to c.
    explanation = explain(members("abc"), {"t": "aabb"}, assigned, RANGE)
    assert (explanation.off_rack, explanation.optimum) == (1, 1)
    (finding,) = explanation.findings
    assert (finding.reason, finding.count) == (Reason.TOO_MANY_LEADERS, 1)


def test_an_uneven_assignment_that_is_more_local_has_no_findings() -> None:
    uneven = {"m0": {"t": [0, 1, 2, 3, 4]}, "m1": {"t": [5]}}
    explanation = explain(members("ab"), {"t": "aaaaab"}, uneven, STICKY)
    assert (
        explanation.off_rack,
        explanation.optimum,
        explanation.uneven,
        explanation.findings,
    ) == (0, 2, True, ())


def test_unread_partitions() -> None:
    explanation = explain(members("ab"), {"t": "ab"}, {"m0": {"t": [0]}}, STICKY)
    assert [(each.reason, each.remedies[0].kind) for each in explanation.findings] == [
        (Reason.UNREAD, RemedyKind.WAIT)
    ]
    assert (explanation.unread, explanation.off_rack, explanation.local) == (1, 0, 1)


def test_remedies_can_be_left_out() -> None:
    group, racks = members("abc"), {"t": "aaaaaaaaaabc"}
    plan = STICKY.assign(group, racks)
    whole = explain(group, racks, plan.partitions, STICKY)
    brief = explain(group, racks, plan.partitions, STICKY, remedies=False)
    assert all(finding.remedies for finding in whole.findings)
    without = tuple(replace(finding, remedies=()) for finding in whole.findings)
    assert brief == replace(whole, findings=without)
    assert {member: dict(share) for member, share in brief.best.items()} == plan.partitions


def test_an_empty_group_has_no_findings() -> None:
    assert explain([], {}, {}, STICKY).findings == ()
    assert explain(members("a"), {}, {}, RANGE).partitions == 0


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1, 2, 3, 7, 10, 9], "0-3, 7, 9-10"),
        (range(0, 40, 2), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22 and 8 more"),
    ],
)
def test_partition_ranges(numbers: Sequence[int], text: str) -> None:
    assert partition_ranges(numbers) == text


def test_of_a_topic_without_previous_leaders_none_has_moved() -> None:
    members = [Member("m1", frozenset("tu"), "a"), Member("m2", frozenset("tu"), "b")]
    assigned = {"m1": {"t": [0], "u": [0]}, "m2": {"t": [1], "u": [1]}}
    explanation = explain(
        members,
        {"t": ["b", "a"], "u": ["b", "a"]},
        assigned,
        LeaderRackAwareCooperativeSticky(),
        previous_leader_racks={"t": ["a", "b"]},
    )
    assert {finding.reason: finding.partitions for finding in explanation.findings} == {
        Reason.LEADER_MOVED: {"t": (0, 1)},
        Reason.NOT_OPTIMAL: {"u": (0, 1)},
    }


def test_what_is_off_rack_after_members_subscribe_to_more() -> None:
    # Loads are 3 and 3: the member in rack b reads one partition in a.
    group = [*members("b", "t"), Member("u1", frozenset({"u"}), "a")]
    explanation = explain_best(group, {"t": "abab", "u": "aa"})
    (finding,) = explanation.findings
    (subscribe,) = [each for each in finding.remedies if each.kind is RemedyKind.SUBSCRIBE]
    assert (explanation.optimum, subscribe.off_rack_after) == (2, 1)
    assert (subscribe.rack, subscribe.topics) == ("a", ("t",))


# Texts, with one and with several of what they count.


def finding_of(
    reason: Reason, topics: Sequence[str] = ("t",), members: Sequence[str] = (), **figures: Any
) -> LocalityFinding:
    partitions = dict.fromkeys(topics, (0,))
    return LocalityFinding(reason, partitions, rack="a", members=tuple(members), **figures)


@pytest.mark.parametrize(
    ("about", "text"),
    [
        (
            finding_of(Reason.RACKLESS_MEMBER, members=["m", "n"]),
            "the racks of the 2 members that read them are unknown",
        ),
        (
            finding_of(Reason.NO_MEMBER_IN_RACK, leaders_in_rack=1),
            "rack a leads 1 partition, and no member is in it",
        ),
        (
            finding_of(Reason.NOT_SUBSCRIBED_IN_RACK, "tuv", members_in_rack=1),
            "the member in rack a does not subscribe to t, u, v",
        ),
        (
            finding_of(Reason.NOT_SUBSCRIBED_IN_RACK, "tuvwx", members_in_rack=2),
            "the 2 members in rack a do not subscribe to t, u, v and 2 more",
        ),
        (
            finding_of(Reason.CO_PARTITIONED),
            "they are led in rack a, but the same partitions of other topics, which are assigned "
            "to the same member, are led in the member's rack",
        ),
        (
            finding_of(
                Reason.TOO_MANY_LEADERS,
                leaders_in_rack=3,
                members_in_rack=1,
                load_in_rack=2,
                local_in_rack=2,
            ),
            "rack a leads 3 partitions, and its member reads 2 in balance",
        ),
        (
            finding_of(
                Reason.TOO_MANY_LEADERS,
                leaders_in_rack=9,
                members_in_rack=2,
                load_in_rack=4,
                local_in_rack=3,
            ),
            "rack a leads 9 partitions, and its 2 members read 4 in balance, 3 of them led there",
        ),
    ],
    ids=lambda value: value.reason.value if isinstance(value, LocalityFinding) else "",
)
def test_reasons_of_one_or_several(about: LocalityFinding, text: str) -> None:
    assert reason_text(about) == text


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        (RemedyKind.WAIT, {"off_rack_after": 0}, "wait until the group is stable: 0 off-rack at b"),
        (RemedyKind.SET_BROKER_RACK, {"brokers": (7, 9)}, "set broker.rack on brokers 7, 9"),
        (RemedyKind.SET_MEMBER_RACK, {"members": ("m", "n")}, "set the rack of these members: cl"),
        (RemedyKind.REBALANCE, {}, "rebalance with an assignor that uses the racks of leaders"),
        (
            RemedyKind.FIT_LEADERS,
            {"moves": {"a": {"t": (0, 1), "u": (4,)}, "b": {"t": (2,)}}},
            "move 4 leaders to the racks of the members that read them",
        ),
        (RemedyKind.FIT_LEADERS, {"moves": {"a": {"t": (0,)}}}, "move 1 leader to the racks of th"),
        (
            RemedyKind.MOVE_LEADERS,
            {"moves": {"a": {"t": (0, 1), "u": (4,)}, "b": {"t": (2,)}, "c": {"t": (3,)}}},
            "move 3 leaders to a and 1 to b and 1 to c",
        ),
        (
            RemedyKind.SUBSCRIBE,
            {"rack": "a", "topics": ("t", "u")},
            "subscribe the members in a to t, u",
        ),
        (RemedyKind.START_MEMBERS, {"rack": "a", "count": 1}, "start 1 more member in a"),
    ],
)
def test_remedies_of_one_and_of_several(
    kind: RemedyKind, values: dict[str, Any], text: str
) -> None:
    assert remedy_text(Remedy(kind, **values)).startswith(text)


def test_text_without_fields_is_used_for_every_kind() -> None:
    assert all("{" not in reason_text(finding_of(reason)) for reason in Reason)
    assert all("{" not in remedy_text(Remedy(kind)) for kind in RemedyKind)
