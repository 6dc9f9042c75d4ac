"""One rebalance on the group's leader: from the members' subscriptions to their assignments."""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from assignors.encoding import MemberColumns, current_owners, encode_assignment, encode_group
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
from assignors.group_leader.subscriptions import JoinedMember, JoinedMembers
from assignors.model import (
    Assignor,
    LeaderRacks,
    Member,
    Plan,
    Weights,
    WeightSource,
    resolve_weights,
)
from assignors.partition_arrays import AssignedPartitions
from placement_core import parse_rack

METADATA_TIMEOUT = 3.0
"""Seconds for which a leader waits for the metadata of topics that its client does not have yet."""

REVOCATION_TIMEOUT = 30.0
"""Seconds for which a leader waits for members to revoke withheld partitions and rejoin."""

MAX_TOPICS_LOGGED = 50
"""Missing topics that are logged by name; a member may subscribe to any number of them."""

NO_METADATA = "has no metadata yet (unless it is new, grant this user Describe on it)"
"""Why a topic is not assigned: it is new, or its leader may not describe it."""

Assignments = Mapping[str, Mapping[str, list[int]]]
"""Member id to topic to partitions."""


class RebalanceResult(NamedTuple):
    """The members' assignments, the number of withheld partitions, and the leaders used.

    ``ownership`` is what members can own afterwards, for the next rebalance; None if not known.
    """

    assignments: Assignments
    withheld: int
    leaders: Leaders
    ownership: Ownership | None = None


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
        read_leaders: Callable[[Iterable[str]], Leaders],
        joined: Sequence[JoinedMember],
        deleted_topics: frozenset[str] = frozenset(),
        context: GroupContext = NO_CONTEXT,
        last: Ownership | None = None,
    ) -> RebalanceResult:
        """Return what each member is assigned.

        ``read_leaders`` returns the leaders of the topics that members subscribe to.
        ``deleted_topics`` are topics that brokers report as unknown. Of any other topic without
        metadata, owners keep their partitions: they would get them back a moment later.
        ``last`` is the ``ownership`` of this leader's last result for the group, None if another
        member has led since.

        Never raises because of what a member sent, of the weights or of the assignor: such an error
        costs locality and a line in the log, not the rebalance.
        """
        started = time.perf_counter()
        group = JoinedMembers.of(joined)
        leaders = read_leaders(group.topics)
        members = group.to_columns(leaders)
        weights = self.resolve_weights(leaders.racks)
        plan = self._plan(members, leaders.racks, weights)
        by_position = (
            fallback_assignment(members, leaders.racks) if plan is None else plan.partitions
        )
        assigned = _to_partitions(by_position, members, leaders)
        if pending := leaders.topics_without_metadata - deleted_topics:
            assigned = assigned.followed_by(_still_owned(group, pending))
        withheld, ownership = 0, None
        if self.cooperative:
            claims, generation = group.claims_while_joining, context.generation
            withholding = withhold(
                assigned, group.instance_ids, claims, group.generations, last, generation
            )
            assigned, withheld = withholding.assigned, withholding.withheld
            ownership = withholding.ownership
            self._log_ignored(withholding.ignored)
        self._log_warnings(group, leaders, deleted_topics)
        assignment = Assignment(
            group=context.group,
            generation=context.generation,
            number=1,
            at=self.history.now(),
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
        )
        log.info("%s", self.history.record(assignment))
        return RebalanceResult(assigned, withheld, leaders, ownership)

    def _plan(
        self, members: Sequence[Member], leader_racks: LeaderRacks, weights: Weights | None
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

    def _log_ignored(self, member_ids: Sequence[str]) -> None:
        if member_ids:
            self.log_once.log(
                ("claims", *member_ids),
                "ignoring claims of partitions that members never had or do not revoke: %s",
                format_list(member_ids),
            )

    def _log_warnings(
        self, joined: JoinedMembers, leaders: Leaders, deleted_topics: frozenset[str]
    ) -> None:
        log_once = self.log_once.log
        racks = {rack: parse_rack(rack) for rack in set(joined.racks)}
        rackless = sorted(
            {joined[m].client_name for m, rack in enumerate(joined.racks) if not racks[rack]}
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
        for m, error in joined.errors:
            log_once(
                ("subscription error", joined[m].client_name, error.partition(":")[0]),
                "ignoring a part of a subscription that cannot be decoded: member=%s error=%s",
                sanitize(joined.ids[m]),
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


class HasAssignmentHistory:
    """Mixin: access to an assignor's assignment history."""

    rebalance: Rebalance

    def last_assignment(self, group: str | None = None) -> Assignment | None:
        """Return the last assignment that this assignor made, of ``group`` or of any.

        None if no consumer with this assignor has been the leader of its group.
        """
        return self.rebalance.history.latest(group)

    def assignments(self) -> tuple[Assignment, ...]:
        """Return the last assignment of each group, for :mod:`assignors.metrics`."""
        return self.rebalance.history.all()


# ---- From positions to partitions, and partitions of topics without metadata.


def _to_partitions(
    by_position: Mapping[str, Mapping[str, Sequence[int]]], members: MemberColumns, leaders: Leaders
) -> AssignedPartitions:
    """Return an assignment of positions as one of partitions."""
    plan = by_position
    if not isinstance(plan, AssignedPartitions):
        group = encode_group(members, leaders.racks)
        assigned = encode_assignment(group, plan)
        plan = AssignedPartitions(members.ids, group.topics, group.base, assigned)
    if not leaders.partition_ids:
        return plan
    return AssignedPartitions(
        plan.ids, plan.topics, plan.base, plan.assigned, leaders.partition_ids
    )


def _still_owned(joined: JoinedMembers, topics: frozenset[str]) -> AssignedPartitions:
    """Return the partitions of ``topics``, each for the member that owns it."""
    claims = joined.claims
    partition_ids = {}
    for topic in topics & set(claims.names):
        named = [at for at, name in enumerate(claims.names) if name == topic]
        numbers = np.unique(claims.number[np.isin(claims.topic, named)])
        partition_ids[topic] = numbers[numbers >= 0].tolist()
    racks: dict[str, list[str | None]] = {t: [None] * len(ids) for t, ids in partition_ids.items()}
    leaders = Leaders(racks, partition_ids, frozenset(), {})
    group = encode_group(joined.to_columns(leaders), racks)
    owner = current_owners(group)
    return AssignedPartitions(joined.ids, group.topics, group.base, owner, partition_ids)


# ---- The assignment if the assignor fails: the group must be able to settle.


def fallback_assignment(
    members: Iterable[Member], leader_racks: LeaderRacks
) -> dict[str, dict[str, list[int]]]:
    """Return a balanced assignment without regard to racks.

    Each partition stays with its owner unless that has the ceiling of the average load; then it
    goes to its least loaded subscriber. Owners keep partitions so that a cooperative group settles
    on this assignment, too.
    """
    sorted_members = sorted(members, key=lambda member: member.id)
    subscribers: dict[str, list[str]] = {}
    for member in sorted_members:
        for topic in member.topics:
            if topic in leader_racks:
                subscribers.setdefault(topic, []).append(member.id)
    assigned: dict[str, dict[str, list[int]]] = {member.id: {} for member in sorted_members}
    load = dict.fromkeys(assigned, 0)
    total = sum(len(leader_racks[topic]) for topic in subscribers)
    ceiling = -(-total // len(assigned)) if assigned else 0
    owners = _owners(sorted_members, leader_racks)
    for topic in sorted(subscribers):
        pool = []
        for partition in range(len(leader_racks[topic])):
            owner = owners.get((topic, partition))
            if owner is None or load[owner] >= ceiling:
                pool.append(partition)
            else:
                assigned[owner].setdefault(topic, []).append(partition)
                load[owner] += 1
        least_loaded = [(load[member], member) for member in subscribers[topic]]
        heapq.heapify(least_loaded)
        for partition in pool:
            count, member_id = least_loaded[0]
            heapq.heapreplace(least_loaded, (count + 1, member_id))
            assigned[member_id].setdefault(topic, []).append(partition)
            load[member_id] += 1
    return {
        member_id: {topic: sorted(partitions) for topic, partitions in topics.items()}
        for member_id, topics in assigned.items()
    }


def _owners(members: Sequence[Member], leader_racks: LeaderRacks) -> dict[tuple[str, int], str]:
    """Return the owner of each partition: the subscriber with the claim of highest generation.

    Of several such claims, the first by member id counts.
    """
    claims: dict[tuple[str, int], tuple[int, str]] = {}
    for member in members:
        for topic, partitions in member.owned.items():
            if topic in member.topics and topic in leader_racks:
                for partition in partitions:
                    claim = claims.get((topic, partition))
                    if claim is None or claim[0] < member.generation:
                        claims[topic, partition] = (member.generation, member.id)
    return {partition: member_id for partition, (_, member_id) in claims.items()}
