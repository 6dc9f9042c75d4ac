"""One led group: the life of a membership that subscribes to nothing.

Where the member is the leader, it assigns the partitions of all members by the racks of their
leaders; elsewhere it waits to become the leader (:mod:`rackward.lead.take_over`). It runs on the
event loop of a `LeadConnection`.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from typing import Any

from kafka import errors as kafka_errors
from kafka.cluster import ClusterMetadata

from assignors.consumer_protocol import (
    EMPTY_SUBSCRIPTION,
    NO_GENERATION,
    NOTHING_ASSIGNED,
    ConsumerProtocolError,
    SubscriptionReader,
)
from assignors.encoding import encode_assignment
from assignors.group_leader import format_error, format_list, format_traceback, sanitize
from assignors.group_leader.history import Assignment
from assignors.group_leader.rebalance import METADATA_TIMEOUT, REVOCATION_TIMEOUT
from assignors.leader_moves import DEFAULT_REFRESH_POLICY, RefreshPolicy
from placement_core import TopicPartition
from rackward.groups.host_racks import HostRacks
from rackward.kafka.groups import LEADER_MARKER, GroupKind, leads_for_rackward
from rackward.lead.assigner import AssignmentMetrics, GroupAssigner
from rackward.lead.member import (
    COORDINATOR_ERRORS,
    DescribedGroup,
    GroupMember,
    Joined,
    LeadConnection,
)
from rackward.lead.protocols import (
    DEFAULT_PROTOCOLS,
    NO_WAITING,
    PreviousAssignment,
    ProtocolStrategy,
    RawMember,
    client_id_of,
    why_refused,
)
from rackward.lead.take_over import (
    Decision,
    TakeOverPolicy,
    TakeOverState,
    decide,
    decide_outside,
    id_cost,
    members_ahead,
)
from rackward.lead.workers import WorkerGroup

log = logging.getLogger("rackward.lead")

ID_TRIES = 64
"""Member ids that are requested, at most, to find one that is early in the brokers' map."""

ALONE_SECONDS = 30.0
"""For which this is a member of a group without consumers; less than REBALANCE_SECONDS."""

OFFSETS_SECONDS = 6.0
"""For which a group without members is watched before it is joined: by default, clients commit
offsets every 5 s."""

WORKER_SESSION_SECONDS = 45.0
"""Session time-out if several workers divide the groups: Java consumers' default. The owner joins a
dead worker's groups and removes its members before."""

MAX_STEP_SECONDS = 60.0
"""Seconds between two steps of a membership in which nothing is due."""

RETRY_SECONDS = 1.0
"""Seconds after an error before the next attempt."""

OUTSIDE_SECONDS = 10.0
"""Poll interval while this is not a member of the group."""

REBALANCING_SECONDS = 0.5
"""Poll interval of a group that rebalances, before it is joined."""

SLOW_REBALANCE_SECONDS = 60.0
"""Seconds after which a rebalance that has not ended is reported; again after twice the time."""

JOIN_AHEAD_SECONDS = 0.01
"""Seconds from a JoinGroup request until the other members are removed.

If all of them rejoined in this time, one of them would lead with us in the group.
"""

LEAVE_REASON = "the process that leads ends"

MAX_REBALANCES = 60

MAX_MISTAKES = 3
"""Times that another leader may assign partitions to us before we stay outside."""

JOINING, LEADING, REBALANCING = "joining", "leading", "rebalancing"
WAITING, OUTSIDE, REFUSED = "waiting", "outside", "refused"
STATES = (JOINING, LEADING, REBALANCING, WAITING, OUTSIDE, REFUSED)


@dataclass(frozen=True, slots=True)
class LeadOptions:
    """How groups are led.

    protocols
        The protocols that are answered, by name.
    host_racks
        Racks of members that do not send one, by client id, host or network.
    take_over
        How to become the leader of a group that has another one.
    refresh
        When leaders that moved justify a rebalance; None: never.
    worker_group
        The group of all processes that divide the groups (:mod:`rackward.lead.workers`); None: this
        process leads all of them.
    """

    protocols: Mapping[str, ProtocolStrategy] = field(
        default_factory=lambda: dict(DEFAULT_PROTOCOLS)
    )
    host_racks: HostRacks = field(default_factory=HostRacks)
    take_over: TakeOverPolicy = field(default_factory=TakeOverPolicy)
    refresh: RefreshPolicy | None = DEFAULT_REFRESH_POLICY
    worker_group: str | None = None
    not_taken_over: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LedRebalance:
    """A rebalance that was led: when it ended, in UTC; the seconds since this member joined; and
    the assignment that was made."""

    at: datetime
    seconds: float
    metrics: AssignmentMetrics


@dataclass(frozen=True, slots=True)
class LeadStatus:
    """A group as its leader sees it.

    state
        "joining", "leading", "rebalancing" (for longer than usual), "waiting" (a member, which does
        not lead), "outside" (not a member; the group is polled) or "refused".
    reason
        Why the group is not led, in words; empty if it is.
    metrics
        Of the last assignment that was made here.
    assignments
        How many were made here.
    take_overs, successful_take_overs
        How often members were removed to take the group over, and how often it was led after that.
    rebalancing_since
        When the rebalance began that has not ended, in UTC; None: none.
    since
        When the group got into this state, in UTC.
    rebalances
        The last MAX_REBALANCES that were led, the latest at the end.
    missing
        Instance ids, or client ids, of members that took part in the last assignment from which
        nothing was withheld, and not in the present one.
    last_error
        The last error of a request or of this process, in words; empty: none.
    cool_down_until
        No member is removed before, in UTC.
    """

    group: str
    state: str = JOINING
    reason: str = ""
    metrics: AssignmentMetrics = field(default_factory=AssignmentMetrics)
    assignments: int = 0
    take_overs: int = 0
    successful_take_overs: int = 0
    rebalancing_since: datetime | None = field(default=None, compare=False)
    since: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)
    rebalances: tuple[LedRebalance, ...] = ()
    missing: tuple[str, ...] = ()
    last_error: str = field(default="", compare=False)
    cool_down_until: datetime | None = None

    @property
    def leads(self) -> bool:
        """Whether the group's assignment is made here."""
        return self.state == LEADING

    @property
    def last_rebalance(self) -> datetime | None:
        """When the last assignment was made here, in UTC; None: never."""
        return self.rebalances[-1].at if self.rebalances else None

    @property
    def rebalancing_seconds(self) -> float:
        """The age of the rebalance that has not ended; 0 if there is none."""
        since = self.rebalancing_since
        return 0.0 if since is None else (datetime.now(UTC) - since).total_seconds()


_MANUAL = "commits of consumers that assign partitions to themselves would fail"


class _Refused(Exception):
    """The group cannot be led; the text is the reason."""


class LedGroup:
    """One group: joins it, and leads or waits. Runs on the event loop.

    With ``workers`` it ends by itself once the group's owner is another worker, which leads.
    """

    def __init__(
        self,
        connection: LeadConnection,
        group: str,
        options: LeadOptions,
        workers: WorkerGroup | None = None,
    ) -> None:
        self.group = group
        self.status = LeadStatus(group)
        self._connection = connection
        if group in options.not_taken_over:
            options = replace(options, take_over=TakeOverPolicy())
        self._options = options
        self._workers = workers
        session_seconds = None if workers is None else WORKER_SESSION_SECONDS
        self._member = GroupMember(connection, group, session_seconds=session_seconds)
        self._assigner = GroupAssigner(
            group, options.protocols, options.host_racks, options.refresh
        )
        self._wakeup = connection.notifier()
        self._next_heartbeat = connection.notifier()
        self._heartbeat_failure: Exception | None = None
        self.handed_over = False
        """Whether it has ended because another worker leads the group."""
        self._closing = False
        self._in_use: str | None = None
        self._others: dict[str, str | None] = {}
        self._names: dict[str, tuple[str, str | None]] = {}
        self._take_over = TakeOverState()
        self._removed: tuple[float, Counter[str]] | None = None
        self._complete: Counter[str] = Counter()
        self._join_reason: str | None = "a member that assigns by rack joins"
        self._next_check = 0.0
        self._answered_at = 0.0
        self._failing_since: float | None = None
        self._warn_at = SLOW_REBALANCE_SECONDS
        self._alone_until: float | None = None
        self._offsets: tuple[float, dict[TopicPartition, int]] | None = None
        self._revoke_by: float | None = None
        self._decide_again: float | None = None
        self._outside_until_empty = False
        self._assigned_to_us = 0
        self._running: Any = None

    def start(self, on_end: Callable[[], None]) -> None:
        """Start to join; at the end, ``on_end`` is called on the event loop. In any thread."""
        self._running = self._connection.start(self._run)
        self._running.add_both(lambda _: on_end())

    def check_owner(self) -> None:
        """Find out soon whether another worker is the owner. Called in any thread."""
        self._wakeup.notify()

    @property
    def is_handing_over(self) -> bool:
        """Whether another worker is the owner."""
        return self._successor is not None

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
            while not self._closing:
                await self._wakeup(await self._step())
            await heartbeats
        finally:
            # An id that was given after `leave` sent its request.
            await self._member.leave(LEAVE_REASON)

    async def _step(self) -> float:
        """Join, or keep the membership; return the seconds until the next step."""
        try:
            if await self._has_handed_over():
                self.handed_over = self._closing = True
                self._next_heartbeat.notify()
                return 0.0
            if self._join_reason is not None:
                if self._member.id:
                    return await self._join(self._join_reason)
                return await self._connection.enter(partial(self._enter, self._join_reason))
            failure, self._heartbeat_failure = self._heartbeat_failure, None
            if failure is not None:
                raise failure
            return await self._keep_membership()
        except _Refused as refused:
            await self._let_go(str(refused))
            return OUTSIDE_SECONDS
        except kafka_errors.RebalanceInProgressError:
            self._join_reason = "the group rebalances"
            return 0.0
        except kafka_errors.IllegalGenerationError:
            self._join_reason = "the generation is over"
            return 0.0
        except kafka_errors.UnknownMemberIdError:
            self._member.forget()
            if not self._closing and self._successor is None:
                self._log(logging.WARNING, "the group has removed this member")
                self._join_reason = "rejoining after removal"
            return 0.0
        except kafka_errors.GroupMaxSizeReachedError:
            self._set(OUTSIDE, "the group has as many members as group.max.size permits")
            self._member.forget()
            return OUTSIDE_SECONDS
        except kafka_errors.GroupAuthorizationFailedError:
            self._set(REFUSED, "not authorized: grant this user Read on the group")
            self._member.forget()
            return OUTSIDE_SECONDS
        except kafka_errors.SaslAuthenticationFailedError as error:
            self._join_reason = "authentication failed"
            renew = partial(self._connection.renew_credentials, error)
            if not await self._connection.in_worker(renew):
                self._set(REFUSED, str(self._connection.failure))
            return RETRY_SECONDS
        except kafka_errors.KafkaError as error:
            self._on_failure(error)
            return RETRY_SECONDS / 4 if isinstance(error, COORDINATOR_ERRORS) else RETRY_SECONDS
        except Exception as error:  # noqa: BLE001 - other groups go on, and this one without us
            self._log(
                logging.ERROR, "leaving after %s\n%s", format_error(error), format_traceback(error)
            )
            self.status = replace(self.status, last_error=format_error(error))
            self._set(OUTSIDE, "an unexpected error, see the log")
            await self._step_aside()
            return OUTSIDE_SECONDS

    @property
    def _successor(self) -> str | None:
        """The worker that is to lead the group; None if this one is, or is not known."""
        owner = None if self._workers is None else self._workers.owner(self.group)
        return None if self._workers is None or owner == self._workers.name else owner

    async def _has_handed_over(self) -> bool:
        """Return whether the group is another worker's from now on.

        That is when its owner is a member. In the rebalance in which it joins, it leads if this
        member leaves instead of joining again, unless a consumer is ahead of it in the brokers'
        map. Then this member goes on leading, until that is otherwise or the process ends.
        """
        workers = self._workers
        successor = self._successor
        if workers is None or successor is None or not self._member.id:
            return successor is not None
        if self._join_reason is not None:
            described = await self._member.describe()
            others = [member for member in described.members if member.id != self._member.id]
            self._others = {member.id: member.instance_id for member in others}
        owner = next((each for each in self._others if client_id_of(each) == successor), None)
        if owner is None:
            return False
        if self.status.state != WAITING and not workers.closing:
            before = members_ahead(owner, self._others.keys() - {owner})
            if not all(map(leads_for_rackward, before)):
                return False
        self._log(logging.INFO, "handing over: worker=%s", sanitize(successor))
        return True

    async def _send_heartbeats(self) -> None:
        """Send heartbeats between two joins, also while an assignment is made.

        What fails is left to the task of the membership.
        """
        while not self._closing:
            await self._next_heartbeat(self._connection.heartbeat_seconds)
            self._report_slow_rebalance()
            generation = self._member.generation
            if generation == NO_GENERATION or self._heartbeat_failure is not None:
                continue
            try:
                await self._member.heartbeat()
                self._on_answer()
            except Exception as error:  # noqa: BLE001 - raised by the other task
                if generation == self._member.generation:
                    self._heartbeat_failure = error
                    self._wakeup.notify()

    def _on_answer(self) -> None:
        """Note that the coordinator responds."""
        self._answered_at = time.monotonic()
        if self._failing_since is not None:
            seconds = self._answered_at - self._failing_since
            self._log(logging.INFO, "the coordinator responds again: seconds=%.0f", seconds)
            self._failing_since = None

    def _on_failure(self, error: Exception) -> None:
        """Look the coordinator up again, and join again once it must have removed this member."""
        now = time.monotonic()
        self.status = replace(self.status, last_error=format_error(error))
        if self._failing_since is None:
            self._failing_since = now
            self._log(logging.INFO, "retrying after %s", format_error(error))
        self._member.forget_coordinator()
        if self._join_reason is None and now - self._answered_at > self._member.session_seconds:
            self._join_reason = "rejoining after the session time-out"
            self._set(JOINING, "the coordinator has not answered for the session time-out")

    def _report_slow_rebalance(self) -> None:
        """Report a rebalance that does not end: members do not join, or brokers cannot end it."""
        seconds = self.status.rebalancing_seconds
        if seconds < self._warn_at:
            return
        self._warn_at = 2 * seconds
        self._set(REBALANCING, "members have not joined, or brokers fail to complete the join")
        self._log(logging.WARNING, "the rebalance has not ended: seconds=%.0f", seconds)

    def _begin_rebalance(self) -> None:
        """Note when the rebalance began, which ends with the next state that is known."""
        if self.status.rebalancing_since is None:
            self._warn_at = SLOW_REBALANCE_SECONDS
            self.status = replace(self.status, rebalancing_since=datetime.now(UTC))

    def _set(self, state: str, reason: str = "", level: int = logging.INFO) -> None:
        if (state, reason) != (self.status.state, self.status.reason):
            because = f" reason={sanitize(reason, 300)}" if reason else ""
            self._log(level, "state=%s%s", state, because)
        if state != self.status.state:
            self.status = replace(self.status, since=datetime.now(UTC))
        since = self.status.rebalancing_since if state in (JOINING, REBALANCING) else None
        self.status = replace(self.status, state=state, reason=reason, rebalancing_since=since)

    def _log(self, level: int, message: str, *values: object) -> None:
        log.log(level, f"group=%s {message}", sanitize(self.group), *values)

    async def _let_go(self, reason: str) -> None:
        """Leave a group that cannot be led, or not any more: it has changed to the new protocol.

        With this member in it, such a group would stay mixed, and become a classic one again when
        its last consumer leaves. What is known of it is out of date when it can be led again.
        """
        self._set(REFUSED, reason, logging.WARNING if self._member.id else logging.INFO)
        await self._step_aside()
        self._in_use = self._removed = self._alone_until = self._offsets = None
        self._complete, self._names = Counter(), {}
        self._take_over = replace(self._take_over, attempts=0)
        self._assigner.forget()
        self.status = replace(self.status, missing=())

    async def _step_aside(self) -> None:
        """Leave the group, and join it again later."""
        self._join_reason = "joining again"
        with suppress(kafka_errors.KafkaError):
            await self._member.leave("this group is not led")
        self._member.forget()

    # ---- joining

    async def _enter(self, reason: str) -> float:
        """Join as a new member, unless that has become needless; see `_join`."""
        if self._closing or self._successor is not None:
            return 0.0
        return await self._join(reason)

    async def _join(self, reason: str) -> float:
        """Join, and lead or wait; return the seconds until the next step."""
        gone: list[str] = []
        if not self._member.id:
            if self._workers is not None and not self._workers.confirmed:
                self._set(OUTSIDE, "this process is not in the group of workers now")
                return self._connection.heartbeat_seconds
            described = await self._member.describe()
            self._check_leadable(described)
            consumers = [m for m in described.members if not leads_for_rackward(m.id)]
            if consumers:
                self._alone_until = self._offsets = None
            elif (why := await self._why_not_alone(described)) is not None:
                self._on_answer()
                self._set(OUTSIDE, why)
                return self._connection.heartbeat_seconds
            if self._workers is not None:
                gone = self._workers.gone(member.id for member in described.members)
            # While such a member is waited for, the group does not get stable.
            if consumers and not described.protocol and not gone:
                # Brokers tell the protocol of a stable group only.
                if self.status.state != REBALANCING:
                    self._set(JOINING, "the group rebalances")
                self._begin_rebalance()
                return REBALANCING_SECONDS
            self._learn(described)
            if self._others and (self._outside_until_empty or described.protocol in NO_WAITING):
                return await self._join_from_outside(reason)
            self._outside_until_empty = False
            mode = self._options.take_over.mode
            await self._member.choose_id(
                self._protocols(), lambda member: id_cost(member, self._others, mode), ID_TRIES
            )
        if self._closing:
            return 0.0
        self._begin_rebalance()
        joining = self._connection.start(lambda: self._member.join(self._protocols(), reason))
        if self._workers is not None and gone:
            await self._remove_gone(self._workers, gone, joining)
        try:
            joined = await joining
        except kafka_errors.InconsistentGroupProtocolError:
            self._member.forget()
            self._in_use = None
            self._check_leadable(await self._member.describe())
            raise
        return await self._on_joined(joined)

    async def _remove_gone(
        self, workers: WorkerGroup, members: Collection[str], joining: Any
    ) -> None:
        """Remove the members of workers that are gone, once this member is in the group.

        A consumer would lead if this member were not there, and all members would wait for the
        session time-out of those members if they stayed.
        """
        while not joining.is_done:
            with suppress(kafka_errors.KafkaError):
                present = {member.id for member in (await self._member.describe()).members}
                if self._member.id in present and await workers.confirm():
                    if gone := workers.gone(present.intersection(members)):
                        self._log(logging.INFO, "removing members of a process that is gone")
                        await self._member.remove([(id, None) for id in gone], "it is gone")
                    return
            await self._wakeup(JOIN_AHEAD_SECONDS)

    def _protocols(self) -> list[tuple[str, bytes]]:
        """Return the names and the subscription to join with; the protocol in use is the first.

        All are listed, so that no member that joins with another one of them is refused. A member
        votes for the first of its list that all members support, so a group keeps the protocol that
        it uses unless its other members vote otherwise.
        """
        names = sorted(self._options.protocols, key=lambda name: name != self._in_use)
        return [(name, EMPTY_SUBSCRIPTION) for name in names]

    async def _join_from_outside(self, reason: str) -> float:
        """Join while all other members are removed, or stay outside."""
        now = time.monotonic()
        decision = decide_outside(self._others, self._options.take_over, self._take_over, now)
        if not decision.remove:
            self._on_answer()
            self._set(OUTSIDE, decision.reason)
            return OUTSIDE_SECONDS
        self._member.id = await self._member.request_id(self._protocols())
        self._begin_rebalance()
        joining = self._connection.start(lambda: self._member.join(self._protocols(), reason))
        # An empty group would wait for group.initial.rebalance.delay.ms. Members learn of the join
        # by their next heartbeat, so that none of them leads before it is removed.
        await self._wakeup(JOIN_AHEAD_SECONDS)
        await self._remove(decision, now)
        self._outside_until_empty = False
        return await self._on_joined(await joining)

    async def _on_joined(self, joined: Joined) -> float:
        self._join_reason = self._heartbeat_failure = None
        self._on_answer()
        self._revoke_by = self._decide_again = None
        self._in_use = joined.protocol
        try:
            if joined.leader == self._member.id:
                await self._lead(joined)
                return 0.0
            self._assigner.follow()
            if joined.leader:
                return await self._follow(joined)
            # Brokers that assign themselves name no leader.
            self._check_leadable(await self._member.describe())
            self._join_reason = "the group has no leader"
            return RETRY_SECONDS
        except kafka_errors.KafkaError:
            # Brokers wait for the leader's assignment as long as members may take to rejoin, and a
            # member that waits has not decided about the leader.
            self._join_reason = "an error after joining"
            raise

    async def _why_not_alone(self, group: DescribedGroup) -> str | None:
        """Return why a group without consumers is not joined; None if it is, to lead it from the
        first consumer on.

        That is once, for ALONE_SECONDS. Consumers that assign partitions to themselves (assign())
        are no members, and while a group has a member, their commits fail. So a group that never
        had members is not joined, nor one whose offsets move within OFFSETS_SECONDS.
        """
        if group.kind is GroupKind.MANUAL and group.state == "Empty":
            return f"it has committed offsets, and never had members: {_MANUAL}"
        now = time.monotonic()
        missing = group.state == "Dead"
        none = "no such group: check the name" if missing else "it has no consumers"
        if group.members or (self._alone_until is not None and now >= self._alone_until):
            return none
        offsets = {} if missing else await self._member.committed_offsets()
        first_at, first = self._offsets = self._offsets or (now, offsets)
        if any(offset > first.get(tp, -1) for tp, offset in offsets.items()):
            return f"it has no members, and its offsets move: {_MANUAL}"
        if now - first_at < OFFSETS_SECONDS:
            return f"{none}; watching whether its offsets move"
        return None

    def _check_leadable(self, group: DescribedGroup) -> None:
        """Raise _Refused if the group's assignment cannot be made here."""
        reason = why_refused(
            group.kind, group.protocol_type, group.protocol, self._options.protocols
        )
        if reason is not None:
            raise _Refused(reason)

    def _learn(self, group: DescribedGroup) -> None:
        """Remember protocol and members of a group that is about to be joined."""
        self._in_use = group.protocol or self._in_use
        self._others = {member.id: member.instance_id for member in group.members}
        self._names |= {member.id: (member.client_id, member.host) for member in group.members}
        if group.state == "Stable" and not self._assigner.previous.members:
            self._assigner.previous = PreviousAssignment.of(group.members)

    # ---- as the leader

    async def _lead(self, joined: Joined) -> None:
        if all(leads_for_rackward(member.id) for member in joined.members):
            # Nobody to assign to: the first consumer that joins starts a rebalance. No assignment
            # is sent, so that the group is not stable: from stable groups, brokers delete the
            # offsets of topics that no member subscribes to, by the age of their commits.
            if self._alone_until is None:
                self._alone_until = time.monotonic() + ALONE_SECONDS
            self._others = {}
            self._next_check = inf
            self._start_leading(AssignmentMetrics(joined.generation, joined.protocol))
            return
        self._alone_until = None
        members = await self._with_names(joined)
        reading = await self._connection.in_worker(
            lambda: self._assigner.read(joined.protocol, members)
        )
        cluster, deleted = await self._read_topics()
        now = time.monotonic()
        result: Assignment = await self._connection.in_worker(
            lambda: self._assigner.assign(
                joined.protocol, joined.generation, members, reading, cluster, deleted, now
            )
        )
        others = [member for member in members if member.id != self._member.id]
        # Members that read nothing are not in the result.
        nothing = {member.id: NOTHING_ASSIGNED for member in others}
        encoded = nothing | encode_assignment(result.assigned) | {self._member.id: LEADER_MARKER}
        await self._member.sync(encoded)
        self._others = {member.id: member.instance_id for member in others}
        present = self._stable_names(self._others)
        missing = tuple((self._complete - present).elements())
        if not result.withheld:
            self._complete = present
        self._names = {m: self._names[m] for m in self._others if m in self._names}
        self._next_check = now + self._assigner.check_interval
        if result.withheld:
            self._revoke_by = now + REVOCATION_TIMEOUT
        ended = datetime.now(UTC)
        rebalance = LedRebalance(ended, self.status.rebalancing_seconds, self._assigner.metrics)
        self.status = replace(
            self.status,
            assignments=self.status.assignments + 1,
            rebalances=(*self.status.rebalances, rebalance)[-MAX_REBALANCES:],
            missing=missing,
        )
        self._start_leading(self._assigner.metrics)
        if not result.withheld:
            self._report_take_over()

    def _start_leading(self, metrics: AssignmentMetrics) -> None:
        """Note that this member leads, with the metrics of its assignment."""
        succeeded = self.status.successful_take_overs + bool(self._take_over.attempts)
        self._take_over = self._take_over.leading()
        self.status = replace(self.status, metrics=metrics, successful_take_overs=succeeded)
        self._set(LEADING)

    async def _with_names(self, joined: Joined) -> tuple[RawMember, ...]:
        """Return the members with client ids and hosts, if these make a difference."""
        unknown = {member.id for member in joined.members} - {self._member.id} - self._names.keys()
        if unknown and self._assigner.needs_hosts(joined.protocol):
            try:
                described = await self._connection.wait(
                    self._connection.start(self._member.describe), METADATA_TIMEOUT
                )
                self._names = {m.id: (m.client_id, m.host) for m in described.members}
            except kafka_errors.KafkaError as error:
                self._log(logging.INFO, "hosts of members are unknown: %s", format_error(error))
        return tuple(
            replace(member, client_id=self._names[member.id][0], host=self._names[member.id][1])
            if member.id in self._names
            else member
            for member in joined.members
        )

    async def _read_topics(self) -> tuple[Any, frozenset[str]]:
        """Return metadata of the group's topics; without any in time, of none.

        Then owners keep their partitions, and the next check finds that partitions have changed.
        """
        topics = sorted(self._assigner.topics)
        deadline = time.monotonic() + METADATA_TIMEOUT
        while True:
            try:
                seconds = max(0.1, deadline - time.monotonic())
                return await self._connection.read_topics(topics, seconds)
            except kafka_errors.KafkaError as error:
                if time.monotonic() > deadline:
                    self._log(logging.WARNING, "no metadata: %s", format_error(error))
                    return ClusterMetadata(bootstrap_servers=[]), frozenset()
                await self._wakeup(0.1)

    def _report_take_over(self) -> None:
        """Log how long the removed members read nothing, once all of them are back."""
        if self._removed is None:
            return
        removed_at, expected = self._removed
        if self._stable_names(self._others) >= expected:
            seconds = time.monotonic() - removed_at
            self._log(
                logging.INFO, "taken over: members=%d seconds=%.1f", len(self._others), seconds
            )
            self._removed = None

    # ---- as a member that waits

    async def _follow(self, joined: Joined) -> float:
        if self.status.leads:
            self._log(logging.WARNING, "lost the lead: leader=%s", sanitize(joined.leader))
        if joined.protocol in NO_WAITING:
            await self._step_aside()
            return 0.0
        # A member is not removed before the group is stable: a broker never answers the SyncGroup
        # request of a member that it removes, and the consumer waits for its request time-out.
        # Nor is it removed while members join: librdkafka's cooperative consumer then drops the
        # member id that it is given, and the group waits for that id until its session time-out.
        assigned = await self._member.sync()
        # A process that has left since must not be waited for.
        described = await self._member.describe()
        self._others = {m.id: m.instance_id for m in described.members if m.id != self._member.id}
        now = time.monotonic()
        decision = decide(
            self._member.id,
            joined.leader,
            self._others,
            self._options.take_over,
            self._take_over,
            now,
            joined.protocol,
        )
        self._set(WAITING, decision.reason)
        if decision.retry_after is not None:
            self._decide_again = now + decision.retry_after
        if decision.remove:
            await self._remove(decision, now)
            self._join_reason = "taking the group over"
            return 0.0
        try:
            owned = SubscriptionReader().read_assignment(assigned) if assigned else {}
        except ConsumerProtocolError:
            owned = {}
        if not any(owned.values()):
            return 0.0
        # Its leader assigns without regard to subscriptions; nobody would read these.
        self._log(
            logging.WARNING,
            "leaving: its leader assigns partitions to a member that reads nothing",
        )
        # The next member id may suit it better.
        self._assigned_to_us += 1
        self._outside_until_empty = self._assigned_to_us >= MAX_MISTAKES
        await self._step_aside()
        return 0.0

    async def _remove(self, decision: Decision, now: float) -> None:
        """Remove members, and remember who has to return."""
        self._take_over = self._take_over.removed(now)
        cool_down = timedelta(seconds=self._options.take_over.cool_down)
        self.status = replace(
            self.status,
            take_overs=self.status.take_overs + 1,
            cool_down_until=datetime.now(UTC) + cool_down,
        )
        self._removed = now, self._stable_names(self._others)
        self._complete = self._removed[1]
        self._log(
            logging.WARNING,
            "removing members to take the group over: members=%s",
            format_list(decision.remove),
        )
        await self._member.remove(
            [(member, self._others.get(member)) for member in decision.remove],
            "rackward lead takes the group over",
        )

    # ---- between rebalances

    async def _keep_membership(self) -> float:
        """Do what is due; return the seconds until the next step."""
        now = time.monotonic()
        if self._alone_until is not None and now >= self._alone_until:
            # An empty group keeps its offsets from then on for offsets.retention.minutes, and they
            # can be reset, and the group be deleted.
            await self._step_aside()
        elif not self.status.leads:
            if self._decide_again is not None and now >= self._decide_again:
                self._join_reason = "the cool-down of a take-over is over"
        elif self._revoke_by is not None and now >= self._revoke_by:
            self._join_reason = "withheld partitions were not revoked in time"
            self._assigner.on_revocation_timeout()
        elif now >= self._next_check:
            self._next_check = now + self._assigner.check_interval
            await self._check_topics()
        if self._join_reason is not None:
            return 0.0
        due = [self._alone_until, self._decide_again]
        if self.status.leads:
            due += [self._revoke_by, self._next_check]
        # What changes meanwhile, such as a failed heartbeat, wakes it up.
        seconds = min((at for at in due if at is not None), default=inf) - time.monotonic()
        return min(max(seconds, 0.0), MAX_STEP_SECONDS)

    async def _check_topics(self) -> None:
        """Rebalance if partitions or leaders have changed; without metadata in time, do nothing."""
        topics = sorted(self._assigner.topics)
        try:
            cluster = await self._connection.check_topics(topics, METADATA_TIMEOUT)
        except kafka_errors.KafkaError as error:
            self._log(logging.INFO, "no metadata: %s", format_error(error))
            return
        if not self.status.leads or self._heartbeat_failure is not None:
            return
        generation = self._member.generation
        self._join_reason = await self._connection.in_worker(
            lambda: self._assigner.justifies_rebalance(cluster, generation, time.monotonic())
        )
        self.status = replace(self.status, metrics=self._assigner.metrics)

    def _stable_names(self, members: Mapping[str, str | None]) -> Counter[str]:
        """Return what members have in common before and after they rejoin, and how often.

        The id of a member that joined while the group was of the new protocol has no client id.
        """
        clients = {member_id: name for member_id, (name, _) in self._names.items()}
        return Counter(
            instance_id or clients.get(member_id) or client_id_of(member_id)
            for member_id, instance_id in members.items()
        )
