"""The checkers themselves: a sound plan passes, and each planted fault is caught by its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import pytest

from assignors import LeaderRacks, Member, Plan
from tests.support import assignment_invariants as invariants
from tests.support.assignment_facts import owner_of, read_group, weight_steps

TOPICS = frozenset({"t", "u"})
MEMBERS = (
    Member("m-1", TOPICS, rack="/x/1", owned={"t": [0, 1, 2]}, generation=3),
    Member("m-2", TOPICS, rack="/x/2", owned={"t": [1], "u": [0]}, generation=4),
    Member("m-3", frozenset({"u"}), rack="/y/1"),
    Member("m-4", frozenset({"gone"})),
)
LEADERS: LeaderRacks = {"t": ["/x/1", "/x/2", "/y/1"], "u": ["/y/1", None], "unread": ["/x/1"]}
SOUND = Plan(
    partitions={"m-1": {"t": [0, 2]}, "m-2": {"t": [1]}, "m-3": {"u": [0, 1]}, "m-4": {}},
    off_rack=1,
    crossings=(1, 1),
    optimum=1,
    moved=1,
    loads={"m-1": 2, "m-2": 1, "m-3": 2, "m-4": 0},
)

Partitions = dict[str, dict[str, list[int]]]
Entry = TypeVar("Entry")


def check(plan: Plan) -> None:
    invariants.check_plan(MEMBERS, LEADERS, plan)


def with_lists(**changed: dict[str, list[int]]) -> Plan:
    """The sound plan with some members' lists replaced (m_1 for m-1), all else as it was."""
    lists: Partitions = {id_: dict(topics) for id_, topics in SOUND.partitions.items()}
    lists.update({key.replace("_", "-"): topics for key, topics in changed.items()})
    return replace(SOUND, partitions=lists)


def without(member: str, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """What a plan says of its members, with one of them left out."""
    return {id_: entry for id_, entry in entries.items() if id_ != member}


def test_a_sound_plan_passes() -> None:
    check(SOUND)


FAULTS: dict[str, tuple[Plan, str]] = {
    "given twice": (with_lists(m_2={"t": [0, 1]}), r"more than one member has .*'t', 0"),
    "left out": (with_lists(m_3={"u": [0]}), r"nobody has \[\('u', 1\)\]"),
    "to a non-subscriber": (
        with_lists(m_2={}, m_3={"t": [1], "u": [0, 1]}),
        r"m-3 has t \[1\] but does not subscribe",
    ),
    "of a topic nobody subscribes to": (
        with_lists(m_4={"unread": [0]}),
        r"m-4 has unread \[0\] but does not subscribe",
    ),
    "of a topic that is gone": (with_lists(m_4={"gone": [0]}), "gone-0 does not exist"),
    "out of range": (with_lists(m_2={"t": [1, 3]}), "t-3 does not exist"),
    "negative": (with_lists(m_2={"t": [-1, 1]}), "t--1 does not exist"),
    "unsorted": (with_lists(m_1={"t": [2, 0]}), r"not sorted: \[2, 0\]"),
    "repeated": (with_lists(m_1={"t": [0, 0, 2]}), "repeat a number"),
    "an empty list": (with_lists(m_4={"gone": []}), "an empty list"),
    "a tuple": (with_lists(m_1={"t": (0, 2)}), "a tuple, not a list"),  # type: ignore[dict-item]
    "a bool for an int": (with_lists(m_2={"t": [True]}), "not plain ints"),
    "member missing": (
        replace(SOUND, partitions=without("m-4", SOUND.partitions)),
        r"plan.partitions lacks .*m-4",
    ),
    "member missing in loads": (
        replace(SOUND, loads=without("m-4", SOUND.loads)),
        r"plan.loads lacks .*m-4",
    ),
    "a stranger": (with_lists(m_9={}), r"not in the group: \['m-9'\]"),
    "wrong loads": (replace(SOUND, loads={**SOUND.loads, "m-1": 3}), "plan.loads is"),
    "wrong off_rack": (replace(SOUND, off_rack=0), "plan.off_rack is 0, not 1"),
    "wrong crossings": (replace(SOUND, crossings=(0, 1)), r"plan.crossings is \(0, 1\)"),
    "a level too few": (replace(SOUND, crossings=(1,)), r"plan.crossings is \(1,\)"),
    "wrong moved": (replace(SOUND, moved=2), "plan.moved is 2, not 1"),
    "a float for a figure": (replace(SOUND, moved=1.0), "plan.moved is a float"),  # type: ignore[arg-type]
    "not at the optimum": (replace(SOUND, optimum=0), "off_rack is 1, its optimum 0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str) -> None:
    plan, message = FAULTS[fault]
    with pytest.raises(AssertionError, match=message):
        check(plan)


def test_uneven_loads_of_equal_subscriptions_are_caught() -> None:
    facts = read_group(MEMBERS, LEADERS)
    invariants.check_balance(facts, SOUND)
    uneven = replace(SOUND, loads={**SOUND.loads, "m-1": 3, "m-2": 1})
    with pytest.raises(AssertionError, match=r"have {'m-1': 3, 'm-2': 1}"):
        invariants.check_balance(facts, uneven)


def range_plan(**lists: dict[str, list[int]]) -> tuple[Plan, Callable[[Plan], None]]:
    """A plan of two co-partitioned topics over two members, and the check of its shares."""
    members = [Member("a", TOPICS), Member("b", TOPICS)]
    facts = read_group(members, {"t": [None] * 3, "u": [None] * 3})
    plan = Plan(lists, 0, (0,), 0, 0, {})
    return plan, lambda made: invariants.check_range_shares(facts, made, [("t", "u")])


def test_even_shares_of_whole_indexes_pass() -> None:
    plan, check_shares = range_plan(a={"t": [0, 2], "u": [0, 2]}, b={"t": [1], "u": [1]})
    check_shares(plan)


def test_an_index_of_two_members_is_caught() -> None:
    plan, check_shares = range_plan(a={"t": [0, 2], "u": [1, 2]}, b={"t": [1], "u": [0]})
    with pytest.raises(AssertionError, match="index 0 of the co-partitioned"):
        check_shares(plan)


def test_uneven_shares_are_caught() -> None:
    plan, check_shares = range_plan(a={"t": [0, 1, 2], "u": [0, 1, 2]}, b={})
    with pytest.raises(AssertionError, match="of the 3 indexes"):
        check_shares(plan)


def test_claims_are_read_as_the_contract_says() -> None:
    # t-1 was claimed by m-1 in generation 3 and by m-2 in 4; u-0 by m-2 alone.
    assert [owner_of(cell, MEMBERS) for cell in [("t", 0), ("t", 1), ("u", 0), ("u", 1)]] == [
        0,
        1,
        1,
        -1,
    ]
    doubled = [replace(member, generation=5) for member in MEMBERS]
    assert owner_of(("t", 1), doubled) == -1
    # A newer claim by a member that no longer subscribes makes the partition nobody's.
    left = [MEMBERS[0], replace(MEMBERS[1], topics=frozenset({"u"}))]
    assert owner_of(("t", 1), left) == -1


def test_weights_become_steps_of_the_heaviest() -> None:
    cells = [("t", number) for number in range(6)]
    weights = {"t": [200.0, 100.0, 0.0, float("nan"), -5.0]}
    assert weight_steps(cells, weights) == (100, 50, 1, 50, 50, 50)
    assert weight_steps(cells, {"t": [0.0] * 6}) == (1,) * 6
    assert weight_steps(cells, None) == (1,) * 6
