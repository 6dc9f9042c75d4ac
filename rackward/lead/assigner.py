"""Assigning for a group, whichever of its protocols was chosen, and when to do it again.

`GroupAssigner` connects the protocols of other clients to what the leader of rackward's own groups
does (:mod:`assignors.group_leader`, :mod:`assignors.leader_moves`). It has no connection: metadata
and descriptions of members are arguments. It is used by one thread at a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange
from assignors.consumer_protocol import NO_GENERATION
from assignors.group import Group, Members
from assignors.group_leader import GroupContext, LogOnce, format_error, is_topic_name, sanitize
from assignors.group_leader.history import Assignment
from assignors.group_leader.rebalance import GroupProtocol, Leadership
from assignors.kafka_python.coordinator import read_metadata
from assignors.leader_moves import RefreshPolicy
from assignors.model import Assignor, LeaderRacks, Member, Plan, WeightSource
from rackward.groups.host_racks import HostRacks
from rackward.lead.protocols import (
    PreviousAssignment,
    ProtocolStrategy,
    RawMember,
    read_members,
)

PLAN_SECONDS = 5.0
"""For which a plan may be computed. After that a plain one, which is balanced and does not regard
racks, is sent instead."""


@dataclass(frozen=True, slots=True)
class AssignmentMetrics:
    """What an assignment achieves; off_rack and optimum are None if it is a plain plan.

    ``off_rack`` is counted again with the present leaders at each check.
    """

    generation: int = NO_GENERATION
    protocol: str = ""
    members: int = 0
    partitions: int = 0
    off_rack: int | None = None
    optimum: int | None = None
    withheld: int = 0


class GroupAssigner:
    """The assignments of one group, and the leaders that they were made for."""

    def __init__(
        self,
        group: str,
        protocols: Mapping[str, ProtocolStrategy],
        host_racks: HostRacks,
        refresh: RefreshPolicy | None,
    ) -> None:
        self.group = group
        self.previous = PreviousAssignment()
        self.metrics = AssignmentMetrics()
        self.topics: frozenset[str] = frozenset()
        self._leadership = Leadership()
        self._protocols = protocols
        self._host_racks = host_racks
        self._refresh = refresh
        self._log_once = LogOnce()
        self._group_protocols: dict[str, GroupProtocol] = {}
        self._partitions: dict[str, int] = {}

    @property
    def check_interval(self) -> float:
        """Seconds from one look at the topics' partitions and leaders to the next."""
        monitor = self._leadership.monitor
        return 30.0 if monitor is None else monitor.interval

    def needs_hosts(self, protocol: str) -> bool:
        """Return whether client ids and hosts of members make a difference under a protocol."""
        strategy = self._protocols[protocol]
        has_mapping = bool(self._host_racks.hosts or self._host_racks.networks)
        return has_mapping or not (strategy.cooperative or strategy.by_topic)

    def read(self, protocol: str, members: Sequence[RawMember]) -> Members:
        """Return the members that read, with racks and with what they own or owned."""
        racks = {}
        for member in members:
            rack = self._host_racks.hosts.get(member.client_id.lower())
            if rack is None and member.host is not None:
                rack = self._host_racks.rack(member.host)
            if rack is not None:
                racks[member.id] = rack
        strategy = self._protocols[protocol]
        joined = read_members(protocol, strategy, members, self.previous, racks)
        self.topics = frozenset(filter(is_topic_name, joined.topics))
        return joined

    def assign(
        self,
        protocol: str,
        generation: int,
        raw: Sequence[RawMember],
        joined: Members,
        cluster: Any,
        deleted: frozenset[str],
        now: float,
    ) -> Assignment:
        """Return the assignments of ``joined`` for a ClusterMetadata of kafka-python.

        ``now`` is the time of the clock of `justifies_rebalance`. Never raises because of what a
        member sent.
        """
        context = GroupContext(self.group, generation)
        leaders, _ = read_metadata(cluster, self.topics)
        result = self._leadership.assign(
            self._group_protocol(protocol), joined, leaders, deleted, context, now
        )
        self._partitions = _partition_counts(cluster, self.topics)
        self.previous = PreviousAssignment(
            raw, {m.id: result.assigned.get(m.id, {}) for m in raw}, generation
        )
        self.metrics = AssignmentMetrics(
            generation=generation,
            protocol=protocol,
            members=len(joined),
            partitions=result.partitions,
            off_rack=result.off_rack,
            optimum=result.optimum,
            withheld=result.withheld,
        )
        return result

    def follow(self) -> None:
        """Note that another member leads: what members can own is not known from then on."""
        self._leadership.follow()

    def forget(self) -> None:
        """Forget who owned what: the group has been assigned elsewhere since."""
        self._leadership.follow()
        self.previous = PreviousAssignment()

    def on_revocation_timeout(self) -> None:
        """Note that members did not revoke in time, in a group that was stable. Logs it."""
        context = GroupContext(self.group, self.metrics.generation)
        self._leadership.on_revocation_timeout(context, self.metrics.withheld)

    def justifies_rebalance(self, cluster: Any, generation: int, now: float) -> str | None:
        """Return why the group should rebalance, given new metadata of its topics; None if not."""
        counts = _partition_counts(cluster, self.topics)
        try:
            self._update_off_rack(cluster)
        except Exception as error:  # noqa: BLE001 - a metric must not end the membership
            self._log_once.log(
                ("off-rack", type(error)),
                "counting off-rack partitions failed: group=%s error=%s",
                sanitize(self.group),
                format_error(error),
                level=logging.ERROR,
                traceback_of=error,
            )
        if counts != self._partitions:
            changed = sorted(t for t in self.topics if counts.get(t) != self._partitions.get(t))
            return f"the partitions of {len(changed)} topics changed"
        monitor = self._leadership.monitor
        if monitor is not None and monitor.check(
            lambda topics: read_metadata(cluster, topics), now, GroupContext(self.group, generation)
        ):
            return "partition leaders moved"
        return None

    def _update_off_rack(self, cluster: Any) -> None:
        """Count the off-rack partitions of the assignment in force with the present leaders."""
        protocol = self._group_protocols.get(self.metrics.protocol)
        latest = None if protocol is None else protocol.history.latest(self.group)
        if latest is None or self.metrics.off_rack is None:
            return
        leaders, _ = read_metadata(cluster, latest.inputs.leaders.racks)
        group = Group.of(latest.inputs.members, leaders.racks)
        off_rack = int(group.crossings(group.members_of(latest.assigned))[-1])
        self.metrics = replace(self.metrics, off_rack=off_rack)

    def _group_protocol(self, protocol: str) -> GroupProtocol:
        if protocol not in self._group_protocols:
            strategy = self._protocols[protocol]
            by_topic = strategy.by_topic
            assignor = LeaderRackAwareRange() if by_topic else LeaderRackAwareCooperativeSticky()
            self._group_protocols[protocol] = GroupProtocol(
                name=protocol,
                assignor=TimeLimited(assignor),
                cooperative=strategy.cooperative,
                weights=None,
                log_once=self._log_once,
                refresh=self._refresh,
            )
        return self._group_protocols[protocol]


def _partition_counts(cluster: Any, topics: Iterable[str]) -> dict[str, int]:
    counts = {topic: cluster.partitions_for_topic(topic) for topic in topics}
    return {topic: len(partitions) for topic, partitions in counts.items() if partitions}


class TimeLimited:
    """An assignor that gives up after PLAN_SECONDS.

    Its computation cannot be interrupted: it ends in a thread of its own, without a result.
    """

    def __init__(self, assignor: Assignor) -> None:
        self._assignor = assignor

    def assign(
        self,
        members: Iterable[Member],
        leader_racks: LeaderRacks,
        weights: WeightSource | None = None,
    ) -> Plan:
        """Return the assignor's plan. Raises TimeoutError, and what the assignor raises."""
        outcome = Future[Plan]()

        def compute() -> None:
            try:
                outcome.set_result(self._assignor.assign(members, leader_racks, weights))
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                outcome.set_exception(error)

        threading.Thread(target=compute, name="rackward-assign", daemon=True).start()
        return outcome.result(PLAN_SECONDS)
