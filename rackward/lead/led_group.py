"""One led group: the life of a membership that subscribes to nothing.

Where the member is the leader, it assigns the partitions of all members by the racks of their
leaders; elsewhere it waits to become the leader (:mod:`rackward.lead.take_over`). It runs on the
event loop of a `LeadConnection`.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.cluster import ClusterMetadata

from assignors.assignment import NOTHING_ASSIGNED
from assignors.consumer_protocol import NO_GENERATION, ConsumerProtocolError, SubscriptionReader
from assignors.group_leader import format_error, format_list, format_traceback, sanitize
from assignors.group_leader.rebalance import METADATA_TIMEOUT, REVOCATION_TIMEOUT, RebalanceResult
from rackward.kafka.groups import LEADS, leads_for_rackward
from rackward.lead.assigner import Figures, GroupAssigner
from rackward.lead.connection import LeadConnection
from rackward.lead.member import (
    COORDINATOR_ERRORS,
    DescribedGroup,
    GroupMember,
    Joined,
)
from rackward.lead.model import (
    JOINING,
    LEADING,
    OUTSIDE,
    REBALANCING,
    REFUSED,
    WAITING,
    LeadOptions,
    LeadStatus,
)
from rackward.lead.protocols import (
    NO_WAITING,
    Previous,
    PreviousAssignment,
    RawMember,
    listed_protocols,
    why_refused,
)
from rackward.lead.take_over import (
    TakeOverState,
    decide,
    decide_outside,
    id_cost,
    members_ahead,
)

log = logging.getLogger("rackward.lead")

ID_TRIES = 64
"""Member ids that are requested, at most, to find one that is early in the brokers' map."""

RETRY_SECONDS = 1.0
"""Seconds after an error before the next attempt."""

OUTSIDE_SECONDS = 10.0
"""Seconds between two looks at a group from outside."""

REBALANCING_SECONDS = 0.5
"""Seconds between two looks at a group that rebalances, before it is joined."""

SLOW_REBALANCE_SECONDS = 60.0
"""Seconds after which a rebalance that has not ended is reported; again after twice the time."""

JOIN_AHEAD_SECONDS = 0.01
"""Seconds from a JoinGroup request until the other members are removed.

If all of them rejoined in this time, one of them would lead with us in the group.
"""

LEAVE_REASON = "the process that leads ends"

MAX_MISTAKES = 3
"""Times that another leader may assign partitions to us before we stay outside."""


class _Refused(Exception):
    """The group cannot be led; the text is the reason."""


class LedGroup:
    """One group: joins it, and leads or waits. Runs on the event loop."""

    def __init__(self, connection: LeadConnection, group: str, options: LeadOptions) -> None:
        self.group = group
        self.status = LeadStatus(group)
        self._connection = connection
        self._options = options
        self._member = GroupMember(connection, group, options.timeouts)
        self._assigner = GroupAssigner(
            group, options.protocols, options.host_racks, options.refresh, options.time_limit
        )
        self._wakeup = connection.notifier()
        self._next_heartbeat = connection.notifier()
        self._heartbeat_failure: Exception | None = None
        self._closing = False
        self._in_use: str | None = None
        self._others: dict[str, str | None] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self._take_over = TakeOverState()
        self._removed: tuple[float, Counter[str]] | None = None
        self._join_reason: str | None = "a member that assigns by rack joins"
        self._next_check = 0.0
        self._answered_at = 0.0
        self._warn_at = SLOW_REBALANCE_SECONDS
        self._alone_until: float | None = None
        self._revoke_by: float | None = None
        self._decide_again: float | None = None
        self._outside_until_empty = False
        self._assigned_to_us = 0
        self._running: Any = None

    def start(self) -> None:
        """Start to join. Called in any thread."""
        self._running = self._connection.start(self._run)

    async def leave(self) -> None:
        """Leave the group, and end."""
        self._closing = True
        self._wakeup.notify()
        self._next_heartbeat.notify()
        # A join in progress ends with this.
        await self._member.leave(LEAVE_REASON)
        await self._running

    # ---- the life of the membership

    async def _run(self) -> None:
        heartbeats = self._connection.start(self._send_heartbeats)
        try:
            await self._live()
            await heartbeats
        finally:
            # An id that was given after `leave` sent its request.
            await self._member.leave(LEAVE_REASON)

    async def _live(self) -> None:
        while not self._closing:
            try:
                if self._join_reason is not None:
                    await self._join(self._join_reason)
                else:
                    await self._wakeup(self._options.timeouts.heartbeat)
                    failure, self._heartbeat_failure = self._heartbeat_failure, None
                    if failure is not None:
                        raise failure
                    if not self._closing:
                        await self._keep_membership()
            except _Refused as refused:
                self._set(REFUSED, str(refused))
                await self._step_aside()
                await self._wakeup(OUTSIDE_SECONDS)
            except kafka_errors.RebalanceInProgressError:
                self._join_reason = "the group rebalances"
            except kafka_errors.IllegalGenerationError:
                self._join_reason = "the generation is over"
            except kafka_errors.UnknownMemberIdError:
                self._member.forget()
                if self._closing:
                    return
                log.warning("group=%s the group has removed this member", sanitize(self.group))
                self._join_reason = "rejoining after removal"
            except COORDINATOR_ERRORS:
                self._member.forget_coordinator()
                await self._wakeup(RETRY_SECONDS / 4)
            except kafka_errors.GroupMaxSizeReachedError:
                self._set(OUTSIDE, "the group has as many members as group.max.size permits")
                self._member.forget()
                await self._wakeup(OUTSIDE_SECONDS)
            except kafka_errors.GroupAuthorizationFailedError:
                self._set(REFUSED, "not authorized: grant this user Read on the group")
                self._member.forget()
                await self._wakeup(OUTSIDE_SECONDS)
            except kafka_errors.SaslAuthenticationFailedError as error:
                self._join_reason = "authentication failed"
                renew = partial(self._connection.renew_credentials, error)
                if not await self._connection.in_worker(renew):
                    self._set(REFUSED, str(self._connection.failure))
                await self._wakeup(RETRY_SECONDS)
            except kafka_errors.KafkaError as error:
                log.info("group=%s retrying after %s", sanitize(self.group), format_error(error))
                self._member.forget_coordinator()
                self._check_session()
                await self._wakeup(RETRY_SECONDS)
            except Exception as error:  # noqa: BLE001 - other groups go on, and this one without us
                log.error(
                    "group=%s leaving after %s\n%s",
                    sanitize(self.group),
                    format_error(error),
                    format_traceback(error),
                )
                self._set(OUTSIDE, "an unexpected error, see the log")
                await self._step_aside()
                await self._wakeup(OUTSIDE_SECONDS)

    async def _send_heartbeats(self) -> None:
        """Send heartbeats between two joins, also while an assignment is made.

        What fails is left to the task of the membership.
        """
        while not self._closing:
            await self._next_heartbeat(self._options.timeouts.heartbeat)
            self._report_slow_rebalance()
            generation = self._member.generation
            if generation == NO_GENERATION or self._heartbeat_failure is not None:
                continue
            try:
                await self._member.heartbeat()
                self._answered_at = time.monotonic()
            except Exception as error:  # noqa: BLE001 - raised by the other task
                if generation == self._member.generation:
                    self._heartbeat_failure = error
                    self._wakeup.notify()

    def _report_slow_rebalance(self) -> None:
        """Report a rebalance that does not end: members do not join, or brokers cannot end it."""
        seconds = self.status.rebalancing_seconds
        if seconds < self._warn_at:
            return
        self._warn_at = 2 * seconds
        self._set(REBALANCING, "members have not joined, or brokers fail to complete the join")
        log.warning(
            "group=%s the rebalance has not ended: seconds=%.0f", sanitize(self.group), seconds
        )

    def _begin_rebalance(self) -> None:
        """Note when the rebalance began, which ends with the next state that is known."""
        if self.status.rebalancing_since is None:
            self._warn_at = SLOW_REBALANCE_SECONDS
            self.status = replace(self.status, rebalancing_since=datetime.now(UTC))

    def _set(self, state: str, reason: str = "") -> None:
        if (state, reason) != (self.status.state, self.status.reason):
            log.info(
                "group=%s state=%s%s",
                sanitize(self.group),
                state,
                f" reason={sanitize(reason, 300)}" if reason else "",
            )
        since = self.status.rebalancing_since if state in (JOINING, REBALANCING) else None
        self.status = replace(self.status, state=state, reason=reason, rebalancing_since=since)

    async def _step_aside(self) -> None:
        """Leave the group, and look at it again later."""
        self._join_reason = "joining again"
        with suppress(kafka_errors.KafkaError):
            await self._member.leave("this group is not led")
        self._member.forget()

    async def _join(self, reason: str) -> None:
        protocols = listed_protocols(self._options.protocols, self._in_use)
        if not self._member.id:
            described = await self._member.describe()
            self._check_leadable(described)
            consumers = [m for m in described.members if not leads_for_rackward(m.id)]
            if consumers:
                self._alone_until = None
            elif described.members or not self._may_be_alone(described):
                self._set(OUTSIDE, "it has no consumers")
                await self._wakeup(self._options.timeouts.heartbeat)
                return
            if consumers and not described.protocol:
                # Brokers tell the protocol of a stable group only.
                if self.status.state != REBALANCING:
                    self._set(JOINING, "the group rebalances")
                self._begin_rebalance()
                await self._wakeup(REBALANCING_SECONDS)
                return
            self._learn(described)
            protocols = listed_protocols(self._options.protocols, self._in_use)
            others = list(self._others)
            if others and (self._outside_until_empty or described.protocol in NO_WAITING):
                await self._join_from_outside(protocols, reason)
                return
            self._outside_until_empty = False
            mode = self._options.take_over.mode
            await self._member.choose_id(
                protocols, lambda each: id_cost(each, others, mode), ID_TRIES
            )
        if self._closing:
            return
        self._begin_rebalance()
        try:
            joined = await self._member.join(protocols, reason)
        except kafka_errors.InconsistentGroupProtocolError:
            self._member.forget()
            self._in_use = None
            self._check_leadable(await self._member.describe())
            raise
        await self._on_joined(joined)

    async def _join_from_outside(self, protocols: Sequence[tuple[str, bytes]], reason: str) -> None:
        """Join while all other members are removed, or stay outside."""
        now = time.monotonic()
        decision = decide_outside(
            list(self._others),
            [each for each, instance in self._others.items() if instance],
            self._options.take_over,
            self._take_over,
            now,
        )
        if not decision.remove:
            self._set(OUTSIDE, decision.reason)
            await self._wakeup(OUTSIDE_SECONDS)
            return
        self._member.id = await self._member.request_id(protocols)
        self._begin_rebalance()
        joining = self._connection.start(lambda: self._member.join(protocols, reason))
        # An empty group would wait for group.initial.rebalance.delay.ms. Members learn of the join
        # by their next heartbeat, so that none of them leads before it is removed.
        await self._wakeup(JOIN_AHEAD_SECONDS)
        await self._remove(decision.remove, now)
        self._outside_until_empty = False
        await self._on_joined(await joining)

    async def _on_joined(self, joined: Joined) -> None:
        self._join_reason = self._heartbeat_failure = None
        self._answered_at = time.monotonic()
        self._revoke_by = self._decide_again = None
        self._in_use = joined.protocol
        if joined.leader != self._member.id:
            self._assigner.follow()
        try:
            if joined.leader == self._member.id:
                await self._lead(joined)
            elif joined.leader:
                await self._follow(joined)
            else:
                # Brokers that assign themselves name no leader.
                self._check_leadable(await self._member.describe())
                self._join_reason = "the group has no leader"
                await self._wakeup(RETRY_SECONDS)
        except kafka_errors.KafkaError:
            # Brokers wait for the leader's assignment as long as members may take to rejoin, and a
            # member that waits has not decided about the leader.
            self._join_reason = "an error after joining"
            raise

    def _may_be_alone(self, group: DescribedGroup) -> bool:
        """Return whether a group without members is joined, so that it is led from the first on.

        Once, and not one of committed offsets only: members make the commits of consumers that are
        none (assign()) fail.
        """
        never_had_members = group.state == "Empty" and not group.protocol_type
        return not never_had_members and (
            self._alone_until is None or time.monotonic() < self._alone_until
        )

    def _check_leadable(self, group: DescribedGroup) -> None:
        """Raise _Refused if the group's assignment cannot be made here."""
        reason = why_refused(
            group.protocol_type,
            group.protocol,
            self._options.protocols,
            new_protocol=group.new_protocol,
        )
        if reason is not None:
            raise _Refused(reason)

    def _learn(self, group: DescribedGroup) -> None:
        """Remember protocol and members of a group that is about to be joined."""
        self._in_use = group.protocol or self._in_use
        self._others = {each.id: each.instance_id for each in group.members}
        self._names |= {each.id: (each.client_id, each.host) for each in group.members}
        if group.state == "Stable" and not self._assigner.previous.members:
            reader = SubscriptionReader()
            members = []
            for each in group.members:
                try:
                    owned = reader.read_assignment(each.assignment) if each.assignment else {}
                except ConsumerProtocolError:
                    owned = {}
                members.append(
                    Previous(each.id, each.instance_id, each.client_id, each.host, owned)
                )
            self._assigner.previous = PreviousAssignment(members, 0)

    # ---- as the leader

    async def _lead(self, joined: Joined) -> None:
        if all(leads_for_rackward(each.id) for each in joined.members):
            # Nobody to assign to: the first consumer that joins starts a rebalance. No assignment
            # is sent, so that the group is not stable: from stable groups, brokers delete the
            # offsets of topics that no member subscribes to, by the age of their commits.
            if self._alone_until is None:
                self._alone_until = time.monotonic() + self._options.timeouts.alone
            self._others = {}
            self._next_check = float("inf")
            self._start_leading(Figures(joined.generation, joined.protocol))
            return
        self._alone_until = None
        raw = await self._with_names(joined)
        members = await self._connection.in_worker(
            lambda: self._assigner.read(joined.protocol, raw)
        )
        cluster, deleted = await self._read_topics()
        now = time.monotonic()
        result: RebalanceResult = await self._connection.in_worker(
            lambda: self._assigner.assign(
                joined.protocol, joined.generation, raw, members, cluster, deleted, now
            )
        )
        encoded = result.assignments.encode()
        # The other members get nothing: they read nothing, and neither does this one.
        nothing = {member.id: NOTHING_ASSIGNED for member in joined.members}
        await self._member.sync(nothing | encoded | {self._member.id: LEADS})
        self._others = {each.id: each.instance_id for each in raw if each.id != self._member.id}
        self._names = {each: self._names[each] for each in self._others if each in self._names}
        self._next_check = now + self._assigner.check_interval
        if result.withheld:
            self._revoke_by = now + REVOCATION_TIMEOUT
        self.status = replace(
            self.status,
            last_rebalance=datetime.now(UTC),
            assignments=self.status.assignments + 1,
        )
        self._start_leading(self._assigner.figures)
        self._report_take_over(raw, result)

    def _start_leading(self, figures: Figures) -> None:
        """Note that this member leads, with the figures of its assignment."""
        succeeded = self.status.successful_take_overs + bool(self._take_over.attempts)
        self._take_over = self._take_over.leading()
        self.status = replace(self.status, figures=figures, successful_take_overs=succeeded)
        self._set(LEADING)

    async def _with_names(self, joined: Joined) -> tuple[RawMember, ...]:
        """Return the members with client ids and hosts, if these make a difference."""
        unknown = any(
            each.id not in self._names for each in joined.members if each.id != self._member.id
        )
        if unknown and self._assigner.needs_hosts(joined.protocol):
            try:
                described = await self._connection.wait(
                    self._connection.start(self._member.describe), METADATA_TIMEOUT
                )
                self._names = {m.id: (m.client_id, m.host) for m in described.members}
            except kafka_errors.KafkaError as error:
                log.info(
                    "group=%s hosts of members are unknown: %s",
                    sanitize(self.group),
                    format_error(error),
                )
        return tuple(
            replace(each, client_id=self._names[each.id][0], host=self._names[each.id][1])
            if each.id in self._names
            else each
            for each in joined.members
        )

    async def _read_topics(self) -> tuple[Any, frozenset[str]]:
        """Return metadata of the group's topics; without any in time, of none.

        Then owners keep their partitions, and the next check finds that partitions have changed.
        """
        topics = sorted(self._assigner.topics)
        deadline = time.monotonic() + METADATA_TIMEOUT
        while True:
            try:
                cluster, unknown = await self._connection.wait(
                    self._connection.start(lambda: self._connection.read_topics(topics)),
                    max(0.1, deadline - time.monotonic()),
                )
            except kafka_errors.KafkaError as error:
                if time.monotonic() > deadline:
                    log.warning(
                        "group=%s no metadata: %s", sanitize(self.group), format_error(error)
                    )
                    return ClusterMetadata(bootstrap_servers=[]), frozenset()
                await self._wakeup(0.1)
                continue
            return cluster, unknown

    def _report_take_over(self, raw: Sequence[RawMember], result: RebalanceResult) -> None:
        """Log how long the removed members read nothing, once all of them are back."""
        if self._removed is None or result.withheld:
            return
        removed_at, expected = self._removed
        present = Counter(_name(each.id, each.instance_id) for each in raw)
        if all(present[name] >= count for name, count in expected.items()):
            log.info(
                "group=%s taken over: members=%d seconds=%.1f",
                sanitize(self.group),
                len(raw) - 1,
                time.monotonic() - removed_at,
            )
            self._removed = None

    # ---- as a member that waits

    async def _follow(self, joined: Joined) -> None:
        if self.status.leads:
            log.warning(
                "group=%s lost the lead: leader=%s", sanitize(self.group), sanitize(joined.leader)
            )
        if joined.protocol in NO_WAITING:
            await self._step_aside()
            return
        # A member is not removed before the group is stable: a broker never answers the SyncGroup
        # request of a member that it removes, and the consumer waits for its request time-out.
        # Nor is it removed while members join: librdkafka's cooperative consumer then drops the
        # member id that it is given, and the group waits for that id until its session time-out.
        assigned = await self._member.sync()
        # A process that has left since must not be waited for.
        described = await self._member.describe()
        self._others = {m.id: m.instance_id for m in described.members if m.id != self._member.id}
        if not await self._decide(joined.leader):
            return
        try:
            owned = SubscriptionReader().read_assignment(assigned) if assigned else {}
        except ConsumerProtocolError:
            owned = {}
        if any(owned.values()):
            # Its leader assigns without regard to subscriptions; nobody would read these.
            log.warning(
                "group=%s leaving: its leader assigns partitions to a member that reads nothing",
                sanitize(self.group),
            )
            # The next member id may suit it better.
            self._assigned_to_us += 1
            self._outside_until_empty = self._assigned_to_us >= MAX_MISTAKES
            await self._step_aside()

    async def _decide(self, leader: str) -> bool:
        """Remove the leader if the policy says so; return whether the leader stays."""
        me, now = self._member.id, time.monotonic()
        decision = decide(
            me,
            leader,
            members_ahead(me, list(self._others)),
            [each for each in self._others if leads_for_rackward(each)],
            [each for each, instance in self._others.items() if instance],
            self._options.take_over,
            self._take_over,
            now,
        )
        self._set(WAITING, decision.reason)
        self._decide_again = None if decision.retry_after is None else now + decision.retry_after
        if not decision.remove:
            return True
        await self._remove(decision.remove, now)
        self._join_reason = "taking the group over"
        return False

    async def _remove(self, members: Sequence[str], now: float) -> None:
        """Remove members, and remember who has to return."""
        self._take_over = self._take_over.removed(now)
        self.status = replace(self.status, take_overs=self.status.take_overs + 1)
        self._removed = now, Counter(_name(m, self._others.get(m)) for m in self._others)
        log.warning(
            "group=%s removing members to take the group over: members=%s",
            sanitize(self.group),
            format_list(members),
        )
        await self._member.remove(
            [(each, self._others.get(each)) for each in members],
            "rackward lead takes the group over",
        )

    # ---- between rebalances

    def _check_session(self) -> None:
        """Join again if the coordinator has not answered for so long that it removes members."""
        silent = time.monotonic() - self._answered_at
        if self._join_reason is None and silent > self._options.timeouts.session:
            self._join_reason = "rejoining after the session time-out"
            self._set(JOINING, "the coordinator has not answered for the session time-out")

    async def _keep_membership(self) -> None:
        now = time.monotonic()
        if self._alone_until is not None and now >= self._alone_until:
            # An empty group keeps its offsets from then on for offsets.retention.minutes, and they
            # can be reset, and the group be deleted.
            await self._step_aside()
        elif not self.status.leads:
            if self._decide_again is not None and now >= self._decide_again:
                self._join_reason = "the cool-down of a take-over is over"
        elif self._revoke_by is not None and now >= self._revoke_by:
            log.warning(
                "group=%s requesting a rebalance because withheld partitions were not revoked in"
                " time",
                sanitize(self.group),
            )
            self._assigner.on_revocation_timeout()
            self._join_reason = "withheld partitions were not revoked in time"
        elif now >= self._next_check:
            self._next_check = now + self._assigner.check_interval
            await self._check_topics()

    async def _check_topics(self) -> None:
        """Rebalance if partitions or leaders have changed; without metadata in time, do nothing."""
        topics = sorted(self._assigner.topics)
        try:
            cluster, _ = await self._connection.wait(
                self._connection.start(lambda: self._connection.read_topics(topics)),
                METADATA_TIMEOUT,
            )
        except kafka_errors.KafkaError as error:
            log.info("group=%s no metadata: %s", sanitize(self.group), format_error(error))
            return
        if not self.status.leads or self._heartbeat_failure is not None:
            return
        generation = self._member.generation
        self._join_reason = await self._connection.in_worker(
            lambda: self._assigner.justifies_rebalance(cluster, generation, time.monotonic())
        )
        self.status = replace(self.status, figures=self._assigner.figures)


def _name(member_id: str, instance_id: str | None) -> str:
    """Return what a member's id has in common before and after it rejoins."""
    return instance_id or member_id[:-37]
