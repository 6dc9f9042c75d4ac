"""The group coordinator of a KafkaConsumer that has one of rackward's assignors.

kafka-python 3.0 calls an assignor for its metadata and for an assignment, and passes it each new
assignment. That is too little in several ways, so `assignors.kafka_python.install` makes every
KafkaConsumer that is constructed afterwards use the subclass of kafka-python's coordinator below.
:mod:`assignors.client_assignor` has what it does for any client library. For this one:

Owned partitions
    An assignor is not called for partitions that are lost (an expired session, ``unsubscribe``) nor
    for those that another strategy assigned before it in a rolling change. It would claim what the
    consumer no longer has, which no member could revoke, or claim nothing of what it still reads,
    which two members would then read. Here a member claims what its subscription state holds when
    it joins, as of the last completed join. So one assignor may serve several consumers.
Topics that only other members subscribe to
    The leader requests their metadata, then assigns at once without it. Here the join is repeated
    when the response has arrived: a broker that waits for the leader's assignment treats a join
    with the same bytes as the same join, so this costs no rebalance. The leader waits for
    ``METADATA_TIMEOUT`` seconds at most.
Faults of kafka-python
    See :mod:`assignors.kafka_python.fixes`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.errors import KafkaError, RetriableError, for_code
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from assignors.client_assignor import BoundAssignor, ClientAssignor, bind, log_not_monitored
from assignors.consumer_protocol import NO_GENERATION, write_user_data
from assignors.group_leader import GroupContext, format_error, format_list, log, metadata
from assignors.kafka_python.fixes import FixedCoordinator, wait_for
from assignors.kafka_python.internals import check_kafka_python
from assignors.leader_moves import leads_since_before_restart

if TYPE_CHECKING:
    from assignors.group_leader.monitor import LeaderMoveMonitor
    from assignors.group_leader.rebalance import Leadership

SUBSCRIPTION_VERSION = 3
"""The first version of ConsumerProtocolSubscription that has a field for the rack."""


def enable_workarounds(consumer: Any) -> None:
    """Work around kafka-python's faults in a KafkaConsumer that has none of rackward's assignors.

    A consumer that has one is treated when it is constructed. docs/kafka-python.md describes the
    faults. Raises TypeError if ``consumer`` was constructed before `install` was called.
    """
    coordinator = consumer._coordinator
    if not isinstance(coordinator, RackAwareCoordinator):
        raise TypeError(
            f"the coordinator of this consumer is kafka-python's own, {type(coordinator).__name__}:"
            " call assignors.kafka_python.install() before the consumer is constructed"
        )
    coordinator.enable_workarounds()


class MetadataPending(RetriableError):  # type: ignore[misc]
    """The leader has no metadata yet of topics that some member subscribes to."""


class RackAwareCoordinator(FixedCoordinator):
    """kafka-python's coordinator, with a bound one for each of rackward's assignors."""

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        check_kafka_python()
        # First: the I/O thread may deliver metadata while the base class initialises.
        self.last_generation = NO_GENERATION
        self._metadata_responses = 0
        self._unseen_topics: dict[str, int] = {}
        self._metadata_deadline: float | None = None
        self._leadership: Leadership | None = None
        self._monitor: LeaderMoveMonitor | None = None
        self._leader_check: Any = None
        self._awaits_leaders = False
        self._leads_since_before_restart = False
        client_rack = configs.get("client_rack")
        assignors = bind(
            configs.get("assignors", ()),
            lambda assignor: KafkaPythonBoundAssignor(assignor, self, client_rack),
        )
        self._bound = {
            assignor.name: assignor
            for assignor in assignors
            if isinstance(assignor, KafkaPythonBoundAssignor)
        }
        if self._bound:
            configs = {**configs, "assignors": assignors}
        super().__init__(client, subscription, **configs)
        if self._bound and all(bound.assignor.workarounds for bound in self._bound.values()):
            self.enable_workarounds()

    # ---- used by bound assignors

    @property
    def generation_id(self) -> int:
        """The generation that is being joined, or was joined last."""
        return self.membership[0]

    @property
    def context(self) -> GroupContext:
        """Group and generation, for log lines."""
        return GroupContext(self.group_id, self.generation_id)

    def owned_partitions(self) -> dict[str, list[int]]:
        """Return what this consumer is assigned at this moment, topic to sorted partitions."""
        owned: dict[str, list[int]] = {}
        for topic, partition in sorted(self.subscription.assigned_partitions()):
            owned.setdefault(topic, []).append(partition)
        return owned

    # ---- called by kafka-python

    def _perform_assignment(self, leader_id: str, protocol_name: str, members: Any) -> Any:
        bound = self._bound.get(protocol_name)
        if bound is None:
            return super()._perform_assignment(leader_id, protocol_name, members)
        # Imported here, because other members of the group need no numpy.
        from assignors.encoding import encode_assignment, read_members
        from assignors.group_leader.rebalance import REVOCATION_TIMEOUT, Leadership, topics_of

        joined = read_members((m.member_id, m.group_instance_id, m.metadata) for m in members)
        deleted_topics = self._deleted_topics(topics_of(joined))
        # A change of this snapshot, which has the topics of the whole group, is a rebalance.
        self._metadata_snapshot = self._build_metadata_snapshot(self.subscription, self.cluster)
        # Has kafka-python keep the snapshot, as the leader; it finds no members to decode.
        super()._perform_assignment(leader_id, protocol_name, [])
        leaders, _ = read_metadata(self.cluster, joined.topics)
        self._leadership = self._leadership or Leadership()
        result = self._leadership.assign(
            bound.assignor.protocol,
            joined,
            leaders,
            deleted_topics,
            self.context,
            time.monotonic(),
        )
        self._watch_leaders(self._leadership.monitor)
        if result.withheld:
            self.call_later(
                REVOCATION_TIMEOUT, self._check_revocation, self.context, result.withheld
            )
        return encode_assignment(result.assigned)

    async def _join_and_sync(self) -> Any:
        self._watch_leaders(None)
        while True:
            try:
                return await super()._join_and_sync()
            except MetadataPending as pending:
                log.debug("group=%s: waiting for metadata of topics %s", self.group_id, pending)
            try:
                await wait_for(self.net, self.cluster.request_update(), 1000)
            except KafkaError as error:
                log.debug("group=%s: no metadata: %s", self.group_id, format_error(error))
            if not self.in_generation:
                raise MetadataPending("the consumer has left the group")

    def _process_join_group_response(self, response: Any, send_time: float) -> Any:
        response = super()._process_join_group_response(response, send_time)
        self._leads_since_before_restart = leads_since_before_restart(
            response.leader, response.member_id, self.group_instance_id
        )
        if response.leader != response.member_id and self._leadership is not None:
            self._leadership.follow()
        return response

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.last_generation = generation
        await super()._on_join_complete_async(generation, member_id, protocol, assignment)
        if self._leads_since_before_restart and protocol in self._bound:
            resume = partial(self._resume_leading, self._bound[protocol], self.context)
            self.net.call_soon_threadsafe(resume)

    def _handle_metadata_update(self, cluster: Any) -> None:
        self._metadata_responses += 1
        super()._handle_metadata_update(cluster)
        if self._awaits_leaders and self.stable() and not self.need_rejoin():
            self._check_leaders()

    # ---- implementation

    def _deleted_topics(self, topics: set[str]) -> frozenset[str]:
        """Return those of the group's ``topics`` that do not exist.

        Raise MetadataPending while brokers may still return metadata of one of the others.
        """
        from assignors.group_leader.rebalance import METADATA_TIMEOUT

        self.subscription.group_subscribe(topics)
        self.cluster.set_topics(self.subscription.group_subscription())
        unseen = {topic for topic in topics if not self.cluster.partitions_for_topic(topic)}
        # The next response may be to a request that was sent before this topic was of interest; a
        # topic that the second one lacks as well does not exist.
        responses = self._metadata_responses
        self._unseen_topics = {topic: self._unseen_topics.get(topic, responses) for topic in unseen}
        pending = {topic for topic, first in self._unseen_topics.items() if responses < first + 2}
        if pending:
            now = time.monotonic()
            if self._metadata_deadline is None:
                self._metadata_deadline = now + METADATA_TIMEOUT
            if now < self._metadata_deadline:
                raise MetadataPending(format_list(sorted(pending)))
        self._metadata_deadline = None
        # A topic that this member may not describe may exist for the members that subscribe to it.
        return frozenset(unseen - pending - self.cluster.unauthorized_topics)

    async def _resume_leading(self, bound: KafkaPythonBoundAssignor, context: GroupContext) -> None:
        """Monitor the leaders of partitions for a group that this member led when it restarted."""
        from kafka.protocol.admin import DescribeGroupsRequest

        from assignors.group_leader.rebalance import Leadership

        request = DescribeGroupsRequest(groups=[self.group_id], include_authorized_operations=False)
        try:
            await wait_for(self.net, self.cluster.request_update(), 1000)
            response = await self.manager.send(request, node_id=self.coordinator_id)
            (group,) = response.groups
            if error := group.error_code:
                raise for_code(error)()
        except KafkaError as error:
            log_not_monitored(context, error)
            return
        if group.group_state != "Stable" or self.context != context:
            # The group rebalances, and gets a leader.
            return
        members = [
            (m.member_id, m.group_instance_id, m.member_metadata, m.member_assignment)
            for m in group.members
        ]
        read = partial(read_metadata, self.cluster)
        self._leadership = Leadership()
        self._leadership.resume(bound.assignor.protocol, members, read, context, time.monotonic())
        self._watch_leaders(self._leadership.monitor)
        log.info("leading the group since before the restart: %s", context)

    def _watch_leaders(self, monitor: LeaderMoveMonitor | None) -> None:
        """Have ``monitor`` check the leaders at its interval from now on; None: stop.

        kafka-python refreshes metadata every five minutes, and when a leader that this consumer
        reads from is gone: too late, or never, for partitions that other members read.
        """
        if self._leader_check is not None:
            self.net.cancel(self._leader_check)
        self._monitor, self._leader_check, self._awaits_leaders = monitor, None, False
        if monitor is not None:
            self._leader_check = self.call_later(monitor.interval, self._request_leaders)

    def _request_leaders(self) -> None:
        if self._monitor is None:
            return
        self._leader_check = self.call_later(self._monitor.interval, self._request_leaders)
        if self.stable():
            self._awaits_leaders = True
            self.cluster.request_update()

    def _check_leaders(self) -> None:
        """Request a rebalance if the new metadata, as the monitor judges, is worth one."""
        self._awaits_leaders = False
        read = partial(read_metadata, self.cluster)
        if self._monitor is not None and self._monitor.check(read, time.monotonic(), self.context):
            self.request_rejoin()

    def _check_revocation(self, context: GroupContext, withheld: int) -> None:
        """Request a rebalance if there was none since withheld partitions had to be revoked."""
        same_generation = self.generation_id == context.generation
        if self.stable() and not self.rejoin_needed and same_generation:
            assert self._leadership is not None
            self._leadership.on_revocation_timeout(context, withheld)
            self.request_rejoin()


class KafkaPythonBoundAssignor(BoundAssignor, AbstractPartitionAssignor):  # type: ignore[misc]
    """A bound assignor as kafka-python's coordinator calls it."""

    def __init__(
        self,
        assignor: ClientAssignor,
        coordinator: RackAwareCoordinator,
        client_rack: str | None,
    ) -> None:
        super().__init__(assignor, client_rack)
        self._coordinator = coordinator

    def assign(self, cluster: Any, members: Any) -> dict[str, bytes]:  # noqa: ARG002
        """Return nothing: the coordinator assigns."""
        return {}

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Return the rebalance protocols of the strategy, the preferred one first."""
        if self.assignor.cooperative:
            return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
        return [RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> Any:
        """Return the subscription to join with: topics, rack, and what this consumer owns.

        A cooperative strategy that is listed beside an eager one revokes everything before it
        joins. What it owned then goes into the user data, which is read as revoked.
        """
        subscribed, rack = sorted(topics), self.rack
        subscription = ConsumerProtocolSubscription(
            version=SUBSCRIPTION_VERSION,
            topics=subscribed,
            user_data=None,
            owned_partitions=[],
            generation_id=NO_GENERATION,
            rack_id=rack,
        )
        if not self.assignor.cooperative:
            return subscription
        assigned = self._coordinator.owned_partitions()
        owned = {topic: assigned[topic] for topic in subscribed if topic in assigned}
        generation = self._coordinator.last_generation
        if self._coordinator.cooperative:
            subscription.owned_partitions = [
                ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
                for topic, partitions in owned.items()
            ]
            subscription.generation_id = generation
        else:
            subscription.user_data = write_user_data(rack, owned, generation)
        return subscription


def read_metadata(cluster: Any, topics: Iterable[str]) -> metadata.Metadata:
    """Return the leaders' racks and the replicas of ``topics`` from a ClusterMetadata."""
    return metadata.read_metadata(
        # There is no public way to the replicas. Each response replaces the dictionary as a whole.
        cluster._partitions,
        {broker.node_id: broker.rack for broker in cluster.brokers()},
        topics,
        "leader_id",
        attrgetter("leader_epoch", "replica_nodes", "isr_nodes"),
    )
