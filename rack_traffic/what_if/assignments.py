"""The scenarios: the assignment of a group under each of them.

Apache Kafka's assignors are modelled by rackward's without racks. Without racks, rackward's range
assignor with ``co_partitioned=False`` assigns exactly like Apache's RangeAssignor. Its rack-aware
variant (KIP-881) gives the same result if every partition has a replica in every rack, or if the
members have no racks. Rackward's sticky assignor has the two objectives of Apache's, balance and
then as few moves as possible, but reaches the optimum where Apache's is greedy: Apache's makes at
least as many moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Plan
from placement_core import TopicPartition
from rack_traffic.what_if.inputs import GroupCase, ScenarioAssignment
from rack_traffic.what_if.leader_layout import LeaderLayout

RANGE = "leader-rack-aware-range"
COOPERATIVE_STICKY = "leader-rack-aware-cooperative-sticky"

Owners = dict[TopicPartition, str]
"""Partition to member id."""


def scenario_assignments(case: GroupCase, layout: LeaderLayout) -> list[ScenarioAssignment]:
    """Return the assignment of each scenario, in the order of ``output_tables.SCENARIOS``.

    ``layout`` is that of all groups that share topics with this one. Its moves are those of the
    first of these groups, so that they count once.
    """
    leaders = {p: case.rack_of(each.leader) for p, each in case.partitions.items()}
    leader_racks = case.leader_racks()
    no_racks: dict[str, list[str | None]] = {
        topic: [None] * len(racks) for topic, racks in leader_racks.items()
    }
    rackless = [replace(member, rack=None) for member in case.members]
    current = current_owners(case)
    new_leaders = {partition: layout.racks[partition] for partition in case.partitions}
    leader_moves = layout.moves if case.group == layout.first_group else 0
    sticky = LeaderRackAwareCooperativeSticky()
    separate_range = LeaderRackAwareRange(co_partitioned=False)
    return [
        ScenarioAssignment("as_is", case.assignor, current, leaders),
        ScenarioAssignment(
            "apache_range",
            "range",
            _owners(case, separate_range.assign(rackless, no_racks)),
            leaders,
        ),
        ScenarioAssignment(
            "apache_cooperative_sticky",
            "cooperative-sticky",
            _owners(case, sticky.assign(rackless, no_racks)),
            leaders,
        ),
        ScenarioAssignment(
            "rackward_range",
            RANGE,
            _owners(case, LeaderRackAwareRange().assign(case.members, leader_racks)),
            leaders,
        ),
        ScenarioAssignment(
            "rackward_cooperative_sticky",
            COOPERATIVE_STICKY,
            _owners(case, sticky.assign(case.members, leader_racks)),
            leaders,
        ),
        ScenarioAssignment(
            "rackward_after_leader_layout",
            COOPERATIVE_STICKY,
            _owners(case, sticky.assign(case.members, case.racks_by_topic(new_leaders))),
            new_leaders,
            leader_moves,
        ),
        ScenarioAssignment(
            "follower_fetching", case.assignor, current, follower_fetching_racks(case, current)
        ),
    ]


def current_owners(case: GroupCase) -> Owners:
    """Return the current owner of each partition."""
    return {
        partition: member.id
        for member in case.members
        for topic, numbers in member.owned.items()
        for number in numbers
        if (partition := TopicPartition(topic, number)) in case.partitions
    }


def follower_fetching_racks(
    case: GroupCase, owner: Mapping[TopicPartition, str]
) -> dict[TopicPartition, str | None]:
    """Return the rack that each partition is read from with follower fetching (KIP-392).

    It is the rack of the owner if an in-sync replica is there, else the rack of the leader.
    """
    rack = {member.id: member.rack for member in case.members}
    racks = {}
    for partition, each in case.partitions.items():
        own = rack.get(owner.get(partition, ""))
        is_local = own is not None and any(case.rack_of(broker) == own for broker in each.isr)
        racks[partition] = own if is_local else case.rack_of(each.leader)
    return racks


def _owners(case: GroupCase, plan: Plan) -> Owners:
    """Return the owners under ``plan``, without partitions that no snapshot contains."""
    return {
        partition: member
        for member, topics in plan.partitions.items()
        for topic, numbers in topics.items()
        for number in numbers
        if (partition := TopicPartition(topic, number)) in case.partitions
    }
