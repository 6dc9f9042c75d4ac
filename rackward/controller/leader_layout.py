"""Moves partition leaders, from time to time, to the racks of their present consumers.

Groups of rackward's assignors follow the leaders; the leaders of all other groups follow the
assignment. A group that assigns its partitions anew after each layout would never be done, so a
layout is followed by a rest, which doubles as long as the result of the last layout is lost.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

from placement_core.cluster import Move
from placement_core.leaders import plan_leaders
from placement_core.locators import RackLocator
from rackward.controller.config import LeaderLayoutConfig
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import (
    Readers,
    find_groups,
    is_stable,
    list_matching_groups,
    may_read_followers,
    readers_of_groups,
)
from rackward.kafka import AdminConnection, ClusterState, read_state
from rackward.kafka.groups import CLASSIC, CONSUMER, Group
from rackward.kafka.tolerant_reader import TolerantReader
from rackward.reassignment import ExecutionOptions, Executor, LiveCluster
from rackward.reassignment.planner import planning_view

STALL_SECONDS = 30.0
MAX_REST_FACTOR = 16
"""The maximum rest, as a multiple of ``min_interval``."""

log = logging.getLogger("rackward.controller")


@dataclass(frozen=True, slots=True)
class LeaderLayoutPlan:
    """``moves``, some of which only elect a leader, that change the partitions that are read
    locally from ``before`` to ``after``, of ``partitions``; a partition counts once for each group
    that reads it."""

    moves: tuple[Move, ...] = ()
    before: int = 0
    after: int = 0
    partitions: int = 0

    @property
    def gain(self) -> float:
        """The share of the partitions that become local."""
        return (self.after - self.before) / self.partitions if self.partitions else 0.0


@dataclass(frozen=True, slots=True)
class LayoutHistory:
    """The last layout: the time before which no other is applied, and what it was to reach.

    ``rest`` are the seconds between the two, ``local_share`` the share of partitions that are read
    locally after it; None if there was none.
    """

    not_before: float = -math.inf
    rest: float = 0.0
    local_share: float | None = None

    def permits(self, plan: LeaderLayoutPlan, config: LeaderLayoutConfig, now: float) -> bool:
        """Return whether ``plan`` gains enough, and the rest is over at ``now``."""
        return bool(plan.moves) and plan.gain >= config.min_gain and now >= self.not_before

    def after(
        self, plan: LeaderLayoutPlan, config: LeaderLayoutConfig, now: float
    ) -> LayoutHistory:
        """Return the history after ``plan`` was applied at ``now``.

        The rest is ``min_interval``. It is twice the last one, up to MAX_REST_FACTOR times
        ``min_interval``, if what the last layout reached was lost by ``min_gain`` or more.
        """
        rest = config.min_interval
        if self.local_share is not None:
            lost = self.local_share - plan.before / plan.partitions
            if lost > 0 and lost >= config.min_gain:
                rest = min(2 * self.rest, MAX_REST_FACTOR * config.min_interval)
        return LayoutHistory(now + rest, rest, plan.after / plan.partitions)


class LeaderLayouts:
    """Plans and applies the leader layouts of one controller."""

    def __init__(self, config: LeaderLayoutConfig, locator: RackLocator) -> None:
        self._config, self._locator = config, locator
        self._history = LayoutHistory()

    def apply(self, admin: AdminConnection, now: float) -> LeaderLayoutPlan | None:
        """Plan a leader layout and apply it; return the plan, or None if it was not applied.

        It is not applied while the cluster or a group is not stable, if the gain is below
        ``min_gain``, or during the rest after the last one. ``now`` is in seconds. Raises
        RackwardError: also what the guard of ``admin`` raises, in the middle of a layout.
        """
        state = read_state(admin)
        if (reason := unstable_reason(state)) is not None:
            log.info("leader layout skipped: %s", reason)
            return None
        groups = read_matching_groups(admin, state, self._config.groups)
        for group in groups:
            if not is_stable(group):
                log.info("leader layout skipped: group=%s state=%s", group.id, group.state)
                return None
        selectors = TolerantReader(admin).replica_selectors(sorted(state.view.racks()))
        if following := [each.id for each in groups if may_read_followers(each, selectors)]:
            log.info("leader layout leaves out readers of followers: groups=%s", following)
            groups = [group for group in groups if group.id not in following]
        plan = plan_leader_layout(state, readers_of_groups(groups, HostRacks()), self._locator)
        if not self._history.permits(plan, self._config, now):
            log.info(
                "leader layout unchanged: partitions=%d local=%d local_at_best=%d resting=%s",
                plan.partitions,
                plan.before,
                plan.after,
                str(now < self._history.not_before).lower(),
            )
            return None
        self._history = self._history.after(plan, self._config, now)
        options = ExecutionOptions(stall_timeout=STALL_SECONDS)
        result = Executor(plan.moves, {}, LiveCluster(admin), options, lambda _: None).run()
        log.info(
            "leader layout applied: partitions=%d local=%d local_before=%d leaders_moved=%d "
            "rest_seconds=%.0f%s",
            plan.partitions,
            plan.after,
            plan.before,
            result.completed,
            self._history.rest,
            "" if result.ok else "; some partitions could not be moved",
        )
        return plan


def unstable_reason(state: ClusterState) -> str | None:
    """Return why leaders should not move now, as key=value; None if the cluster is stable.

    It is not while partitions are being reassigned, a broker is down, or replicas are not in sync:
    leaders then move by themselves, and a layout for them would be wrong minutes later.
    """
    live = state.view.racks()
    if state.reassignments:
        return f"reassignments_in_progress={len(state.reassignments)}"
    down = {broker.id for broker in state.fenced}
    for row in state.view.replicas.values():
        down.update(broker for broker in row if broker not in live)
    if down:
        return f"brokers_down={','.join(map(str, sorted(down)))}"
    behind = sorted(
        tp for tp, row in state.view.replicas.items() if set(row) - set(state.in_sync.get(tp, ()))
    )
    if behind:
        example = f"{behind[0].topic}-{behind[0].partition}"
        return f"partitions_out_of_sync={len(behind)} first={example}"
    return None


def read_matching_groups(
    admin: AdminConnection, state: ClusterState, patterns: tuple[str, ...]
) -> list[Group]:
    """Return the consumer groups that match a pattern and have members, by name.

    Raises AdminError.
    """
    brokers = state.view.racks()
    listed = list_matching_groups(admin, brokers, patterns, (CLASSIC, CONSUMER))
    names = {each.id for each in listed}
    return [
        group for _, group in sorted(find_groups(admin, brokers, names).items()) if group.members
    ]


def plan_leader_layout(
    state: ClusterState, readers: Readers, locator: RackLocator
) -> LeaderLayoutPlan:
    """Return the leader layout for the readers. Raises what ``locator`` raises.

    A partition that has its replicas in the right order, but not yet its leader, is a move without
    a change, which elects it: the layout of a controller that was killed, or lost its lease, is
    completed by the next one.
    """
    topics = readers.topics & state.topic_ids.keys()
    if not topics:
        return LeaderLayoutPlan()
    layout = plan_leaders(
        planning_view(state, locator),
        readers.demands,
        assignments=readers.assignments,
        topics=topics,
        max_imbalance=readers.max_imbalance,
        only_gains=True,
    )
    not_elected = (
        Move(tp, row, row)
        for tp, row in layout.order.items()
        if row == state.view.replicas[tp] and state.view.leader(tp) not in (None, row[0])
    )
    return LeaderLayoutPlan(
        tuple(sorted((*layout.moves, *not_elected), key=lambda move: move.partition)),
        before=sum(each.before for each in layout.localities),
        after=sum(each.after for each in layout.localities),
        partitions=sum(each.partitions for each in layout.localities),
    )
