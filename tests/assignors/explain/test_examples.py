"""Groups small enough to be judged by eye: the reason, its words, and what would mend it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.explain import (
    Explanation,
    LeaderBrokers,
    Reason,
    RemedyKind,
    explain,
    mend,
    numbers_text,
    why,
)
from assignors.model import Assignor

STICKY = LeaderRackAwareCooperativeSticky()
RANGE = LeaderRackAwareRange()


def members(racks: str, *topics: str) -> list[Member]:
    """One member per letter, ``?`` for one that does not say its rack."""
    wanted = frozenset(topics or {"t"})
    return [
        Member(f"m{number}", wanted, None if rack == "?" else rack)
        for number, rack in enumerate(racks)
    ]


def best(
    group: Sequence[Member],
    racks: Mapping[str, Sequence[str | None]],
    assignor: Assignor = STICKY,
    leaders: LeaderBrokers | None = None,
) -> Explanation:
    """The assignor's own plan, explained."""
    plan = assignor.assign(group, racks)
    return explain(group, racks, plan.partitions, assignor, leaders=leaders)


def told(found: Explanation) -> list[tuple[Reason, int, str, list[str]]]:
    return [
        (each.reason, each.count, why(each), [mend(remedy) for remedy in each.remedies])
        for each in found.findings
    ]


def test_ten_of_twelve_leaders_in_one_rack() -> None:
    found = best(members("aabbcc"), {"t": "aaaaaaaaaabc"})
    assert told(found) == [
        (
            Reason.TOO_MANY_LEADERS,
            6,
            "rack a leads 10 partitions, and its 2 members carry 4 in balance",
            [
                "move 3 leaders to b and 3 to c: 0 off-rack at best",
                "start 8 more members in a: 0 off-rack at best",
            ],
        )
    ]
    assert (found.local, found.off_rack, found.optimum, found.uneven) == (6, 6, 6, False)


def test_a_rack_without_members() -> None:
    found = best(members("aabb"), {"t": "abcabcabcabc"})
    assert told(found) == [
        (
            Reason.NO_MEMBER_IN_RACK,
            4,
            "rack c leads 4 partitions, and no member is there",
            [
                "start 2 more members in c: 0 off-rack at best",
                "move 2 leaders to a and 2 to b: 0 off-rack at best",
            ],
        )
    ]


def test_members_that_do_not_subscribe() -> None:
    group = [*members("ab", "t"), Member("u1", frozenset({"u"}), "c")]
    found = best(group, {"t": "aabb", "u": "ac"})
    assert [(each[0], each[2]) for each in told(found)] == [
        (Reason.NOT_SUBSCRIBED_IN_RACK, "the member in rack a does not subscribe to u")
    ]
    assert "move 1 leader to c: 0 off-rack at best" in told(found)[0][3]


def test_partitions_that_stay_together() -> None:
    found = best(members("abc", "t", "u"), {"t": "abcabc", "u": "bcabca"}, RANGE)
    assert {each.reason for each in found.findings} == {Reason.CO_PARTITIONED}
    assert found.off_rack == found.optimum == 6
    # With partitions apart, there is a member for each.
    apart = LeaderRackAwareRange(co_partitioned=False)
    found = best(members("abc", "t", "u"), {"t": "abcabc", "u": "bcabca"}, apart)
    assert found.findings == ()


def test_a_member_that_does_not_say_its_rack() -> None:
    found = best(members("a?"), {"t": "aabb"})
    assert told(found) == [
        (
            Reason.RACKLESS_MEMBER,
            2,
            "the member that reads them does not say in which rack it is",
            ["tell this member the rack: client.rack, RACKWARD_RACK, or the assignor's rack"],
        )
    ]
    assert found.findings[0].members == ("m1",)


def test_leaders_that_nobody_can_place() -> None:
    leaders = {"t": ["a", None, None, "a"]}
    known = {("t", 0): 7, ("t", 1): 8, ("t", 3): 7}
    found = best(members("a"), leaders, leaders=known)
    assert {each.reason: each.partitions for each in found.findings} == {
        Reason.NO_LEADER: {"t": (2,)},
        Reason.RACKLESS_BROKER: {"t": (1,)},
    }
    remedies = [mend(remedy) for each in found.findings for remedy in each.remedies]
    assert sorted(remedies) == ["bring their brokers back", "set broker.rack of broker 8"]
    assert (found.unknown, found.off_rack, found.local) == (2, 0, 2)
    unsaid = best(members("a"), leaders)
    assert [each.reason for each in unsaid.findings] == [Reason.LEADER_UNKNOWN]
    assert "set broker.rack of brokers that lack it" in told(unsaid)[0][3]


def test_an_assignment_that_does_not_look_at_racks_names_who_should_read() -> None:
    by_number = {"m0": {"t": [0, 1]}, "m1": {"t": [2, 3]}, "m2": {"t": [4, 5]}}
    found = explain(members("abc"), {"t": "abcabc"}, by_number, STICKY)
    (finding,) = found.findings
    assert finding.reason is Reason.NOT_OPTIMAL
    assert finding.better == {("t", 1): "m1", ("t", 2): "m2", ("t", 3): "m0", ("t", 4): "m1"}
    assert [remedy.off_rack_after for remedy in finding.remedies] == [0]


@pytest.mark.parametrize(
    "assigned",
    [
        {"m0": {"t": [0, 1]}, "m1": {"t": [2]}, "m2": {"t": [3]}},
        {"m0": {"t": [0]}, "m1": {"t": [2, 3]}, "m2": {"t": [1]}},
    ],
)
def test_of_assignments_that_are_as_good_none_is_called_better(
    assigned: dict[str, dict[str, list[int]]],
) -> None:
    # One of a and b reads two; whichever it is, one that the other leads goes to c.
    found = explain(members("abc"), {"t": "aabb"}, assigned, RANGE)
    assert (found.off_rack, found.optimum) == (1, 1)
    (finding,) = found.findings
    assert (finding.reason, finding.count) == (Reason.TOO_MANY_LEADERS, 1)


def test_an_uneven_assignment_that_is_more_local_is_no_fault() -> None:
    uneven = {"m0": {"t": [0, 1, 2, 3, 4]}, "m1": {"t": [5]}}
    found = explain(members("ab"), {"t": "aaaaab"}, uneven, STICKY)
    assert (found.off_rack, found.optimum, found.uneven, found.findings) == (0, 2, True, ())


def test_what_nobody_reads_yet() -> None:
    found = explain(members("ab"), {"t": "ab"}, {"m0": {"t": [0]}}, STICKY)
    assert [(each.reason, each.remedies[0].kind) for each in found.findings] == [
        (Reason.UNREAD, RemedyKind.WAIT)
    ]
    assert (found.unread, found.off_rack, found.local) == (1, 0, 1)


def test_nothing_to_explain() -> None:
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
def test_partitions_in_runs(numbers: Sequence[int], text: str) -> None:
    assert numbers_text(numbers) == text
