"""One rebalance on the group's leader: from the members' subscriptions to their assignments."""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from assignors.group import UNASSIGNED, AssignedPartitions, Group, Members
from assignors.group_leader.history import Assignment, AssignmentHistory, AssignmentInputs
from assignors.group_leader.logs import (
    NO_CONTEXT,
    GroupContext,
    LogOnce,
    format_error,
    format_list,
    log,
    sanitize,
)
from assignors.group_leader.metadata import Leaders, rack_mismatch
from assignors.group_leader.ownership import Ownership, withhold
from assignors.model import Assignor, LeaderRacks, Plan, Weights, WeightSource
from assignors.weights import resolve_weights
from placement_core import parse_rack
from placement_core.flow import IntArray

METADATA_TIMEOUT = 3.0
"""Seconds for which a leader waits for the metadata of topics that its client does not have yet."""

REVOCATION_TIMEOUT = 30.0
"""Seconds for which a leader waits for members to revoke withheld partitions and rejoin."""

MAX_TOPICS_LOGGED = 50
"""Missing topics that are logged by name; a member may subscribe to any number of them."""

NO_METADATA = "has no metadata yet (unless it is new, grant this user Describe on it)"
"""Why a topic is not assigned: it is new, or its leader may not describe it."""

MAX_PARTITIONS_OF_TOPIC, MAX_PARTITIONS_WITHOUT_METADATA = 100_000, 1_000_000
"""Of topics without metadata, the partitions that owners may keep: the arrays for them are as long
as the highest claim, and a claim may be any number."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """How a group leader assigns partitions under one protocol name.

    name
        The protocol name, for log lines and metrics.
    assignor, weights
        What computes the assignment, and the traffic that it weighs partitions by.
    cooperative
        Whether members may own partitions while they join. Then a partition is withheld until its
        owner has revoked it.
    log_once, history
        Where warnings and assignments are recorded.
    """

    name: str
    assignor: Assignor
    cooperative: bool
    weights: WeightSource | None
    log_once: LogOnce
    history: AssignmentHistory = field(default_factory=AssignmentHistory)

    def run(
        self,
        members: Members,
        leaders: Leaders,
        deleted_topics: frozenset[str] = frozenset(),
        context: GroupContext = NO_CONTEXT,
        last: Ownership | None = None,
    ) -> Assignment:
        """Return what each member is assigned, and record it in the history.

        ``leaders`` are those of the topics that members subscribe to. ``deleted_topics`` are topics
        that brokers report as unknown. Of any other topic without metadata, owners keep their
        partitions: they would get them back a moment later. ``last`` is the ``ownership`` of this
        leader's last result for the group, None if another member has led since.

        Never raises because of what a member sent, of the weights or of the assignor: such an error
        costs locality and a line in the log, not the rebalance.
        """
        started = time.perf_counter()
        weights = self.resolve_weights(leaders.racks)
        plan = self._plan(members, leaders.racks, weights)
        assigned = _assigned(plan, members, leaders.racks)
        if pending := leaders.topics_without_metadata - deleted_topics:
            assigned = assigned.followed_by(_still_owned(members, pending))
        withheld, ownership = 0, None
        if self.cooperative:
            assigned, withheld, ignored, ownership = withhold(
                assigned,
                members.instance_ids,
                members.claims_while_joining,
                members.generations,
                last,
                context.generation,
            )
            if ignored:
                self.log_once.log(
                    ("claims", *ignored),
                    "ignoring claims of partitions that members never had or do not revoke: %s",
                    format_list(ignored),
                )
        self._log_warnings(members, leaders, deleted_topics)
        assignment = Assignment(
            group=context.group,
            generation=context.generation,
            number=1,
            at=datetime.now(UTC),
            protocol=self.name,
            partitions=sum(map(len, leaders.racks.values())),
            off_rack=None if plan is None else plan.off_rack,
            optimum=None if plan is None else plan.optimum,
            moved=None if plan is None else plan.moved,
            moved_total=0 if plan is None else plan.moved,
            withheld=withheld,
            milliseconds=(time.perf_counter() - started) * 1000,
            inputs=AssignmentInputs(members, leaders, weights, self.assignor),
            assigned=assigned,
            ownership=ownership,
        )
        assignment = self.history.record(assignment)
        log.info("%s", assignment)
        return assignment

    def _plan(
        self, members: Members, leader_racks: LeaderRacks, weights: Weights | None
    ) -> Plan | None:
        """Return the assignor's plan, or None if it fails."""
        try:
            return self.assignor.assign(members, leader_racks, weights)
        except Exception as error:  # noqa: BLE001 - the group must settle
            self.log_once.log(
                ("assignor", type(error)),
                "assignor failed, assigning without regard to racks: protocol=%s error=%s",
                self.name,
                format_error(error),
                level=logging.ERROR,
                traceback_of=error,
            )
        return None

    def resolve_weights(self, topics: Iterable[str]) -> Weights | None:
        """Return the traffic of ``topics`` as far as it is known; None if nothing is."""

        def on_error(topic: str, error: Exception) -> None:
            self.log_once.log(
                ("weights", type(error)),
                "no weights: topic=%s error=%s",
                sanitize(topic),
                format_error(error),
            )

        return resolve_weights(self.weights, topics, on_error) or None

    def _log_warnings(
        self, members: Members, leaders: Leaders, deleted_topics: frozenset[str]
    ) -> None:
        log_once = self.log_once.log
        racks = {rack: parse_rack(rack) for rack in set(members.racks)}
        rackless = sorted(
            {_client_name(members, m) for m, rack in enumerate(members.racks) if not racks[rack]}
            if None in racks.values()
            else ()
        )
        if rackless:
            log_once(
                ("rackless members", *rackless),
                "members without a rack read across racks: %s",
                format_list(rackless),
            )
        rackless_brokers = sorted(b for b, rack in leaders.broker_racks.items() if not rack)
        if rackless_brokers:
            log_once(
                ("rackless brokers", *rackless_brokers),
                "brokers without broker.rack; their partitions count as local everywhere: %s",
                format_list(rackless_brokers),
            )
        mismatch = rack_mismatch(racks, leaders.broker_racks.values())
        if mismatch:
            log_once("rack mismatch", "%s", mismatch)
        for m, error in members.errors:
            log_once(
                ("subscription error", _client_name(members, m), error.partition(":")[0]),
                "ignoring a part of a subscription that cannot be decoded: member=%s error=%s",
                sanitize(members.ids[m]),
                sanitize(error, 200),
            )
        missing = sorted(leaders.topics_without_metadata)
        for topic in missing[:MAX_TOPICS_LOGGED]:
            why = "does not exist" if topic in deleted_topics else NO_METADATA
            log_once(("topic", topic, why), "subscribed topic %s: %s", why, sanitize(topic))
        if len(missing) > MAX_TOPICS_LOGGED:
            log_once("many topics", "subscribed topics without metadata: %d", len(missing))
        for topic in leaders.racks:
            self.log_once.reset(("topic", topic, "does not exist"))


def _client_name(members: Members, m: int) -> str:
    """Return a member's instance id or client id, for log lines: it survives a restart."""
    # Brokers form a dynamic member's id as its client id, a dash and 36 characters.
    member_id = members.ids[m]
    return members.instance_ids[m] or (member_id[:-37] if len(member_id) > 37 else member_id)


def _assigned(plan: Plan | None, members: Members, leader_racks: LeaderRacks) -> AssignedPartitions:
    """Return what each member is assigned by the plan, or without one."""
    if plan is not None and isinstance(plan.partitions, AssignedPartitions):
        return plan.partitions
    group = Group.of(members, leader_racks)
    return group.assignment(
        fallback_assignment(group) if plan is None else group.members_of(plan.partitions)
    )


def _still_owned(members: Members, topics: frozenset[str]) -> AssignedPartitions:
    """Return the partitions of ``topics``, which have no metadata, each for its owner."""
    claims = members.claims
    kept = (claims.number >= 0) & (claims.number < MAX_PARTITIONS_OF_TOPIC)
    sizes = np.zeros(len(claims.names), np.int64)
    np.maximum.at(sizes, claims.topic[kept], claims.number[kept] + 1)
    racks: dict[str, list[str | None]] = {}
    total = 0
    for size, topic in sorted(zip(sizes.tolist(), claims.names, strict=True)):
        if topic in topics and total + size <= MAX_PARTITIONS_WITHOUT_METADATA:
            racks[topic] = [None] * size
            total += size
    group = Group.of(members, racks)
    return group.assignment(group.owners())


def fallback_assignment(group: Group) -> IntArray:
    """Return a balanced assignment without regard to racks, for when the assignor fails.

    Each partition stays with its owner unless that has the ceiling of the average load; then it
    goes to its least loaded subscriber. Owners keep partitions so that a cooperative group settles
    on this assignment, too.
    """
    assigned = group.owners()
    count = len(group.members)
    load = [0] * count
    ceiling = -(-len(assigned) // count) if count else 0
    for t, (start, end) in enumerate(pairwise(group.base.tolist())):
        pool = []
        for partition, owner in enumerate(assigned[start:end].tolist(), start):
            if owner == UNASSIGNED or load[owner] >= ceiling:
                pool.append(partition)
            else:
                load[owner] += 1
        subscribers = np.flatnonzero(group.subscribed[t, group.subscription]).tolist()
        least_loaded = [(load[member], member) for member in subscribers]
        heapq.heapify(least_loaded)
        for partition in pool:
            _, member = least_loaded[0]
            load[member] += 1
            heapq.heapreplace(least_loaded, (load[member], member))
            assigned[partition] = member
    return assigned
