"""A rebalance on the group's leader: from the members' subscriptions to their assignments.

`Leadership` is what a consumer does as the leader of its group, `GroupProtocol` how it assigns
under one protocol name.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from assignors.consumer_protocol import ConsumerProtocolError, SubscriptionReader
from assignors.encoding import read_members
from assignors.group import UNASSIGNED, AssignedPartitions, Group, Members
from assignors.group_leader.history import Assignment, AssignmentHistory, AssignmentInputs
from assignors.group_leader.logs import (
    GroupContext,
    LogOnce,
    format_error,
    format_list,
    log,
    sanitize,
)
from assignors.group_leader.metadata import Leaders, is_topic_name, rack_mismatch
from assignors.group_leader.monitor import LeaderMoveMonitor, ReadMetadata
from assignors.group_leader.ownership import Ownership, withhold
from assignors.leader_moves import RefreshPolicy
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

DescribedMember = tuple[str, str | None, bytes, bytes]
"""Member id, instance id, subscription and assignment."""


@dataclass(frozen=True, slots=True)
class GroupProtocol:
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
    refresh
        When leaders that moved justify a rebalance; None: never.
    """

    name: str
    assignor: Assignor
    cooperative: bool
    weights: WeightSource | None
    log_once: LogOnce
    refresh: RefreshPolicy | None = None
    history: AssignmentHistory = field(default_factory=AssignmentHistory)

    def plan(
        self, members: Members, leader_racks: LeaderRacks, weights: Weights | None
    ) -> Plan | None:
        """Return the assignor's plan, or None if it fails, which is logged."""
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


class Leadership:
    """What one consumer does as the leader of its group.

    ``monitor`` decides when moved leaders justify a rebalance; None before the first assignment,
    and for a protocol without a policy.
    """

    def __init__(self) -> None:
        self.monitor: LeaderMoveMonitor | None = None
        self._ownership: Ownership | None = None

    def assign(
        self,
        protocol: GroupProtocol,
        members: Members,
        leaders: Leaders,
        deleted_topics: frozenset[str],
        context: GroupContext,
        now: float,
    ) -> Assignment:
        """Return what each member is assigned, record it, and start to monitor its leaders.

        ``leaders`` are those of `topics_of` the members. ``deleted_topics`` are topics that brokers
        report as unknown. Of any other topic without metadata, owners keep their partitions: they
        would get them back a moment later. ``now`` is the time of the monitor's clock.

        Never raises because of what a member sent, of the weights or of the assignor: such an error
        costs locality and a line in the log, not the rebalance.
        """
        started = time.perf_counter()
        weights = protocol.resolve_weights(leaders.racks)
        plan = protocol.plan(members, leaders.racks, weights)
        assigned = _assigned(plan, members, leaders.racks)
        if pending := leaders.topics_without_metadata - deleted_topics:
            assigned = assigned.followed_by(_still_owned(members, pending))
        withheld, ownership = 0, None
        if protocol.cooperative:
            assigned, withheld, ignored, ownership = withhold(
                assigned,
                members.instance_ids,
                members.claims_while_joining,
                members.generations,
                self._ownership,
                context.generation,
            )
            if ignored:
                protocol.log_once.log(
                    ("claims", *ignored),
                    "ignoring claims of partitions that members never had or do not revoke: %s",
                    format_list(ignored),
                )
        _log_warnings(protocol.log_once, members, leaders, deleted_topics)
        assignment = Assignment(
            group=context.group,
            generation=context.generation,
            number=1,
            at=datetime.now(UTC),
            protocol=protocol.name,
            partitions=sum(map(len, leaders.racks.values())),
            off_rack=None if plan is None else plan.off_rack,
            optimum=None if plan is None else plan.optimum,
            moved=None if plan is None else plan.moved,
            moved_total=0 if plan is None else plan.moved,
            withheld=withheld,
            milliseconds=(time.perf_counter() - started) * 1000,
            inputs=AssignmentInputs(members, leaders, weights, protocol.assignor),
            assigned=assigned,
        )
        assignment = protocol.history.record(assignment)
        log.info("%s", assignment)
        self._ownership = ownership
        if monitor := self._monitor(protocol):
            in_force = None if withheld else assigned
            monitor.start(context.generation, members, in_force, leaders, now)
        return assignment

    def _monitor(self, protocol: GroupProtocol) -> LeaderMoveMonitor | None:
        """Return the monitor for a protocol, a new one if the group has changed its protocol."""
        if self.monitor is None or self.monitor.protocol is not protocol:
            policy = protocol.refresh
            self.monitor = None if policy is None else LeaderMoveMonitor(policy, protocol)
        return self.monitor

    def follow(self) -> None:
        """Note that another member leads: what members can own is not known from then on."""
        self._ownership = None

    def on_revocation_timeout(self, context: GroupContext, withheld: int) -> None:
        """Note that members did not revoke in time, before this member requests a rebalance.

        They have had REVOCATION_TIMEOUT seconds, in a group that was stable. Logs it.
        """
        if self._ownership is not None and self._ownership.generation == context.generation:
            self._ownership = self._ownership.timed_out()
        log.warning(
            "requesting a rebalance because withheld partitions were not revoked in time: %s"
            " withheld=%d seconds=%.0f",
            context,
            withheld,
            REVOCATION_TIMEOUT,
        )

    def resume(
        self,
        protocol: GroupProtocol,
        described: Iterable[DescribedMember],
        read_metadata: ReadMetadata,
        context: GroupContext,
        now: float,
    ) -> None:
        """Monitor the assignment in force, which this member made before it restarted.

        ``described`` is what brokers return of the members. Only topics are monitored of which this
        consumer has metadata. Never raises because of what a member sent.
        """
        if (monitor := self._monitor(protocol)) is None:
            return
        described = list(described)
        members = read_members((id, instance_id, sent) for id, instance_id, sent, _ in described)
        leaders = read_metadata(topics_of(members))[0]
        assigned = {}
        for member_id, _, _, assignment in described:
            with suppress(ConsumerProtocolError):
                assigned[member_id] = SubscriptionReader().read_assignment(assignment)
        group = Group.of(members, leaders.racks)
        # The leaders that the assignment was made for are unknown: the first check compares it.
        unknown: dict[str, list[str | None]] = {
            topic: [None] * len(row) for topic, row in leaders.racks.items()
        }
        in_force = group.assignment(group.members_of(assigned))
        leaders = replace(leaders, racks=unknown)
        monitor.start(context.generation, members, in_force, leaders, now)


def topics_of(members: Members) -> set[str]:
    """Return the topics that members subscribe to, without names that no topic can have."""
    return {name for name in members.topics if is_topic_name(name)}


def _log_warnings(
    log_once: LogOnce, members: Members, leaders: Leaders, deleted_topics: frozenset[str]
) -> None:
    racks = {rack: parse_rack(rack) for rack in set(members.racks)}
    rackless = sorted(
        {_client_name(members, m) for m, rack in enumerate(members.racks) if not racks[rack]}
        if None in racks.values()
        else ()
    )
    if rackless:
        log_once.log(
            ("rackless members", *rackless),
            "members without a rack read across racks: %s",
            format_list(rackless),
        )
    rackless_brokers = sorted(b for b, rack in leaders.broker_racks.items() if not rack)
    if rackless_brokers:
        log_once.log(
            ("rackless brokers", *rackless_brokers),
            "brokers without broker.rack; their partitions count as local everywhere: %s",
            format_list(rackless_brokers),
        )
    mismatch = rack_mismatch(racks, leaders.broker_racks.values())
    if mismatch:
        log_once.log("rack mismatch", "%s", mismatch)
    for m, error in members.errors:
        log_once.log(
            ("subscription error", _client_name(members, m), error.partition(":")[0]),
            "ignoring a part of a subscription that cannot be decoded: member=%s error=%s",
            sanitize(members.ids[m]),
            sanitize(error, 200),
        )
    missing = sorted(leaders.topics_without_metadata)
    for topic in missing[:MAX_TOPICS_LOGGED]:
        why = "does not exist" if topic in deleted_topics else NO_METADATA
        log_once.log(("topic", topic, why), "subscribed topic %s: %s", why, sanitize(topic))
    if len(missing) > MAX_TOPICS_LOGGED:
        log_once.log("many topics", "subscribed topics without metadata: %d", len(missing))
    for topic in leaders.racks:
        log_once.reset(("topic", topic, "does not exist"))


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
