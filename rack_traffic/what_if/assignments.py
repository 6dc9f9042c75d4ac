"""The scenarios: the assignment of a group under each of them.

Apache Kafka's assignors are modelled by rackward's without racks. Without racks, rackward's range
assignor with ``co_partitioned=False`` assigns exactly like Apache's RangeAssignor. Its rack-aware
variant (KIP-881) gives the same result if every partition has a replica in every rack, or if the
members have no racks. Rackward's sticky assignor has the two objectives of Apache's, balance and
then as few moves as possible, but reaches the optimum where Apache's is greedy: Apache's makes at
least as many moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import numpy as np

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Plan
from assignors.group import AssignedPartitions
from placement_core import TopicPartition, source_rack
from placement_core.flow import IntArray
from rack_traffic.what_if.cases import NO_OWNER, GroupCase, ScenarioAssignment
from rack_traffic.what_if.leader_layout import LeaderLayout

RANGE = "leader-rack-aware-range"
COOPERATIVE_STICKY = "leader-rack-aware-cooperative-sticky"

Value = TypeVar("Value")

Assigned = Mapping[str, Mapping[str, Sequence[int]]]
"""Member id to topic to partitions."""


def scenario_assignments(case: GroupCase, layout: LeaderLayout) -> list[ScenarioAssignment]:
    """Return the assignment of each scenario of the group, as in ``output_tables.SCENARIOS``.

    ``layout`` is that of all groups that share topics with this one. Its moves are those of the
    first of these groups, so that they count once.
    """
    as_is, follower_fetching = present_assignments(case)
    # No change where all brokers select replicas already.
    last = [] if case.racks.keys() <= case.selecting else [follower_fetching]
    current, leaders = as_is.owner, case.leader_racks()
    indexes = _indexes(case.partitions)
    leader_racks = _by_topic(indexes, leaders, None)
    new_leaders = [layout.racks[partition] for partition in case.partitions]
    leader_moves = layout.moves if case.group == layout.first_group else 0
    if case.assigned_by_brokers:
        moved = ScenarioAssignment(
            "leader_layout",
            case.assignor,
            current,
            _sources(case, current, new_leaders),
            leader_moves,
        )
        return [as_is, moved, *last]
    no_racks: dict[str, list[str | None]] = {
        topic: [None] * len(racks) for topic, racks in leader_racks.items()
    }
    rackless = [replace(member, rack=None) for member in case.members]
    sticky = LeaderRackAwareCooperativeSticky()
    separate_range = LeaderRackAwareRange(co_partitioned=False)
    plans = {
        "apache_range": separate_range.assign(rackless, no_racks),
        "apache_cooperative_sticky": sticky.assign(rackless, no_racks),
        "rackward_range": LeaderRackAwareRange().assign(case.members, leader_racks),
        "rackward_cooperative_sticky": sticky.assign(case.members, leader_racks),
        "rackward_after_leader_layout": sticky.assign(
            case.members, _by_topic(indexes, new_leaders, None)
        ),
    }
    owner = {name: _planned_owners(case, indexes, plan) for name, plan in plans.items()}
    owner["rackward_by_bytes"] = _owners_by_bytes(
        case, indexes, owner["rackward_cooperative_sticky"], leaders
    )

    def scenario(name: str, assignor: str) -> ScenarioAssignment:
        return ScenarioAssignment(name, assignor, owner[name], _sources(case, owner[name], leaders))

    after_layout = owner["rackward_after_leader_layout"]
    return [
        as_is,
        scenario("apache_range", "range"),
        scenario("apache_cooperative_sticky", "cooperative-sticky"),
        scenario("rackward_range", RANGE),
        scenario("rackward_cooperative_sticky", COOPERATIVE_STICKY),
        scenario("rackward_by_bytes", COOPERATIVE_STICKY),
        ScenarioAssignment(
            "rackward_after_leader_layout",
            COOPERATIVE_STICKY,
            after_layout,
            _sources(case, after_layout, new_leaders),
            leader_moves,
        ),
        *last,
    ]


def present_assignments(case: GroupCase) -> tuple[ScenarioAssignment, ScenarioAssignment]:
    """Return what the members read now: as it is, and with follower fetching (KIP-392) of all."""
    leaders = case.leader_racks()
    owned = {member.id: member.owned for member in case.members}
    owner = _owners(case, _indexes(case.partitions), owned)
    everywhere = replace(
        case,
        selecting=frozenset(case.racks),
        sends_rack=dict.fromkeys((member.id for member in case.members), True),
    )
    nearest = _sources(everywhere, owner, leaders)
    return (
        ScenarioAssignment("as_is", case.assignor, owner, _sources(case, owner, leaders)),
        ScenarioAssignment("follower_fetching", case.assignor, owner, nearest),
    )


def _sources(
    case: GroupCase, owner: IntArray, leaders: Sequence[str | None]
) -> Sequence[str | None]:
    """Return the rack that each partition is read from, given the racks of the leaders.

    How a member reads does not depend on who assigns its partitions.
    """
    if not case.may_follow:
        return leaders
    in_sync = {each.isr for each in case.partitions.values()}
    racks_of = {
        isr: {rack for rack in map(case.rack_of, isr) if rack is not None} for isr in in_sync
    }
    racks = []
    for number, each, leader in zip(owner.tolist(), case.partitions.values(), leaders, strict=True):
        if number == NO_OWNER or each.leader not in case.selecting:
            racks.append(leader)
            continue
        member = case.members[number]
        sends_rack = case.sends_rack.get(member.id)
        racks.append(source_rack(member.rack, leader, racks_of[each.isr], sends_rack))
    return racks


def _owners_by_bytes(
    case: GroupCase,
    indexes: Mapping[str, IntArray],
    owner: IntArray,
    leaders: Sequence[str | None],
) -> IntArray:
    """Return the owners if the assignor knows bytes; ``owner``, if that crosses racks nowhere."""
    racks = [member.rack for member in case.members]
    if all(
        number == NO_OWNER or racks[number] == leader
        for number, leader in zip(owner.tolist(), leaders, strict=True)
    ):
        return owner
    weights = [float(each.bytes) for each in case.partitions.values()]
    plan = LeaderRackAwareCooperativeSticky().assign(
        case.members, _by_topic(indexes, leaders, None), _by_topic(indexes, weights, 0.0)
    )
    return _planned_owners(case, indexes, plan)


def _indexes(partitions: Mapping[TopicPartition, object]) -> dict[str, IntArray]:
    """Return topic to an array: the index of each of its partitions in ``partitions``.

    Partitions that no snapshot contains have the index -1.
    """
    by_topic: dict[str, dict[int, int]] = {}
    for index, (topic, number) in enumerate(partitions):
        by_topic.setdefault(topic, {})[number] = index
    indexes = {}
    for topic, of_topic in by_topic.items():
        indexes[topic] = np.full(max(of_topic) + 1, -1, np.int64)
        indexes[topic][list(of_topic)] = list(of_topic.values())
    return indexes


def _by_topic(
    indexes: Mapping[str, IntArray], values: Sequence[Value], missing: Value
) -> dict[str, list[Value]]:
    """Return ``values``, which are in the order of the partitions, as input of an assignor: topic
    to list, in which the index is the partition. Partitions that no snapshot contains have
    ``missing``."""
    return {
        topic: [missing if number < 0 else values[number] for number in index.tolist()]
        for topic, index in indexes.items()
    }


def _owners(case: GroupCase, indexes: Mapping[str, IntArray], assigned: Assigned) -> IntArray:
    """Return the owner of each partition under ``assigned``, which may contain others too."""
    # The last element stands for all partitions with the index -1.
    owner = np.full(len(case.partitions) + 1, NO_OWNER, np.int64)
    for number, member in enumerate(case.members):
        for topic, partitions in assigned[member.id].items():
            index = indexes.get(topic)
            if index is not None:
                known = [each for each in partitions if each is not None and each < len(index)]
                owner[index[known]] = number
    return owner[:-1]


def _planned_owners(case: GroupCase, indexes: Mapping[str, IntArray], plan: Plan) -> IntArray:
    """Return the owner of each partition under a plan for the topics of ``indexes``."""
    assigned = plan.partitions
    assert isinstance(assigned, AssignedPartitions)
    number = {member.id: number for number, member in enumerate(case.members)}
    # The last element stands for UNASSIGNED, -1.
    members = np.array([*map(number.__getitem__, assigned.ids), NO_OWNER], np.int64)
    owners = members[assigned.assigned]
    owner = np.full(len(case.partitions) + 1, NO_OWNER, np.int64)
    for topic, (start, end) in zip(assigned.topics, pairwise(assigned.base.tolist()), strict=True):
        owner[indexes[topic]] = owners[start:end]
    return owner[:-1]
