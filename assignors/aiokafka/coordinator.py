"""The group coordinator of an AIOKafkaConsumer that has one of rackward's assignors.

aiokafka calls an assignor for its metadata and for an assignment, and passes it each new
assignment. That is too little in several ways, so `install` makes every AIOKafkaConsumer that is
started afterwards use the subclass of aiokafka's coordinator below.
:mod:`assignors.client_assignor` has what it does for any client library. For this one:

Subscriptions of other members
    aiokafka decodes every subscription as version 0. What later versions contain (racks, and what
    cooperative members own while they join) would be dropped, and members of two clients would read
    one partition.
What this member owned
    An assignor does not receive generations, and one assignor may serve several consumers. Here
    each coordinator keeps its own last assignment and the generation of it. The claim outlasts a
    change of topics and an expired session; a member that was assigned the partitions meanwhile
    has a later claim.
Topics that only other members subscribe to
    aiokafka waits for their metadata without a limit, and assigns without it if the first response
    lacks them. Here the leader waits ``METADATA_TIMEOUT`` seconds at most, and requests a topic
    twice: a broker may lack a topic for a moment that others already serve.
Deleted topics
    aiokafka retries the commit for a deleted topic until a topic of that name exists, which then
    has the offsets of the old one. Before a rebalance this keeps the member from joining, and its
    group waits for it. Here it is tried once, as in Apache's client.
Several assignors
    aiokafka sends one JoinGroup per assignor of its list, each with one more of them. Each is a
    rebalance for all members, and members that are out of step can keep each other from completing
    one, so a rolling change of assignors can stop a group. Here only the last one is sent, which
    has them all.

One group, several clients
    Members of other clients join cooperatively under the sticky protocol's name: they keep their
    partitions throughout, and list them in their subscription. Members of aiokafka revoke all
    partitions before they join, and list in their user data what they had. The leader, of whichever
    client, follows one rule: an owned partition is assigned to no other member before its owner has
    revoked it and joined again; a revoked one is free at once. So no partition ever has two owners,
    and a rebalance takes two rounds at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiokafka.consumer.consumer
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.protocol import ConsumerProtocol, ConsumerProtocolMemberMetadata
from aiokafka.errors import (
    CommitFailedError,
    KafkaError,
    NoError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.group import JoinGroupRequest

from assignors.aiokafka.internals import check_aiokafka
from assignors.client_assignor import (
    BoundAssignor,
    ClassPatch,
    ClientAssignor,
    bind,
    is_client_assignor,
    log_not_monitored,
)
from assignors.consumer_protocol import NO_GENERATION, write_user_data
from assignors.group_leader import GroupContext, format_error, log, metadata
from assignors.leader_moves import leads_since_before_restart

if TYPE_CHECKING:
    from assignors.group_leader.monitor import LeaderMoveMonitor
    from assignors.group_leader.rebalance import Leadership

UNKNOWN_EPOCH = -1
"""The leader epoch of every partition: aiokafka does not request it."""

RESPONSES_WITHOUT_TOPIC = 2
"""Metadata responses that have to lack a topic before it counts as one that does not exist."""


def install() -> None:
    """Make every AIOKafkaConsumer that is started from now on use the classes of this adapter.

    Constructing one of the assignors does this too. Idempotent and thread-safe. Raises
    UnsupportedClientError if the installed aiokafka lacks what the adapter relies on.
    """
    check_aiokafka()
    _patch.install()


def uninstall() -> None:
    """Make consumers that are started from now on use aiokafka's own coordinator again.

    Consumers that have started keep theirs. Assignors that exist cannot be given to new consumers
    until `install` is called again.
    """
    _patch.uninstall()


class LinkedFetcher(Fetcher):  # type: ignore[misc]
    """aiokafka's fetcher, which the coordinator of its consumer finds by their subscription."""

    def __init__(self, client: Any, subscriptions: Any, **config: Any) -> None:
        super().__init__(client, subscriptions, **config)
        subscriptions.rackward_fetcher = self

    def withhold_rack(self) -> str | None:
        """Send no rack from now on; return the one that would have been sent."""
        # aiokafka 0.13 has no client_rack.
        rack: str | None = getattr(self, "_client_rack", None)
        self._client_rack: str | None = None
        return rack


class RackAwareCoordinator(GroupCoordinator):  # type: ignore[misc]
    """aiokafka's coordinator, with a bound one for each of rackward's assignors."""

    def __init__(self, client: Any, subscription: Any, **config: Any) -> None:
        check_aiokafka()
        self.client, self.subscription, self.cluster = client, subscription, client.cluster
        self._retry_seconds = config.get("retry_backoff_ms", 100) / 1000
        self.last_assignment: dict[str, list[int]] = {}
        self.last_generation = NO_GENERATION
        self._revocation_timer: asyncio.TimerHandle | None = None
        self._leads_since_before_restart = False
        self._leadership: Leadership | None = None
        # Of the assignment that this member made last.
        self._led_generation = NO_GENERATION
        assignors = config.get("assignors", ())
        self._has_bound = any(map(is_client_assignor, assignors))
        if self._has_bound:
            fetcher = getattr(subscription, "rackward_fetcher", None)
            client_rack = fetcher.withhold_rack() if fetcher else None
            assignors = bind(assignors, lambda each: AIOKafkaBoundAssignor(each, self, client_rack))
            config = {**config, "assignors": assignors}
        super().__init__(client, subscription, **config)
        self._leader_checks: asyncio.Task[None] | None = None

    @property
    def context(self) -> GroupContext:
        """Group and generation, for log lines."""
        return GroupContext(self.group_id, self.generation)

    # ---- called by aiokafka

    async def _send_req(self, request: Any) -> Any:
        if (
            self._has_bound
            and isinstance(request, JoinGroupRequest)
            and len(request._group_protocols) < len(self._assignors)
        ):
            # Of the response to this request only the error code is looked at.
            return SimpleNamespace(error_code=NoError.errno)
        response = await super()._send_req(request)
        if isinstance(request, JoinGroupRequest) and response.error_code == NoError.errno:
            self._leads_since_before_restart = leads_since_before_restart(
                response.leader_id, response.member_id, self._group_instance_id
            )
            if response.leader_id != response.member_id and self._leadership is not None:
                self._leadership.follow()
        return response

    async def _on_join_prepare(self, previous_assignment: Any) -> None:
        self._watch_leaders(None)
        self._schedule_revocation_check(0)
        await super()._on_join_prepare(previous_assignment)

    async def _perform_assignment(self, response: Any) -> Any:
        bound = self._lookup_assignor(response.group_protocol)
        if not isinstance(bound, AIOKafkaBoundAssignor):
            return await super()._perform_assignment(response)
        # Imported here, because other members of the group need no numpy.
        from assignors.encoding import encode_assignment, read_members
        from assignors.group_leader.rebalance import Leadership, topics_of

        # Before version 5 a member has no instance id: (member id, metadata).
        members = read_members(
            (member_id, instance_id[0] if instance_id else None, metadata)
            for member_id, *instance_id, metadata in response.members
        )
        # aiokafka compares metadata of these topics, and rejoins if their partitions change.
        self._group_subscription = topics_of(members)
        deleted_topics = await self._await_metadata(self._group_subscription)
        now = asyncio.get_running_loop().time()
        leaders, _ = read_metadata(self.cluster, members.topics)
        self._leadership = self._leadership or Leadership()
        result = self._leadership.assign(
            bound.assignor.protocol, members, leaders, deleted_topics, self.context, now
        )
        self._metadata_snapshot = self._get_metadata_snapshot()
        self._schedule_revocation_check(result.withheld)
        self._led_generation = self.generation
        return encode_assignment(result.assigned)

    async def _on_join_complete(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        assignment = ConsumerProtocol.ASSIGNMENT.decode(member_assignment_bytes)
        self.last_assignment, self.last_generation = {}, generation
        for topic, partition in assignment.partitions():
            self.last_assignment.setdefault(topic, []).append(partition)
        await super()._on_join_complete(generation, member_id, protocol, member_assignment_bytes)
        if self._leadership is not None and self._led_generation == generation:
            self._watch_leaders(self._check_leaders(self._leadership.monitor))
        bound = self._lookup_assignor(protocol)
        if self._leads_since_before_restart and isinstance(bound, AIOKafkaBoundAssignor):
            self._watch_leaders(self._resume_leading(bound))

    async def _do_commit_offsets(self, assignment: Any, offsets: Any) -> None:
        try:
            await super()._do_commit_offsets(assignment, offsets)
        except UnknownTopicOrPartitionError as error:
            if not self._has_bound:
                raise
            # The same request has committed the offsets of all topics that exist.
            raise CommitFailedError("offsets of a deleted topic cannot be committed") from error

    def _is_commit_retriable(self, error: Any) -> bool:
        # The next automatic commit is of the positions at that time.
        return isinstance(error, CommitFailedError) or super()._is_commit_retriable(error)

    async def close(self) -> None:
        """Close the coordinator, and cancel what is scheduled."""
        try:
            await super().close()
        finally:
            # Afterwards: aiokafka completes a join in progress first, which may schedule more.
            self._schedule_revocation_check(0)
            checks = self._leader_checks
            self._watch_leaders(None)
            if checks is not None:
                await asyncio.wait([checks])

    # ---- implementation

    async def _await_metadata(self, topics: set[str]) -> frozenset[str]:
        """Return those of ``topics`` that do not exist, once all others have metadata.

        Returns none of them if brokers do not respond in time.
        """
        from assignors.group_leader.rebalance import METADATA_TIMEOUT

        if topics and not self.subscription.subscribed_pattern:
            self.client.set_topics(topics)
        try:
            async with asyncio.timeout(METADATA_TIMEOUT):
                await self.client._maybe_wait_metadata()
                responses = 0
                while self._unseen(topics) and responses < RESPONSES_WITHOUT_TOPIC:
                    responses += bool(await self.client.force_metadata_update())
                    if self._unseen(topics) and responses < RESPONSES_WITHOUT_TOPIC:
                        await asyncio.sleep(self._retry_seconds)
        except (TimeoutError, KafkaError) as error:
            log.debug("group=%s: no metadata: %s", self.group_id, format_error(error))
            return frozenset()
        # A topic that this member may not describe may exist for the members that subscribe to it.
        return frozenset(self._unseen(topics) - self.cluster.unauthorized_topics)

    def _unseen(self, topics: Iterable[str]) -> set[str]:
        return {topic for topic in topics if not self.cluster.partitions_for_topic(topic)}

    def _watch_leaders(self, checks: Coroutine[Any, Any, None] | None) -> None:
        """Run ``checks`` instead of those that run; None: run none."""
        if self._leader_checks is not None:
            self._leader_checks.cancel()
        self._leader_checks = None if checks is None else asyncio.create_task(checks)

    async def _check_leaders(self, monitor: LeaderMoveMonitor | None) -> None:
        """Request metadata at an interval, and a rebalance if ``monitor`` judges it worth one."""
        if monitor is None:
            return
        read, clock = partial(read_metadata, self.cluster), asyncio.get_running_loop().time
        interval = monitor.interval
        while True:
            await asyncio.sleep(interval)
            try:
                async with asyncio.timeout(interval):
                    answered = await self.client.force_metadata_update()
            except (TimeoutError, KafkaError) as error:
                log.debug("group=%s: no metadata: %s", self.group_id, format_error(error))
                continue
            if answered and monitor.check(read, clock(), self.context):
                self.request_rejoin()

    async def _resume_leading(self, bound: AIOKafkaBoundAssignor) -> None:
        """Check the leaders for a group that this member led when it restarted."""
        from assignors.group_leader.rebalance import Leadership

        context = self.context
        try:
            await self.client.force_metadata_update()
            response = await self._send_req(DescribeGroupsRequest([self.group_id]))
            ((error, _, state, _, _, members, *_),) = response.groups
            if error:
                raise for_code(error)()
        except KafkaError as error:
            log_not_monitored(context, error)
            return
        if state != "Stable":
            return
        described = [(id, None, sent, assignment) for id, _, _, sent, assignment in members]
        read, now = partial(read_metadata, self.cluster), asyncio.get_running_loop().time()
        self._leadership = Leadership()
        self._leadership.resume(bound.assignor.protocol, described, read, context, now)
        if (monitor := self._leadership.monitor) is not None:
            log.info("leading the group since before the restart: %s", context)
            await self._check_leaders(monitor)

    def _schedule_revocation_check(self, withheld: int) -> None:
        """Replace the scheduled check by one for ``withheld`` partitions, or by none."""
        if self._revocation_timer is not None:
            self._revocation_timer.cancel()
            self._revocation_timer = None
        if withheld:
            from assignors.group_leader.rebalance import REVOCATION_TIMEOUT

            self._revocation_timer = asyncio.get_running_loop().call_later(
                REVOCATION_TIMEOUT, self._check_revocation, self.context, withheld
            )

    def _check_revocation(self, context: GroupContext, withheld: int) -> None:
        """Request a rebalance if there was none since withheld partitions had to be revoked."""
        is_assigned = context.generation == self.generation == self.last_generation
        if is_assigned and not self._rejoin_needed_fut.done():
            assert self._leadership is not None
            self._leadership.on_revocation_timeout(context, withheld)
            self.request_rejoin()


class AIOKafkaBoundAssignor(BoundAssignor):
    """A bound assignor as aiokafka's coordinator calls it."""

    def __init__(
        self, assignor: ClientAssignor, coordinator: RackAwareCoordinator, client_rack: str | None
    ) -> None:
        super().__init__(assignor, client_rack)
        self._coordinator = coordinator

    def metadata(self, topics: Iterable[str]) -> Any:
        """Return the subscription to join with.

        aiokafka's is of version 0, which has no field for a rack, so the rack goes into the user
        data. What this member owned does too, where it is read as revoked: by the time it joins, it
        has revoked all partitions.
        """
        subscribed = sorted(topics)
        owned: dict[str, Sequence[int]] = {}
        generation = NO_GENERATION
        if self.assignor.cooperative:
            last = self._coordinator.last_assignment
            owned = {topic: last[topic] for topic in subscribed if topic in last}
            generation = self._coordinator.last_generation
        user_data = write_user_data(self.rack, owned, generation)
        return ConsumerProtocolMemberMetadata(0, subscribed, user_data)


def read_metadata(cluster: Any, topics: Iterable[str]) -> metadata.Metadata:
    """Return the leaders' racks and the replicas of ``topics`` from a ClusterMetadata."""
    return metadata.read_metadata(
        cluster._partitions,  # There is no public way to the replicas.
        {broker.nodeId: broker.rack for broker in cluster.brokers()},
        topics,
        "leader",
        lambda partition: (UNKNOWN_EPOCH, partition.replicas, partition.isr),
    )


_patch = ClassPatch(
    aiokafka.consumer.consumer, GroupCoordinator=RackAwareCoordinator, Fetcher=LinkedFetcher
)
