"""The log line and the record of an assignment."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from assignors import LeaderRackAwareCooperativeSticky, Member
from assignors.explain import Reason
from assignors.group_leader import GroupContext, Leaders
from assignors.group_leader.history import Assignment, AssignmentHistory, MemberAssignment
from assignors.group_leader.rebalance import GroupProtocol
from assignors.model import Plan, WeightSource
from tests.support.group_leader import (
    FailingAssignor,
    joined_member,
    leaders_in,
    rebalanced,
    sticky_protocol,
)

LEADERS = Leaders({"t": ["a", "a", "a", "b", None]}, frozenset(), {0: "a", 1: "b", 2: None})
M1, M2 = joined_member("m1", "a"), joined_member("m2", "b")


def last_assignment(protocol: GroupProtocol, group: str | None = None) -> Assignment:
    assignment = protocol.history.latest(group)
    assert assignment is not None
    return assignment


def test_an_assignment_is_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rackward.assignors")
    protocol = sticky_protocol()
    members = [M1, joined_member("m2", "b", owned={"t": [0, 1, 2, 3, 4]})]
    rebalanced(protocol, LEADERS, members, context=GroupContext("g", 12))
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    assert line == str(last_assignment(protocol))
    assert line.startswith(
        "assigned: group=g generation=12 protocol=sticky members=2 topics=1 partitions=5"
        " off_rack=0 optimum=0 moved=3 withheld=3 ms="
    )


def test_the_last_assignment_is_recorded() -> None:
    protocol = sticky_protocol()
    before = datetime.now(UTC)
    rebalanced(protocol, LEADERS, [M1, M2], context=GroupContext("g", 12))
    last = last_assignment(protocol)
    assert last == last_assignment(protocol, "g")
    assert before <= last.at <= datetime.now(UTC)
    assert (last.group, last.generation, last.number, last.protocol) == ("g", 12, 1, "sticky")
    assert (last.partitions, last.off_rack, last.optimum, last.moved, last.withheld) == (
        *(5, 0, 0, 0, 0),
    )
    assert 0 < last.milliseconds < 60_000
    assert last.members == (
        MemberAssignment("m1", None, "a", 3, 3),
        MemberAssignment("m2", None, "b", 2, 1),
    )
    (finding,) = last.explain().findings
    assert (finding.reason, finding.partitions) == (Reason.LEADER_UNKNOWN, {"t": (4,)})


def test_partitions_below_the_leaders_level_count_as_local() -> None:
    protocol = sticky_protocol()
    rebalanced(
        protocol,
        leaders_in(t=["/dc1/r1", "/dc1/r2"]),
        [joined_member("m1", "/dc1/r1/host7"), joined_member("m2", "/dc1/r9")],
    )
    assert last_assignment(protocol).members == (
        MemberAssignment("m1", None, "/dc1/r1/host7", 1, 1),
        MemberAssignment("m2", None, "/dc1/r9", 1, 0),
    )


def test_leaders_that_moved_since_are_a_separate_reason() -> None:
    protocol = sticky_protocol()
    rebalanced(protocol, LEADERS, [M1, M2], context=GroupContext("g", 12))
    explanation = last_assignment(protocol, "g").explain({"t": ["a", "b", "a", "b", "a"]})
    assert {finding.reason: finding.partitions for finding in explanation.findings} == {
        Reason.LEADER_MOVED: {"t": (1,)},
        Reason.NOT_OPTIMAL: {"t": (4,)},
    }


def test_topics_without_leaders_keep_those_of_assignment() -> None:
    protocol = sticky_protocol()
    members = [joined_member(member, rack, topics=["t", "u"]) for member, rack in ("1a", "2b")]
    rebalanced(protocol, leaders_in(t=["a", "b"], u=["a", "b"]), members)
    last = last_assignment(protocol)
    assert last.explain({}).findings == last.explain().findings == ()
    moved = last.explain({"t": ["b", "b"]})
    assert [finding.partitions for finding in moved.findings] == [{"t": (0,)}]


def test_an_explanation_weighs_partitions_as_the_assignment_did() -> None:
    used: list[WeightSource | None] = []

    class Recording(LeaderRackAwareCooperativeSticky):
        def assign(self, members: Iterable[Member], *arguments: Any, **named: Any) -> Plan:
            used.append(arguments[1])
            return super().assign(members, *arguments, **named)

    protocol = sticky_protocol(Recording(), weights={"t": [1.0, 2.0, 3.0, 4.0, 5.0]})
    rebalanced(protocol, leaders_in(t=["a", "a", "c", "b", "c"]), [M1, M2])
    last_assignment(protocol).explain()
    # For the best assignment now, and for what would be gained with a member in rack c.
    assert len(used) > 2
    for weights in used:
        assert isinstance(weights, Mapping)
        assert list(weights["t"]) == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_withheld_partitions_are_unread() -> None:
    protocol = sticky_protocol()
    members = [M1, joined_member("m2", "b", owned={"t": [0, 1, 2]})]
    rebalanced(protocol, LEADERS, members, context=GroupContext("g", 3))
    last = last_assignment(protocol, "g")
    explanation = last.explain()
    assert last.withheld == explanation.unread == 3
    assert {finding.reason for finding in explanation.findings} == {
        Reason.UNREAD,
        Reason.LEADER_UNKNOWN,
    }


def test_the_figures_of_a_fallback_assignment_are_unknown() -> None:
    protocol = sticky_protocol(FailingAssignor())
    rebalanced(protocol, LEADERS, [M1, M2])
    last = last_assignment(protocol)
    assert (last.group, last.generation, last.off_rack, last.optimum, last.moved) == (
        *("", -1, None, None, None),
    )
    assert "group=unknown generation=-1" in str(last)
    assert "off_rack=unknown optimum=unknown moved=unknown" in str(last)
    assert sum(member.partitions for member in last.members) == 5


def test_an_empty_history_has_no_latest_assignment() -> None:
    history = AssignmentHistory()
    assert (history.latest(), history.latest("g"), history.all()) == (None, None, ())


def test_the_history_is_bounded() -> None:
    protocol = sticky_protocol()
    groups = [f"g{number}" for number in range(AssignmentHistory.MAX_GROUPS + 3)]
    for group in groups:
        rebalanced(protocol, LEADERS, [M1], context=GroupContext(group, 1))
    rebalanced(protocol, LEADERS, [M1], context=GroupContext(groups[5], 2))
    recorded = [assignment.group for assignment in protocol.history.all()]
    assert recorded == [*groups[3:5], *groups[6:], groups[5]]
    assert protocol.history.latest(groups[0]) is None
    again = last_assignment(protocol, groups[5])
    assert (again.number, again.generation) == (2, 2)
