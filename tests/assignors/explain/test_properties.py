"""Explanations of random groups, against tables, brute force and an independent solver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.explain import Explanation, LocalityFinding, Reason, Remedy, RemedyKind, explain
from tests.support.assignment_problems import (
    UNASSIGNED,
    Facts,
    Problem,
    Value,
    level_counts,
    rack_levels,
    range_problem,
    read_group,
    sticky_parts,
    topic_groups,
)
from tests.support.oracles import brute_force as oracle_brute
from tests.support.oracles import solver as oracle_solver
from tests.support.random_groups import MIDDLE, SMALL, Group, groups, random_group

TopicPartition = tuple[str, int]
Assigned = dict[str, dict[str, list[int]]]


@dataclass(frozen=True)
class Case:
    """A group, which assignor it has, and the assignment in force."""

    group: Group
    sticky: bool
    assigned: Assigned

    @property
    def assignor(self) -> LeaderRackAwareCooperativeSticky | LeaderRackAwareRange:
        """The assignor with the group's options."""
        max_imbalance = self.group.max_imbalance
        if self.sticky:
            return LeaderRackAwareCooperativeSticky(max_imbalance=max_imbalance)
        return LeaderRackAwareRange(
            co_partitioned=self.group.co_partitioned, max_imbalance=max_imbalance
        )

    @property
    def facts(self) -> Facts:
        """The group as tables."""
        return read_group(self.group.members, self.group.leader_racks, self.group.weights)

    def assignees(self, facts: Facts) -> list[int]:
        """Return per cell the member that reads it, or UNASSIGNED."""
        index = {member.id: at for at, member in enumerate(facts.members)}
        assignee = {
            (topic, number): index[member]
            for member, topics in self.assigned.items()
            for topic, numbers in topics.items()
            for number in numbers
        }
        return [assignee.get(cell, UNASSIGNED) for cell in facts.cells]


def planned(group: Group, *, sticky: bool) -> Case:
    """Return the case in which the assignor's own plan is in force."""
    case = Case(group, sticky, {})
    plan = case.assignor.assign(group.members, group.leader_racks, group.weights)
    return replace(
        case,
        assigned={
            m: {t: list(ps) for t, ps in topics.items()} for m, topics in plan.partitions.items()
        },
    )


def shuffled(case: Case, rng: Random, *, unread: bool) -> Case:
    """Return the case with some partitions read by another subscriber, or by none."""
    facts = case.facts
    assigned: Assigned = {member.id: {} for member in facts.members}
    for cell, candidates, assignee in zip(
        facts.cells, facts.candidates, case.assignees(facts), strict=True
    ):
        chosen = rng.choice(candidates) if rng.random() < 0.5 else assignee
        if unread and rng.random() < 0.2:
            continue
        assigned[facts.members[chosen].id].setdefault(cell[0], []).append(cell[1])
    return replace(case, assigned=assigned)


def crossings(facts: Facts, assignees: Sequence[int]) -> tuple[int, ...]:
    """Return the traffic across each level."""
    return level_counts(
        [
            (0 if assignee == UNASSIGNED else crossed[assignee], weight)
            for crossed, assignee, weight in zip(
                facts.crossed, assignees, facts.weights, strict=True
            )
        ],
        facts.depth,
    )


def best_crossings(group: Group, *, sticky: bool) -> tuple[int, ...]:
    """Return the minimum traffic across each level over all balanced assignments."""
    facts = read_group(group.members, group.leader_racks, group.weights)
    total = [0] * facts.depth
    for problem in _problems(group, facts, sticky=sticky):
        best = _best(problem)
        crossed = best[: facts.depth] if problem.local_first else best[1 : 1 + facts.depth]
        total = [sum(pair) for pair in zip(total, crossed, strict=True)]
    return tuple(total)


def _problems(group: Group, facts: Facts, *, sticky: bool) -> list[Problem]:
    if sticky:
        return [part.problem for part in sticky_parts(facts, group.max_imbalance)]
    nothing = [0] * len(facts.members)
    groups = topic_groups(facts, co_partitioned=group.co_partitioned)
    return [range_problem(facts, each, nothing, group.max_imbalance)[0] for each in groups]


def _best(problem: Problem) -> Value:
    best = oracle_solver.best_value(problem)
    if oracle_brute.count_solutions(problem) <= oracle_brute.MAX_SOLUTIONS:
        assert oracle_brute.best_value(problem) == best
    return best


def apply_remedy(group: Group, remedy: Remedy) -> Group:
    """Return the group as it is after the remedy."""
    racks = {topic: list(row) for topic, row in group.leader_racks.items()}
    members = list(group.members)
    if remedy.kind is RemedyKind.MOVE_LEADERS:
        for rack, partitions in remedy.moves.items():
            for topic, numbers in partitions.items():
                for number in numbers:
                    racks[topic][number] = rack
    elif remedy.kind is RemedyKind.START_MEMBERS:
        topics = frozenset(remedy.topics)
        members += [Member(f"started {n}", topics, remedy.rack) for n in range(remedy.count)]
    elif remedy.kind is RemedyKind.SUBSCRIBE:
        members = [
            replace(each, topics=frozenset(each.topics) | frozenset(remedy.topics))
            if rack_levels(each.rack) == rack_levels(remedy.rack)
            else each
            for each in members
        ]
    elif remedy.kind is RemedyKind.SEPARATE_TOPICS:
        return replace(group, co_partitioned=False)
    else:
        assert remedy.kind is RemedyKind.REBALANCE, f"{remedy.kind} makes no claim"
    return replace(group, members=tuple(members), leader_racks=racks)


def has_rackless_members(group: Group) -> bool:
    return any(rack_levels(member.rack) == () for member in group.members)


def topic_partitions(finding: LocalityFinding) -> list[TopicPartition]:
    """Return the finding's partitions."""
    return [(topic, n) for topic, numbers in finding.partitions.items() for n in numbers]


def owner_of(
    assigned: Mapping[str, Mapping[str, Sequence[int]]], topic_partition: TopicPartition
) -> str | None:
    """Return the member that reads a partition, None if there is none."""
    for member, topics in assigned.items():
        if topic_partition[1] in topics.get(topic_partition[0], ()):
            return member
    return None


LIMIT = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


# Cases, their explanations, and the checks of these.


def explained(case: Case) -> Explanation:
    group = case.group
    return explain(group.members, group.leader_racks, case.assigned, case.assignor, group.weights)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a group with its assignor's plan, or with another assignment."""
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


def check_counts(case: Case, explanation: Explanation) -> None:
    """Check that each partition that is not local is in one finding, and the figures."""
    facts = case.facts
    assignees = case.assignees(facts)
    leader_of = {
        cell: rack_levels(case.group.leader_racks[cell[0]][cell[1]]) for cell in facts.cells
    }
    unread = {
        c for c, assignee in zip(facts.cells, assignees, strict=True) if assignee == UNASSIGNED
    }
    reader_of = {
        cell: () if assignee == UNASSIGNED else rack_levels(facts.members[assignee].rack)
        for cell, assignee in zip(facts.cells, assignees, strict=True)
    }
    unknown = {c for c in facts.cells if leader_of[c] == () or reader_of[c] == ()} - unread
    off_rack = {
        cell
        for cell, assignee, crossed in zip(facts.cells, assignees, facts.crossed, strict=True)
        if assignee != UNASSIGNED and crossed[assignee] > 0
    } - unknown
    assert (
        explanation.partitions,
        explanation.unread,
        explanation.unknown,
        explanation.off_rack,
    ) == (*(len(facts.cells), len(unread), len(unknown), len(off_rack)),)
    assert (
        explanation.local
        == explanation.partitions - explanation.unread - explanation.unknown - explanation.off_rack
    )
    reported = Counter(
        topic_partition
        for finding in explanation.findings
        for topic_partition in topic_partitions(finding)
    )
    assert reported == Counter(unread | unknown | off_rack)
    for finding in explanation.findings:
        assert finding.count == len(topic_partitions(finding)) > 0
        assert finding.reason.off_rack == (topic_partitions(finding)[0] in off_rack)
    assert len({(each.reason, each.rack) for each in explanation.findings}) == len(
        explanation.findings
    )


def check_optimality(case: Case, explanation: Explanation) -> None:
    """Check that NOT_OPTIMAL is reported if and only if an oracle finds a better assignment."""
    facts = case.facts
    best = best_crossings(case.group, sticky=case.sticky)
    rackless = has_rackless_members(case.group)
    if case.group.weights is None and not rackless:
        assert explanation.optimum == best[-1]
    assignees = case.assignees(facts)
    if UNASSIGNED in assignees:
        return
    now = crossings(facts, assignees)
    improvable = any(each.reason is Reason.NOT_OPTIMAL for each in explanation.findings)
    # What a rackless member reads may be local already.
    assert improvable == (now > best) or (rackless and not improvable)
    assert explanation.uneven == (now < best)


def check_remedies(case: Case, explanation: Explanation) -> None:
    """Check that the effect of each remedy is as claimed, and an improvement."""
    for finding in explanation.findings if case.group.weights is None else ():
        for remedy in finding.remedies:
            if remedy.off_rack_after is None:
                continue
            group = apply_remedy(case.group, remedy)
            best = best_crossings(group, sticky=case.sticky)[-1]
            # The oracle counts all that rackless members read.
            assert remedy.off_rack_after == best or (
                has_rackless_members(group) and remedy.off_rack_after < best
            )
            if not finding.reason.fixed_by_rebalance:
                assert remedy.off_rack_after < explanation.optimum


def check_reasons(case: Case, explanation: Explanation) -> None:
    """Check each reason for each of its partitions."""
    members = {member.id: member for member in case.group.members}
    for finding in explanation.findings:
        for topic_partition in topic_partitions(finding):
            topic, number = topic_partition
            owner = owner_of(case.assigned, topic_partition)
            leader_rack = rack_levels(case.group.leader_racks[topic][number])
            depth = case.facts.depth
            in_rack = [
                m
                for m in members.values()
                if leader_rack and rack_levels(m.rack)[:depth] == leader_rack
            ]
            if finding.reason in (Reason.UNREAD, Reason.LEADER_UNKNOWN, Reason.NOT_OPTIMAL):
                continue
            assert owner is not None
            assert (rack_levels(members[owner].rack) == ()) == (
                finding.reason is Reason.RACKLESS_MEMBER
            )
            if finding.reason is Reason.RACKLESS_MEMBER:
                assert owner in finding.members
                continue
            assert rack_levels(finding.rack) == leader_rack
            assert finding.members_in_rack == len(in_rack)
            assert finding.leaders_in_rack == sum(
                rack_levels(case.group.leader_racks[t][n]) == leader_rack
                for t, n in case.facts.cells
            )
            assert (finding.reason is Reason.NO_MEMBER_IN_RACK) == (not in_rack)
            if in_rack:
                subscribed = any(topic in each.topics for each in in_rack)
                assert (finding.reason is Reason.NOT_SUBSCRIBED_IN_RACK) == (not subscribed)
            if finding.reason is Reason.CO_PARTITIONED:
                assert not case.sticky
                assert any(
                    number in numbers
                    and other != topic
                    and rack_levels(case.group.leader_racks[other][number])
                    == rack_levels(members[owner].rack)[:depth]
                    for other, numbers in case.assigned[owner].items()
                )


def check(case: Case) -> None:
    """Check all properties."""
    explanation = explained(case)
    check_counts(case, explanation)
    check_optimality(case, explanation)
    check_remedies(case, explanation)
    check_reasons(case, explanation)


@LIMIT
@given(cases())
def test_generated_groups(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("chunk", range(2))
def test_seeded_groups(chunk: int) -> None:
    for number in range(chunk * 30, (chunk + 1) * 30):
        case = seeded(number)
        try:
            check(case)
        except Exception as error:
            error.add_note(f"number {number}: {case}")
            raise


def test_setting_a_missing_rack_makes_a_group_more_local() -> None:
    improved = 0
    for number in range(40):
        case = planned(random_group(f"rackless-{number}", SMALL), sticky=number % 2 == 0)
        case = replace(case, group=replace(case.group, weights=None))
        before = best_crossings(case.group, sticky=case.sticky)
        for finding in explained(case).findings:
            if finding.reason is not Reason.RACKLESS_MEMBER:
                continue
            topic_partition = topic_partitions(finding)[0]
            owner = owner_of(case.assigned, topic_partition)
            rack = case.group.leader_racks[topic_partition[0]][topic_partition[1]]
            members = tuple(
                replace(each, rack=rack) if each.id == owner else each
                for each in case.group.members
            )
            after = best_crossings(replace(case.group, members=members), sticky=case.sticky)
            assert after < before
            improved += 1
    assert improved
