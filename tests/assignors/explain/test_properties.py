"""Explanations of any group against tables, brute force and flow."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assignors.explain import Explanation, Finding, Reason, explain
from tests.support.assignment_facts import NOBODY, rack_levels
from tests.support.explanations import (
    Case,
    best_crossings,
    crossings,
    done,
    owner_of,
    places,
    planned,
    shuffled,
)
from tests.support.random_groups import MIDDLE, SMALL, groups, random_group

LIMIT = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def explained(case: Case) -> Explanation:
    group = case.group
    return explain(group.members, group.leader_racks, case.assigned, case.assignor, group.weights)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A group under its own plan, or under any other assignment."""
    case = planned(draw(groups()), sticky=draw(st.booleans()))
    if draw(st.booleans()):
        rng = Random(draw(st.integers(0, 1 << 30)))
        case = shuffled(case, rng, unread=draw(st.booleans()))
    return case


def seeded(number: int) -> Case:
    rng = Random(f"explain-{number}")
    size = MIDDLE if rng.random() < 0.1 else SMALL
    group = random_group(f"explain-{number}", size, imbalance=rng.random() < 0.2)
    case = planned(group, sticky=rng.random() < 0.5)
    if rng.random() < 0.6:
        case = shuffled(case, rng, unread=rng.random() < 0.3)
    return case


def check_counts(case: Case, found: Explanation) -> None:
    """Every partition that is not local is in one finding, and the figures are those."""
    facts = case.facts
    holders = case.holders(facts)
    led = {cell: rack_levels(case.group.leader_racks[cell[0]][cell[1]]) for cell in facts.cells}
    unread = {c for c, holder in zip(facts.cells, holders, strict=True) if holder == NOBODY}
    unknown = {cell for cell in facts.cells if led[cell] == ()} - unread
    off_rack = {
        cell
        for cell, holder, crossed in zip(facts.cells, holders, facts.crossed, strict=True)
        if holder != NOBODY and crossed[holder] > 0
    }
    assert (found.partitions, found.unread, found.unknown, found.off_rack) == (
        *(len(facts.cells), len(unread), len(unknown), len(off_rack)),
    )
    assert found.local == found.partitions - found.unread - found.unknown - found.off_rack
    told = Counter(place for finding in found.findings for place in places(finding))
    assert told == Counter(unread | unknown | off_rack)
    for finding in found.findings:
        assert finding.count == len(places(finding)) > 0
        assert finding.reason.off_rack == (places(finding)[0] in off_rack)
    assert len({(each.reason, each.rack) for each in found.findings}) == len(found.findings)


def check_optimality(case: Case, found: Explanation) -> None:
    """NOT_OPTIMAL is said where, and only where, an oracle finds something better."""
    facts = case.facts
    best = best_crossings(case.group, sticky=case.sticky)
    if case.group.weights is None:
        assert found.optimum == best[-1]
    holders = case.holders(facts)
    if NOBODY in holders:
        return
    now = crossings(facts, holders)
    assert any(each.reason is Reason.NOT_OPTIMAL for each in found.findings) == (now > best)
    assert found.uneven == (now < best)


def check_remedies(case: Case, found: Explanation) -> None:
    """Whatever is claimed of a remedy is so, and is better than before."""
    for finding in found.findings if case.group.weights is None else ():
        for remedy in finding.remedies:
            if remedy.off_rack_after is None:
                continue
            group = done(case.group, remedy)
            assert best_crossings(group, sticky=case.sticky)[-1] == remedy.off_rack_after
            if not finding.reason.mended_by_rebalance:
                assert remedy.off_rack_after < found.optimum


def check_reasons(case: Case, found: Explanation) -> None:
    """Each reason is true of each of its partitions."""
    members = {member.id: member for member in case.group.members}
    for finding in found.findings:
        for place in places(finding):
            topic, number = place
            owner = owner_of(case.assigned, place)
            led = rack_levels(case.group.leader_racks[topic][number])
            there = [m for m in members.values() if led and rack_levels(m.rack) == led]
            if finding.reason in (Reason.UNREAD, Reason.LEADER_UNKNOWN, Reason.NOT_OPTIMAL):
                continue
            assert owner is not None
            assert (rack_levels(members[owner].rack) == ()) == (
                finding.reason is Reason.RACKLESS_MEMBER
            )
            if finding.reason is Reason.RACKLESS_MEMBER:
                assert owner in finding.members
                continue
            assert rack_levels(finding.rack) == led
            assert finding.members_there == len(there)
            assert finding.led == sum(
                rack_levels(case.group.leader_racks[t][n]) == led for t, n in case.facts.cells
            )
            assert (finding.reason is Reason.NO_MEMBER_IN_RACK) == (not there)
            if there:
                subscribed = any(topic in each.topics for each in there)
                assert (finding.reason is Reason.NOT_SUBSCRIBED_IN_RACK) == (not subscribed)
            if finding.reason is Reason.CO_PARTITIONED:
                assert not case.sticky
                assert any(
                    number in numbers
                    and other != topic
                    and rack_levels(case.group.leader_racks[other][number])
                    == rack_levels(members[owner].rack)
                    for other, numbers in case.assigned[owner].items()
                )


def check(case: Case) -> None:
    """All of it."""
    found = explained(case)
    check_counts(case, found)
    check_optimality(case, found)
    check_remedies(case, found)
    check_reasons(case, found)


@LIMIT
@given(cases())
def test_groups_that_shrink(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("chunk", range(4))
def test_seeded_groups(chunk: int) -> None:
    for number in range(chunk * 30, (chunk + 1) * 30):
        case = seeded(number)
        try:
            check(case)
        except Exception as error:
            error.add_note(f"number {number}: {case}")
            raise


def full(finding: Finding) -> bool:
    return finding.reason is Reason.TOO_MANY_LEADERS


@pytest.mark.parametrize("number", range(60))
def test_a_rack_with_too_many_leaders_is_full_of_its_own(number: int) -> None:
    """With all members alike, those in such a rack read nothing else, and the figures add up."""
    group = random_group(f"full-{number}", MIDDLE)
    topics = frozenset(group.leader_racks)
    members = tuple(replace(each, topics=topics, owned={}) for each in group.members)
    case = planned(replace(group, members=members, weights=None), sticky=True)
    found = explained(case)
    rackless = any(each.reason is Reason.RACKLESS_MEMBER for each in found.findings)
    for finding in filter(full, found.findings):
        assert finding.load == finding.local
        assert rackless or finding.led - finding.local == finding.count


def test_members_that_learn_where_they_are_make_a_group_more_local() -> None:
    mended = 0
    for number in range(40):
        case = planned(random_group(f"rackless-{number}", SMALL), sticky=number % 2 == 0)
        case = replace(case, group=replace(case.group, weights=None))
        before = best_crossings(case.group, sticky=case.sticky)
        for finding in explained(case).findings:
            if finding.reason is not Reason.RACKLESS_MEMBER:
                continue
            place = places(finding)[0]
            owner = owner_of(case.assigned, place)
            rack = case.group.leader_racks[place[0]][place[1]]
            members = tuple(
                replace(each, rack=rack) if each.id == owner else each
                for each in case.group.members
            )
            after = best_crossings(replace(case.group, members=members), sticky=case.sticky)
            assert after < before
            mended += 1
    assert mended
