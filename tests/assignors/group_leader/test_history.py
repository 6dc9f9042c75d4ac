"""What is said and remembered of an assignment."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRacks, Member, Plan, Weights
from assignors.consumer_protocol import SubscriptionReader
from assignors.explain import Reason
from assignors.group_leader import About, Joined, Leaders, MemberShare, Rebalance, Records, Remarks
from tests.support.kafka_python import subscription_bytes

RACKS = Leaders({"t": ["a", "a", "a", "b", None]}, {}, frozenset(), {0: "a", 1: "b", 2: None})
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def said(rack: str | None, **owned: list[int]) -> bytes:
    return subscription_bytes(["t"], rack=rack, owned=owned, generation=1 if owned else -1)


JOINED = [
    Joined(name, None, SubscriptionReader().read(said(rack)))
    for name, rack in (("m1", "a"), ("m2", "b"))
]


class Failing:
    """An assignor with a fault."""

    def assign(
        self, members: Iterable[Member], leader_racks: LeaderRacks, weights: Weights | None = None
    ) -> Plan:
        raise ZeroDivisionError(f"{members}, {leader_racks}, {weights}")


def rebalance(at: datetime = AT, *, fails: bool = False) -> Rebalance:
    """What decides in a live group, and remembers."""
    return Rebalance(
        name="sticky",
        assignor=Failing() if fails else LeaderRackAwareCooperativeSticky(),
        cooperative=True,
        weights=None,
        remarks=Remarks(),
        records=Records(now=lambda: at),
    )


def test_there_is_one_line_with_all_figures(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rackward.assignors")
    leading = rebalance()
    joined = [
        *JOINED[:1],
        Joined("m2", None, SubscriptionReader().read(said("b", t=[0, 1, 2, 3, 4]))),
    ]
    leading.run(lambda _: RACKS, joined, about=About("g", 12))
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    (made,) = leading.records.all()
    assert lines == [str(made)]
    assert lines[0].startswith(
        "sticky group g generation 12: 2 members, 1 topics, 5 partitions, "
        "off-rack 0 of at best 0, moved 3, withheld 3, "
    )
    assert lines[0].endswith(" ms")


def test_the_last_assignment_is_remembered_whole() -> None:
    leading = rebalance()
    leading.run(lambda _: RACKS, JOINED, about=About("g", 12))
    last = leading.records.last()
    assert last is not None
    assert last == leading.records.last("g")
    assert (last.group, last.generation, last.number, last.at, last.protocol) == (
        *("g", 12, 1, AT, "sticky"),
    )
    assert (last.partitions, last.off_rack, last.optimum, last.moved, last.withheld) == (
        *(5, 0, 0, 0, 0),
    )
    assert 0 < last.milliseconds < 60_000
    assert last.members == (
        MemberShare("m1", None, "a", 3, 3),
        MemberShare("m2", None, "b", 2, 1),
    )
    (finding,) = last.explain().findings
    assert (finding.reason, finding.partitions) == (Reason.LEADER_UNKNOWN, {"t": (4,)})


def test_leaders_that_moved_since_are_told_apart() -> None:
    leading = rebalance()
    leading.run(lambda _: RACKS, JOINED, about=About("g", 12))
    last = leading.records.last("g")
    assert last is not None
    found = last.explain({"t": ["a", "b", "a", "b", "a"]})
    told = {each.reason: each.partitions for each in found.findings}
    assert told == {Reason.LEADER_MOVED: {"t": (1,)}, Reason.NOT_OPTIMAL: {"t": (4,)}}


def test_what_is_withheld_is_read_by_nobody() -> None:
    leading = rebalance()
    joined = [*JOINED[:1], Joined("m2", None, SubscriptionReader().read(said("b", t=[0, 1, 2])))]
    leading.run(lambda _: RACKS, joined, about=About("g", 3))
    last = leading.records.last("g")
    assert last is not None
    found = last.explain()
    assert last.withheld == found.unread == 3
    assert {each.reason for each in found.findings} == {Reason.UNREAD, Reason.LEADER_UNKNOWN}


def test_a_failed_assignor_leaves_figures_open_and_members_told() -> None:
    leading = rebalance(fails=True)
    leading.run(lambda _: RACKS, JOINED)
    last = leading.records.last()
    assert last is not None
    assert (last.group, last.generation, last.off_rack, last.optimum, last.moved) == (
        *("", -1, None, None, None),
    )
    assert "off-rack unknown of at best unknown, moved unknown" in str(last)
    assert sum(each.partitions for each in last.members) == 5


def test_weights_that_are_none_cost_no_rebalance() -> None:
    leading = replace(rebalance(), weights=cast("Any", 5))
    outcome = leading.run(lambda _: RACKS, JOINED)
    assert sum(len(topics["t"]) for topics in outcome.shares.values()) == 5
    last = leading.records.last()
    assert last is not None
    assert last.off_rack == 0


def test_so_many_groups_are_remembered_and_no_more() -> None:
    leading = rebalance()
    groups = [f"g{number}" for number in range(Records.MOST + 3)]
    for group in groups:
        leading.run(lambda _: RACKS, JOINED, about=About(group, 1))
    leading.run(lambda _: RACKS, JOINED, about=About(groups[5], 2))
    kept = [made.group for made in leading.records.all()]
    assert kept == [*groups[3:5], *groups[6:], groups[5]]
    assert leading.records.last(groups[0]) is None
    again = leading.records.last(groups[5])
    assert again is not None
    assert (again.number, again.generation) == (2, 2)
