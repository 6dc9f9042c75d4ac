"""kafka-python's group coordinator for an application in another thread, with another client.

kafka-python calls a rebalance listener when partitions are assigned and revoked. Here the listener
queues an event for the application and waits until it is handled. It waits as a coroutine on
kafka-python's event loop, so heartbeats go on, and the group waits for the application as it waits
for one of confluent's.
"""

from __future__ import annotations

import concurrent.futures
import re
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError as Code
from kafka import AsyncConsumerRebalanceListener
from kafka.consumer.subscription_state import SubscriptionType
from kafka.coordinator.base import BaseCoordinator
from kafka.errors import (
    FencedInstanceIdError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kafka.future import Future
from kafka.structs import TopicPartition

from assignors.confluent.events import (
    EventQueue,
    PartitionKey,
    Position,
    RebalanceEvent,
    RebalanceKind,
    error_message,
)
from assignors.consumer_protocol import NO_GENERATION
from assignors.group_leader import format_error, is_topic_name, log
from assignors.kafka_python.commits import MemberIdentity
from assignors.kafka_python.coordinator import RackAwareCoordinator
from assignors.kafka_python.fixes import is_generation, wait_for

FETCH_COMMITTED_MS = 1000
"""Milliseconds that an assignment is held back for the group's committed offsets. A transaction in
progress may delay these for longer: then librdkafka waits for them."""

METADATA_MS = 2000
"""Milliseconds to wait for the topics that a pattern may match, before they are requested again."""

LEAVE_MS = 5000
"""Milliseconds to send the LeaveGroup request."""

MAX_REJOIN_DELAY = 1.0
"""Seconds, at most, that a cooperative member goes on reading before it joins a rebalance."""

_TOPICS_CHANGED = "Metadata for subscribed topic(s) has changed"
"""librdkafka's reason for a rebalance after new topics or partitions, and for the first one."""

_REASONS = {
    FencedInstanceIdError: "consumer fenced by newer instance",
    IllegalGenerationError: "illegal generation",
    RebalanceInProgressError: "rebalance in progress",
    UnknownMemberIdError: "resetting member-id",
}
"""librdkafka's reasons for a rebalance, by the error of a heartbeat."""


class RebalanceSuperseded(BaseException):
    """A rebalance was not handled, because the membership has changed meanwhile.

    Not an Exception: kafka-python would log it as an error of the application's listener.
    """


class GroupCoordinator(RackAwareCoordinator, AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """A coordinator whose rebalances the application handles through ``events``.

    ``wake`` is called, in any thread, when there may be something to join for; ``on_fenced`` when
    another client has taken this one's instance id.
    """

    def __init__(
        self,
        client: Any,
        subscription: Any,
        *,
        events: EventQueue,
        wake: Callable[[], None],
        on_fenced: Callable[[], None],
        **configs: Any,
    ) -> None:
        self.has_joined = False
        self.rebalance_reason = ""
        """Why the group rebalanced last, for the statistics."""
        self._requested = Subscription(frozenset())
        self._last_member: MemberIdentity | None = None
        self._settled_generation = NO_GENERATION
        self._rejoin_at = 0.0
        self._leaves_permanently = False
        self._events = events
        self._wake = wake
        self._on_fenced = on_fenced
        self._topics_of_last_response: frozenset[str] = frozenset()
        self._reported_topics: dict[str, int] = {}
        self._has_assignment = False
        super().__init__(client, subscription, **configs)
        # PollTimeout detects an application that does not poll. Brokers get the real interval.
        self.heartbeat.config["max_poll_interval_ms"] = float("inf")
        heartbeat_seconds = self.config["heartbeat_interval_ms"] / 1000
        self._rejoin_delay = min(MAX_REJOIN_DELAY, heartbeat_seconds / 3)

    # ---- the state of the membership

    @property
    def member(self) -> MemberIdentity:
        """Generation and member id under which the application has its partitions.

        They outlast the membership: a commit before the application handles the loss of its
        partitions is refused for its old generation, instead of accepted for lack of one.
        """
        membership = self.membership
        if self._last_member is None or is_generation(membership):
            return membership
        return self._last_member

    @property
    def member_id(self) -> str:
        """The current member id, "" if there is none."""
        return self.membership[1]

    @property
    def is_lost(self) -> bool:
        """Whether the group has rebalanced without this member since it last joined."""
        return self.has_joined and not self.in_generation

    @property
    def session_expired(self) -> bool:
        """Whether no heartbeat was answered for so long that the group has removed this member."""
        return self.stable() and bool(self.heartbeat.session_timeout_expired())

    @property
    def seconds_to_rejoin(self) -> float:
        """Seconds to wait before this member joins a rebalance that another one has begun.

        A restarted process leaves and joins within a second or two. A rebalance that the remaining
        members end in between is followed by two more, one for the join and one after the moved
        partitions are revoked. So a cooperative member, which reads meanwhile, waits for others to
        join. It does not wait for a rebalance that its first heartbeat in a generation reports:
        that may follow a revocation, after which nobody reads the revoked partitions.
        """
        return max(0.0, self._rejoin_at - time.monotonic())

    # ---- called by GroupMember

    def subscribe(self, subscription: Subscription) -> None:
        """Subscribe to topics; for patterns, after waiting for metadata of all topics."""
        self.subscription._set_subscription_type(SubscriptionType.AUTO_TOPICS)
        self.subscription.rebalance_listener = self
        self._requested = subscription
        self.cluster.need_all_topic_metadata = bool(subscription.patterns)
        if subscription.patterns:
            response = self.cluster.request_update()
            self.net.run(wait_for, self.net, response, METADATA_MS)
        self._match_topics()

    def revoke_and_leave(self) -> None:
        """Have the application revoke all partitions; then leave, and subscribe to nothing."""
        if self.is_lost:
            self.lose_partitions()
        else:
            self.rebalance_reason = "unsubscribe"
            self.net.run(self._rebalance, RebalanceKind.REVOKE, None)
        self.commits.flush(LEAVE_MS / 1000)
        self._has_assignment = False
        self.leave(permanently=True)
        self.subscription.unsubscribe()
        self._last_member = None

    def lose_partitions(self) -> None:
        """Have the application handle the loss of all its partitions."""
        self.net.run(self.on_partitions_lost)
        self.subscription.assign_from_subscribed([])

    def leave(self, *, permanently: bool) -> None:
        """Leave the group. With an instance id, which is kept for a restart, only permanently."""
        self._leaves_permanently = permanently
        try:
            self.net.run(self.maybe_leave_group_async, None, LEAVE_MS)
        finally:
            self._leaves_permanently = False

    def shut_down(self) -> None:
        """Leave as a member that may restart if it has an instance id, and stop heartbeats."""
        # Not ConsumerCoordinator's, which has the listener revoke the partitions.
        BaseCoordinator.close(self, LEAVE_MS)
        if self._heartbeat_loop_future is not None:
            self.net.run(wait_for, self.net, self._heartbeat_loop_future, LEAVE_MS)

    def on_commit_response(self, member: MemberIdentity, codes: set[int]) -> None:
        """Reset the membership if the response to a commit of ``member`` shows that it is lost."""
        if self.membership != member:
            return
        if Code.UNKNOWN_MEMBER_ID in codes:
            self.reset_generation()
        elif Code.ILLEGAL_GENERATION in codes and not self.rebalance_in_progress():
            self.reset_generation(member[1])

    # ---- called by kafka-python

    def request_rejoin(self) -> None:
        """Request another join."""
        super().request_rejoin()
        self._wake()

    def reset_generation(self, member_id: str = "") -> None:
        """Forget the membership, except for what :attr:`member` still needs."""
        membership = self.membership
        if is_generation(membership):
            self._last_member = membership
        super().reset_generation(member_id)
        self._wake()

    def is_dynamic_member(self) -> bool:
        """Return whether leaving sends a LeaveGroup request."""
        return self._leaves_permanently or bool(super().is_dynamic_member())

    def _reads_during_rebalance(self) -> bool:
        # This coordinator has a thread of its own, which may wait for the other members.
        return False

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> None:
        if not response.error_code:
            self._settled_generation = self.generation_id
        elif (
            response.error_code == RebalanceInProgressError.errno
            and self.cooperative
            and self._settled_generation == self.generation_id
            and not self.need_rejoin()
        ):
            self._rejoin_at = time.monotonic() + self._rejoin_delay
        super()._handle_heartbeat_response(response, send_time)

    async def _send_heartbeat_request(self) -> Any:
        try:
            return await super()._send_heartbeat_request()
        except KafkaError as error:
            self.rebalance_reason = _REASONS.get(type(error), self.rebalance_reason)
            if isinstance(error, FencedInstanceIdError):
                self._on_fenced()
            raise

    def _handle_metadata_update(self, cluster: Any) -> None:
        if self.subscription.partitions_auto_assigned():
            self._match_topics()
            self._report_topic_errors(cluster)
        previous = self._metadata_snapshot
        # Unauthorized topics have been reported; kafka-python would raise on its event loop.
        unauthorized, cluster.unauthorized_topics = cluster.unauthorized_topics, set()
        try:
            super()._handle_metadata_update(cluster)
        finally:
            cluster.unauthorized_topics = unauthorized
        if self.has_joined and self._metadata_snapshot != previous:
            self.rebalance_reason = _TOPICS_CHANGED
        self._wake()

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.has_joined = True
        owned = set(self.subscription.assigned_partitions())
        await super()._on_join_complete_async(generation, member_id, protocol, assignment)
        # A rebalance always ends with an assignment in librdkafka. kafka-python does not call the
        # listener of a cooperative member that gets no new partitions.
        if self.cooperative and owned.issuperset(self.subscription.assigned_partitions()):
            await self.on_partitions_assigned(())

    # ---- rebalances, reported as librdkafka calls an application's callbacks

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Have the application handle new partitions."""
        self._has_assignment = True
        await self._rebalance(RebalanceKind.ASSIGN, assigned)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Have the application handle a revocation."""
        # Before its first assignment an eager member has nothing to revoke.
        if self._has_assignment:
            self._has_assignment = self.cooperative
            await self._rebalance(RebalanceKind.REVOKE, revoked)

    async def on_partitions_lost(self, lost: Any = None) -> None:  # noqa: ARG002
        """Have the application handle the loss of all its partitions."""
        self._has_assignment = False
        await self._rebalance(RebalanceKind.LOST, None)

    async def _rebalance(
        self, kind: RebalanceKind, partitions: Iterable[PartitionKey] | None
    ) -> None:
        """Queue a rebalance (None: of all partitions), and wait until it is handled.

        Raise RebalanceSuperseded if it is obsolete.
        """
        keys = None if partitions is None else tuple(sorted(partitions))
        # librdkafka would fetch these from the coordinator that it last knew of. Without heartbeats
        # it does not learn of a new one, and would never start reading if the old one is gone.
        assigned = keys if kind is RebalanceKind.ASSIGN else None
        committed = None if assigned is None else await self._fetch_committed(assigned)
        event, done = RebalanceEvent(kind, keys, committed), Future()

        def on_handled(handled: concurrent.futures.Future[bool]) -> None:
            with suppress(RuntimeError):  # The event loop is closed.
                self.net.call_soon_threadsafe(lambda: done.success(handled.result()))

        event.handled.add_done_callback(on_handled)
        self._events.put(event)
        if not await done:
            raise RebalanceSuperseded(kind.value)

    async def _fetch_committed(
        self, keys: Iterable[PartitionKey]
    ) -> dict[PartitionKey, Position] | None:
        """Return the group's committed offsets; None if they are not available at once."""
        partitions = [TopicPartition(*key) for key in keys]
        try:
            offsets = await self.fetch_committed_offsets_async(partitions, FETCH_COMMITTED_MS)
        except KafkaError as error:
            log.debug(
                "group=%s committed offsets not available: %s", self.group_id, format_error(error)
            )
            return None
        return {
            tuple(partition): Position(committed.offset, committed.leader_epoch)
            for partition, committed in offsets.items()
        }

    # ---- topics

    def _match_topics(self) -> None:
        """Subscribe to the topics that match the application's subscription at this moment."""
        known = self.cluster.topics(exclude_internal_topics=False)
        topics = {topic for topic in self._requested.topics(known) if is_topic_name(topic)}
        if topics != self.subscription.subscription:
            self.rebalance_reason = _TOPICS_CHANGED
            self.subscription.change_subscription(sorted(topics))
            self.cluster.set_topics(self.subscription.group_subscription())

    def _report_topic_errors(self, cluster: Any) -> None:
        """Queue an error for each unavailable topic that is subscribed to by name, once."""
        errors = topic_errors(
            self._requested.names,
            self._topics_of_last_response,
            known=cluster.topics(exclude_internal_topics=False),
            unauthorized=frozenset(cluster.unauthorized_topics or ()),
        )
        self._topics_of_last_response = self._requested.names
        reported, self._reported_topics = self._reported_topics, errors
        for topic, code in errors.items():
            if reported.get(topic) != code:
                reason = f"Subscribed topic not available: {topic}: {Code(code).str()}"
                self._events.put(error_message(code, reason, topic))


# ---- Subscriptions, as librdkafka understands them.


@dataclass(frozen=True)
class Subscription:
    """Names of topics, and patterns. Patterns match no topic that ``ignored`` matches."""

    names: frozenset[str]
    patterns: tuple[re.Pattern[str], ...] = ()
    ignored: tuple[re.Pattern[str], ...] = ()

    def topics(self, known: Iterable[str]) -> set[str]:
        """Return the names, and those of the ``known`` topics of the cluster that match."""
        return set(self.names).union(
            topic
            for topic in known
            if any(pattern.match(topic) for pattern in self.patterns)
            and not any(pattern.match(topic) for pattern in self.ignored)
        )


def parse_subscription(topics: Collection[str], ignored: Iterable[str] = ()) -> Subscription:
    """Return the subscription that confluent's ``subscribe`` makes of ``topics``.

    ``ignored`` are the patterns of ``topic.blacklist``. Raise `re.error` for an invalid pattern.
    """
    return Subscription(
        frozenset(topic for topic in topics if not topic.startswith("^")),
        tuple(_compile(topic) for topic in topics if topic.startswith("^")),
        tuple(_compile(pattern) for pattern in ignored),
    )


_CHARACTER_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
    "blank": r" \t",
    "xdigit": "0-9a-fA-F",
    "punct": r"!-/:-@\[-`{-~",
}


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern with POSIX character classes, as librdkafka supports them."""
    return re.compile(
        re.sub(r"\[:([a-z]+):\]", lambda match: _CHARACTER_CLASSES.get(match[1], match[0]), pattern)
    )


def topic_errors(
    names: Iterable[str],
    previous_names: Collection[str],
    *,
    known: Collection[str],
    unauthorized: Collection[str],
) -> dict[str, int]:
    """Return the error code of each of ``names`` that a metadata response shows as unavailable.

    ``known`` and ``unauthorized`` are of that response. A topic counts as missing only if it was
    among ``previous_names``, at the previous response: this one may be to an older request.
    """
    errors: dict[str, int] = {}
    for topic in sorted(names):
        if not is_topic_name(topic):
            errors[topic] = Code.TOPIC_EXCEPTION
        elif topic in unauthorized:
            errors[topic] = Code.TOPIC_AUTHORIZATION_FAILED
        elif topic not in known and topic in previous_names:
            errors[topic] = Code.UNKNOWN_TOPIC_OR_PART
    return errors
