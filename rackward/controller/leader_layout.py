"""Leaders laid out anew from time to time, for the consumers that there are then."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from fnmatch import fnmatchcase

from placement_core.cluster import Move
from placement_core.leaders import plan_leaders
from placement_core.locators import RackLocator
from rackward.admin import AdminConnection, ClusterState, read_state
from rackward.admin.groups import list_groups
from rackward.controller.config import LeaderLayouts
from rackward.group_readers import find_groups, racks_of_members, readers_of, topics_of
from rackward.reassignment import Engine, LiveCluster, Settings
from rackward.reassignment.planner import PlacementRequest, check_request, view_for
from rackward.reassignment.progress import DEFAULT_ORDER_BATCH

STALL_SECONDS = 30.0

log = logging.getLogger("rackward.controller")


@dataclass(frozen=True, slots=True)
class Proposed:
    """``moves`` that let ``after`` of ``partitions`` be read locally, and not ``before``; a
    partition counts once for each set of readers."""

    moves: tuple[Move, ...] = ()
    before: int = 0
    after: int = 0
    partitions: int = 0

    @property
    def gain(self) -> float:
        """By what share of the partitions more are local."""
        return (self.after - self.before) / self.partitions if self.partitions else 0.0


def lay_out(
    admin: AdminConnection, layouts: LeaderLayouts, locator: RackLocator
) -> Proposed | None:
    """Plan and carry out; None where it is not worth it or not the time. Raises RackwardError."""
    state = read_state(admin)
    if state.ongoing:
        log.info("leaders: %d reassignments are under way, not now", len(state.ongoing))
        return None
    proposed = propose(admin, state, layouts, locator)
    if not proposed.moves or proposed.gain < layouts.least_gain:
        log.info(
            "leaders: %d of %d partitions are local at best; %d are now: left as they are",
            proposed.after,
            proposed.partitions,
            proposed.before,
        )
        return None
    settings = Settings(most_partitions=DEFAULT_ORDER_BATCH, patience=STALL_SECONDS)
    outcome = Engine(proposed.moves, {}, LiveCluster(admin), settings, lambda _: None).run()
    log.info(
        "leaders: %d partitions have other leaders now, so that %d of %d can be read locally and "
        "not %d%s",
        outcome.placed,
        proposed.after,
        proposed.partitions,
        proposed.before,
        "" if outcome.complete else "; some could not be moved",
    )
    return proposed


def propose(
    admin: AdminConnection, state: ClusterState, layouts: LeaderLayouts, locator: RackLocator
) -> Proposed:
    """The leaders for the groups that have members now. Raises RackwardError."""
    brokers = state.view.racks()
    known = {each.id for broker in sorted(brokers) for each in list_groups(admin, broker)}
    chosen = {name for name in known if any(fnmatchcase(name, each) for each in layouts.groups)}
    rack_of = racks_of_members("mapping", None)
    groups = [
        group
        for _, group in sorted(find_groups(admin, brokers, chosen).items())
        if any(topics_of(group, member) for member in group.members)
    ]
    readers = [each for group in groups for each in readers_of(group, rack_of)]
    read = frozenset().union(*(each.topics for each in readers)) & state.topic_ids.keys()
    if not read:
        return Proposed()
    check_request(PlacementRequest(topics=read), state, leaders_only=True)
    layout = plan_leaders(view_for(state, locator), readers, topics=read)
    return Proposed(
        layout.moves,
        before=sum(each.before for each in layout.localities),
        after=sum(each.after for each in layout.localities),
        partitions=sum(each.partitions for each in layout.localities),
    )
