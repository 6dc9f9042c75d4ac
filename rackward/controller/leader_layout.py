"""Moves partition leaders, from time to time, to the racks of their present consumers."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from fnmatch import fnmatchcase

from placement_core.cluster import Move
from placement_core.leaders import plan_leaders
from placement_core.locators import RackLocator
from rackward.admin import AdminConnection, ClusterState, read_state
from rackward.admin.groups import list_groups
from rackward.controller.config import LeaderLayoutConfig
from rackward.group_readers import demand_of_group, find_groups, subscribed_topics
from rackward.host_racks import HostRacks
from rackward.reassignment import ExecutionOptions, Executor, LiveCluster
from rackward.reassignment.planner import check_not_reassigning, planning_view
from rackward.reassignment.progress import DEFAULT_LEADER_BATCH_PARTITIONS

STALL_SECONDS = 30.0

log = logging.getLogger("rackward.controller")


@dataclass(frozen=True, slots=True)
class LeaderLayoutPlan:
    """``moves`` that change the partitions that can be read locally from ``before`` to ``after``,
    of ``partitions``; a partition counts once for each group that reads it."""

    moves: tuple[Move, ...] = ()
    before: int = 0
    after: int = 0
    partitions: int = 0

    @property
    def gain(self) -> float:
        """The share of the partitions that become local."""
        return (self.after - self.before) / self.partitions if self.partitions else 0.0


def apply_leader_layout(
    admin: AdminConnection, config: LeaderLayoutConfig, locator: RackLocator
) -> LeaderLayoutPlan | None:
    """Plan a leader layout and apply it; return the plan, or None if it was not applied.

    It is not applied while any reassignment is in progress, or if the gain is below ``min_gain``.
    Raises RackwardError.
    """
    state = read_state(admin)
    if state.reassignments:
        log.info("leader layout skipped: reassignments_in_progress=%d", len(state.reassignments))
        return None
    plan = plan_leader_layout(admin, state, config, locator)
    if not plan.moves or plan.gain < config.min_gain:
        log.info(
            "leader layout unchanged: partitions=%d local=%d local_at_best=%d",
            plan.partitions,
            plan.before,
            plan.after,
        )
        return None
    options = ExecutionOptions(
        max_batch_partitions=DEFAULT_LEADER_BATCH_PARTITIONS, stall_timeout=STALL_SECONDS
    )
    result = Executor(plan.moves, {}, LiveCluster(admin), options, lambda _: None).run()
    log.info(
        "leader layout applied: partitions=%d local=%d local_before=%d leaders_moved=%d%s",
        plan.partitions,
        plan.after,
        plan.before,
        result.completed,
        "" if result.ok else "; some partitions could not be moved",
    )
    return plan


def plan_leader_layout(
    admin: AdminConnection, state: ClusterState, config: LeaderLayoutConfig, locator: RackLocator
) -> LeaderLayoutPlan:
    """Return the leader layout for the present members of the groups. Raises RackwardError."""
    brokers = state.view.racks()
    listed = {each.id for broker in sorted(brokers) for each in list_groups(admin, broker)}
    names = {name for name in listed if any(fnmatchcase(name, each) for each in config.groups)}
    demand = [
        each
        for _, group in sorted(find_groups(admin, brokers, names).items())
        if any(subscribed_topics(group, member) for member in group.members)
        for each in demand_of_group(group, HostRacks())
    ]
    topics = frozenset().union(*(each.topics for each in demand)) & state.topic_ids.keys()
    if not topics:
        return LeaderLayoutPlan()
    check_not_reassigning(topics, state)
    layout = plan_leaders(planning_view(state, locator), demand, topics=topics)
    return LeaderLayoutPlan(
        layout.moves,
        before=sum(each.before for each in layout.localities),
        after=sum(each.after for each in layout.localities),
        partitions=sum(each.partitions for each in layout.localities),
    )
