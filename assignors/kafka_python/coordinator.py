"""The group coordinator of a KafkaConsumer that has one of our assignors.

kafka-python 3.0 calls an assignor for its metadata and for an assignment, and passes it each new
assignment. That is too little in several ways, so `assignors.kafka_python.install` makes every
KafkaConsumer that is constructed afterwards use the subclass of kafka-python's coordinator below.
It behaves exactly like kafka-python's own unless the consumer has one of our assignors; then it
differs as follows; see :mod:`assignors.kafka_python.leading` for what only a group leader does.

Owned partitions
    An assignor is not called for partitions that are lost (an expired session, ``unsubscribe``) nor
    for those that another strategy assigned before it in a rolling change. It would claim what the
    consumer no longer has, which no member could revoke, or claim nothing of what it still reads,
    which two members would then read. Here a member claims what its subscription state holds when
    it joins, as of the last completed join. So one assignor may serve several consumers.
Subscriptions that do not decode
    The leader decodes every subscription before it calls the assignor, and a truncated one raises
    out of its ``poll``, and out of the next leader's. Here a subscription is read as far as
    possible (and several times faster).
Topics that only other members subscribe to
    The leader requests their metadata, then assigns at once without it. Here the join is repeated
    when the response has arrived: a broker that waits for the leader's assignment treats a join
    with the same bytes as the same join, so this costs no rebalance. The leader waits for
    ``METADATA_TIMEOUT`` seconds at most.
Leaders that move
    No client rebalances when a partition's leader moves. Here the group leader checks the leaders
    at an interval, and requests a rebalance if its policy says so: see
    :mod:`assignors.leader_moves`. Brokers ignore such a request of other members.
Partitions that are not revoked
    Partitions that a member still owns are withheld until it has revoked them and rejoined. If a
    foreign client does not, the leader requests the next rebalance itself, and its claims lapse:
    see :mod:`assignors.group_leader.ownership`.
The rack
    An assignor without a rack joins with the consumer's ``client_rack``. The fetcher
    (:class:`assignors.kafka_python.assignors.LeaderFetcher`) does not send it, because brokers
    would redirect the consumer to followers, and assignment by the racks of leaders be in vain.
Faults of kafka-python
    See :mod:`assignors.kafka_python.fixes`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.errors import KafkaError, RetriableError, for_code
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from assignors.consumer_protocol import NO_GENERATION, write_user_data
from assignors.group_leader import GroupContext, LogOnce, format_error, log
from assignors.kafka_python.fixes import FixedCoordinator, wait_for
from assignors.kafka_python.internals import check_kafka_python
from assignors.leader_moves import leads_since_before_restart
from assignors.rack_discovery import member_rack

if TYPE_CHECKING:
    from assignors.client_assignor import ClientAssignor
    from assignors.kafka_python.leading import GroupLeader
    from assignors.leader_moves import LeaderMoveMonitor

SUBSCRIPTION_VERSION = 3
"""The first version of ConsumerProtocolSubscription that has a field for the rack."""


def enable_workarounds(consumer: Any) -> None:
    """Work around kafka-python's faults in a KafkaConsumer that has none of our assignors.

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
    """kafka-python's coordinator, with a bound assignor for each of our assignors."""

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        check_kafka_python()
        # First: the I/O thread may deliver metadata while the base class initialises.
        self.last_generation = NO_GENERATION
        self._metadata_responses = 0
        self._leader: GroupLeader | None = None
        self._monitor: LeaderMoveMonitor | None = None
        self._leader_check: Any = None
        self._awaits_leaders = False
        self._leads_since_before_restart = False
        self._client_rack = configs.get("client_rack")
        assignors = self._bind(configs.get("assignors", ()))
        self._bound = {
            each.name: each for each in assignors if isinstance(each, KafkaPythonBoundAssignor)
        }
        if self._bound:
            configs = {**configs, "assignors": assignors}
        super().__init__(client, subscription, **configs)
        if self._bound and all(_wants_workarounds(each.assignor) for each in self._bound.values()):
            self.enable_workarounds()

    def _bind(self, assignors: Iterable[Any]) -> list[Any]:
        """Return ``assignors`` with each of ours replaced by a bound one."""
        from assignors.client_assignor import bind

        return bind(assignors, lambda each: KafkaPythonBoundAssignor(each, self, self._client_rack))

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
        from assignors.kafka_python.leading import REVOCATION_TIMEOUT, GroupLeader

        leader = self._leader = self._leader or GroupLeader(self.cluster, self.subscription)
        responses, now = self._metadata_responses, time.monotonic()
        joined, deleted_topics = leader.read_members(members, responses, now)
        # A change of this snapshot, which has the topics of the whole group, is a rebalance.
        self._metadata_snapshot = self._build_metadata_snapshot(self.subscription, self.cluster)
        # Has kafka-python keep the snapshot, as the leader; it finds no members to decode.
        super()._perform_assignment(leader_id, protocol_name, [])
        assignor = bound.client_assignor()
        encoded, withheld = leader.assign(assignor, joined, deleted_topics, self.context, now)
        self._watch_leaders(leader.monitor(assignor))
        if withheld:
            values = assignor, self.context, withheld
            self.call_later(REVOCATION_TIMEOUT, self._check_revocation, *values)
        return encoded

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
        if self._leader is not None and response.leader != response.member_id:
            self._leader.follow()
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

    async def _resume_leading(self, bound: KafkaPythonBoundAssignor, context: GroupContext) -> None:
        """Monitor the leaders of partitions for a group that this member led when it restarted."""
        from kafka.protocol.admin import DescribeGroupsRequest

        from assignors.client_assignor import log_not_monitored
        from assignors.kafka_python.leading import GroupLeader

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
        leader = self._leader = self._leader or GroupLeader(self.cluster, self.subscription)
        assignor = bound.client_assignor()
        leader.resume(assignor, members, context, time.monotonic())
        self._watch_leaders(leader.monitor(assignor))
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
        from assignors.kafka_python.leading import read_metadata

        self._awaits_leaders = False
        read = partial(read_metadata, self.cluster)
        if self._monitor is not None and self._monitor.check(read, time.monotonic(), self.context):
            self.request_rejoin()

    def _check_revocation(
        self, assignor: ClientAssignor, context: GroupContext, withheld: int
    ) -> None:
        """Request a rebalance if there was none since withheld partitions had to be revoked."""
        if (
            self._leader is not None
            and self.stable()
            and not self.rejoin_needed
            and self.generation_id == context.generation
        ):
            self._leader.on_revocation_timeout(assignor, context, withheld)
            self.request_rejoin()


class Strategy(Protocol):
    """The part of a ClientAssignor that a consumer uses before it leads its group."""

    @property
    def name(self) -> str: ...

    @property
    def cooperative(self) -> bool: ...

    @property
    def rack(self) -> str | None: ...

    @property
    def log_once(self) -> LogOnce: ...


def _wants_workarounds(assignor: Strategy) -> bool:
    """Return the option of that name, which only the public classes of this adapter have."""
    return bool(getattr(assignor, "workarounds", True))


class KafkaPythonBoundAssignor(AbstractPartitionAssignor):  # type: ignore[misc]
    """One of our assignors in a consumer, as kafka-python's coordinator calls it."""

    def __init__(
        self, assignor: Strategy, coordinator: RackAwareCoordinator, client_rack: str | None = None
    ) -> None:
        self.assignor = assignor
        self.rack = member_rack(assignor.rack, client_rack, assignor.log_once)
        self._coordinator = coordinator

    def client_assignor(self) -> ClientAssignor:
        """Return what assigns if this consumer is elected leader."""
        return cast("ClientAssignor", self.assignor)

    @property
    def name(self) -> str:
        """The protocol name."""
        return self.assignor.name

    def assign(self, cluster: Any, members: Any) -> dict[str, bytes]:  # noqa: ARG002
        """Return nothing: the coordinator assigns."""
        return {}

    def on_assignment(self, *assignment: Any) -> None:
        """Do nothing: what the consumer owns is read from its coordinator when it joins."""

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
