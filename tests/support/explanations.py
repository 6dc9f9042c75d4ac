"""What an explanation is held against: counted and solved without the code under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.explain import Finding, Remedy, RemedyKind
from tests.support.assignment_facts import NOBODY, Facts, level_counts, rack_levels, read_group
from tests.support.assignment_problems import (
    Problem,
    Value,
    range_problem,
    sticky_parts,
    topic_groups,
)
from tests.support.oracles import brute_force as oracle_brute
from tests.support.oracles import solver as oracle_solver
from tests.support.random_groups import Group

Place = tuple[str, int]
Assigned = dict[str, dict[str, list[int]]]


@dataclass(frozen=True)
class Case:
    """A group, the assignor that says what is best, and who reads what now."""

    group: Group
    sticky: bool
    assigned: Assigned

    @property
    def assignor(self) -> LeaderRackAwareCooperativeSticky | LeaderRackAwareRange:
        """The pure assignor with the group's options."""
        most = self.group.max_imbalance
        if self.sticky:
            return LeaderRackAwareCooperativeSticky(max_imbalance=most)
        return LeaderRackAwareRange(co_partitioned=self.group.co_partitioned, max_imbalance=most)

    @property
    def facts(self) -> Facts:
        """The group's tables."""
        return read_group(self.group.members, self.group.leader_racks, self.group.weights)

    def holders(self, facts: Facts) -> list[int]:
        """Per cell the member that reads it, or NOBODY."""
        index = {member.id: at for at, member in enumerate(facts.members)}
        holder = {
            (topic, number): index[member]
            for member, topics in self.assigned.items()
            for topic, numbers in topics.items()
            for number in numbers
        }
        return [holder.get(cell, NOBODY) for cell in facts.cells]


def planned(group: Group, *, sticky: bool) -> Case:
    """The case in which the assignor's own plan is in force."""
    case = Case(group, sticky, {})
    plan = case.assignor.assign(group.members, group.leader_racks, group.weights)
    return replace(
        case,
        assigned={
            m: {t: list(ps) for t, ps in share.items()} for m, share in plan.partitions.items()
        },
    )


def shuffled(case: Case, rng: Random, *, unread: bool) -> Case:
    """The same with some partitions read by any other subscriber, or by nobody."""
    facts = case.facts
    assigned: Assigned = {member.id: {} for member in facts.members}
    for cell, takers, holder in zip(facts.cells, facts.takers, case.holders(facts), strict=True):
        chosen = rng.choice(takers) if rng.random() < 0.5 else holder
        if unread and rng.random() < 0.2:
            continue
        assigned[facts.members[chosen].id].setdefault(cell[0], []).append(cell[1])
    return replace(case, assigned=assigned)


def crossings(facts: Facts, holders: Sequence[int]) -> tuple[int, ...]:
    """The traffic across each level."""
    return level_counts(
        [
            (0 if holder == NOBODY else crossed[holder], steps)
            for crossed, holder, steps in zip(facts.crossed, holders, facts.steps, strict=True)
        ],
        facts.depth,
    )


def best_crossings(group: Group, *, sticky: bool) -> tuple[int, ...]:
    """The least traffic across each level of any assignment in balance."""
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
    if oracle_brute.answers(problem) <= oracle_brute.MOST_ANSWERS:
        assert oracle_brute.best_value(problem) == best
    return best


def done(group: Group, remedy: Remedy) -> Group:
    """The group after what the remedy says was done."""
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
    else:
        assert remedy.kind is RemedyKind.REBALANCE, f"nothing is claimed of {remedy.kind}"
    return replace(group, members=tuple(members), leader_racks=racks)


def places(finding: Finding) -> list[Place]:
    """The finding's partitions."""
    return [(topic, n) for topic, numbers in finding.partitions.items() for n in numbers]


def owner_of(assigned: Mapping[str, Mapping[str, Sequence[int]]], place: Place) -> str | None:
    """Who reads a partition."""
    for member, topics in assigned.items():
        if place[1] in topics.get(place[0], ()):
            return member
    return None
