"""Let an assignor make a plan, and hold the plan against everything there is."""

from __future__ import annotations

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Plan
from tests.assignors.exact import check_range_plan, check_sticky_plan
from tests.assignors.random_groups import Group


def check_sticky(group: Group) -> Plan:
    """The plan of LeaderRackAwareCooperativeSticky, found valid and optimal."""
    assignor = LeaderRackAwareCooperativeSticky(max_imbalance=group.max_imbalance)
    plan = assignor.assign(group.members, group.leader_racks, group.weights)
    check_sticky_plan(group, plan)
    return plan


def check_range(group: Group) -> Plan:
    """The plan of LeaderRackAwareRange, found valid and optimal."""
    assignor = LeaderRackAwareRange(
        co_partitioned=group.co_partitioned, max_imbalance=group.max_imbalance
    )
    plan = assignor.assign(group.members, group.leader_racks, group.weights)
    check_range_plan(group, plan)
    return plan
