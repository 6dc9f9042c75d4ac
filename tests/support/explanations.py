"""What explanations are compared with: figures computed without the code under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.explain import LocalityFinding, Remedy, RemedyKind
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
from tests.support.random_groups import Group

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
            (0 if assignee == UNASSIGNED else crossed[assignee], steps)
            for crossed, assignee, steps in zip(facts.crossed, assignees, facts.steps, strict=True)
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
    else:
        assert remedy.kind is RemedyKind.REBALANCE, f"{remedy.kind} makes no claim"
    return replace(group, members=tuple(members), leader_racks=racks)


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
