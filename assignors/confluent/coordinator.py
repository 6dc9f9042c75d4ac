"""kafka-python's coordinator, with an application that lives in another thread and client.

kafka-python tells a listener of partitions that come and go. Here, the listener puts a step for
the application and waits for it, on kafka-python's event loop and so without stopping heartbeats;
the group waits for the application as it waits for one of confluent's.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError as Code
from kafka import AsyncConsumerRebalanceListener
from kafka.consumer.subscription_state import SubscriptionType
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.errors import FencedInstanceIdError, KafkaError
from kafka.future import Future
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.structs import TopicPartition

from assignors.confluent.errors import error_message
from assignors.confluent.events import Change, Inbox, Step
from assignors.confluent.offsets import Place, Position
from assignors.group_leader import is_topic_name, log
from assignors.kafka_python.commit_queue import CommitQueue
from assignors.kafka_python.coordinator import RackAwareCoordinator

# ---- Changes of partitions in librdkafka's order, of those that kafka-python tells of.

Ask = Callable[[Change, Iterable[Place] | None], Awaitable[None]]
"""Has the application do it, with all it has where there are no places."""


class GroupListener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Steps in librdkafka's order: it always ends a rebalance by giving, be it nothing."""

    def __init__(self, cooperative: Callable[[], bool], ask: Ask) -> None:
        self._cooperative = cooperative
        self._ask = ask
        self._given = False
        self._owed = False

    def expect(self, added: int) -> None:
        """A join has ended, and gives so many partitions that were not had before."""
        self._owed = self._cooperative() and added == 0

    async def complete(self) -> None:
        """All changes of a join have been told."""
        owed, self._owed = self._owed, False
        if owed:
            await self._give(())

    def forget(self) -> None:
        """The application has nothing."""
        self._given = False

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await self._give(assigned)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        # Before its first assignment there is nothing that an eager member could give up.
        if not self._given:
            return
        if not self._cooperative():
            self._given = False
        await self._ask(Change.REVOKE, revoked)

    async def on_partitions_lost(self, lost: Any = None) -> None:  # noqa: ARG002
        self._given = False
        await self._ask(Change.LOSE, None)

    async def _give(self, places: Iterable[Place]) -> None:
        self._given = True
        await self._ask(Change.ASSIGN, places)


# ---- Which topics of a subscription an application is told to be missing.


def unavailable(
    names: Iterable[str],
    sought: Collection[str],
    there: Collection[str],
    forbidden: Collection[str],
) -> dict[str, int]:
    """The error code of each of ``names`` that cannot be had, by an answer of a broker.

    ``there`` and ``forbidden`` are what the answer has. A topic counts as missing if it was
    ``sought`` at the answer before: this one may be to a question from before that.
    """
    errored: dict[str, int] = {}
    for topic in sorted(names):
        if not is_topic_name(topic):
            errored[topic] = Code.TOPIC_EXCEPTION
        elif topic in forbidden:
            errored[topic] = Code.TOPIC_AUTHORIZATION_FAILED
        elif topic not in there and topic in sought:
            errored[topic] = Code.UNKNOWN_TOPIC_OR_PART
    return errored


# ---- What a consumer subscribes to: topics by name, and by patterns that start with ``^``.

_CLASSES = {
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


class PatternError(ValueError):
    """A pattern that cannot be read."""


@dataclass(frozen=True)
class Subscription:
    """Topics by name, and patterns; of the topics there are, ``ignored`` matches none."""

    names: frozenset[str]
    patterns: tuple[re.Pattern[str], ...] = ()
    ignored: tuple[re.Pattern[str], ...] = field(default=())

    def topics(self, known: Iterable[str]) -> set[str]:
        """The topics to join with, ``known`` being the cluster's."""
        return set(self.names).union(
            topic
            for topic in known
            if any(pattern.match(topic) for pattern in self.patterns)
            and not any(pattern.match(topic) for pattern in self.ignored)
        )


def subscription(topics: Collection[str], ignored: Iterable[str] = ()) -> Subscription:
    """The subscription that confluent's ``subscribe`` makes of ``topics``.

    Raises PatternError for a pattern that is none.
    """
    return Subscription(
        frozenset(topic for topic in topics if not topic.startswith("^")),
        tuple(_compiled(topic) for topic in topics if topic.startswith("^")),
        tuple(_compiled(pattern) for pattern in ignored),
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    """``pattern``, in which librdkafka knows POSIX's classes of characters."""
    try:
        return re.compile(re.sub(r"\[:([a-z]+):\]", _class, pattern))
    except re.error as error:
        raise PatternError(f"{pattern!r} is no pattern: {error}") from error


def _class(found: re.Match[str]) -> str:
    return _CLASSES.get(found[1], found[0])


START_MS = 1000
"""Milliseconds for which partitions are held back for what is committed of them. A transaction
that has not ended may keep that from being told for longer: then librdkafka waits for it."""


class Superseded(BaseException):
    """A step was not done, because the membership took another turn.

    No Exception: kafka-python would take it for a fault of the application's, and log it.
    """


class GroupCoordinator(RackAwareCoordinator):
    """``stir`` is called, from any thread, whenever there may be something to join for, and
    ``fenced`` when another client has taken this one's instance id."""

    def __init__(
        self,
        client: Any,
        subscription: Any,
        *,
        inbox: Inbox,
        stir: Callable[[], None],
        fenced: Callable[[], None],
        **configs: Any,
    ) -> None:
        self.wanted = Subscription(frozenset())
        self.held: tuple[int, str] | None = None
        self.joined_once = False
        self._leaves_for_good = False
        self._inbox = inbox
        self._stir = stir
        self._fenced = fenced
        self._sought: frozenset[str] = frozenset()
        self._errored: dict[str, int] = {}
        self.listener = GroupListener(lambda: self.cooperative, self.ask)
        super().__init__(client, subscription, **configs)
        self.commits = CommitQueue(self)
        # Whether the application polls is seen elsewhere; brokers are told the interval as it is.
        self.heartbeat.config["max_poll_interval_ms"] = float("inf")

    # ---- what the application asks

    @property
    def cooperative(self) -> bool:
        """Whether members keep their partitions through a rebalance."""
        return bool(self._rebalance_protocol == RebalanceProtocol.COOPERATIVE)

    @property
    def member(self) -> tuple[int, str]:
        """Generation and member id under which the application holds its partitions.

        They outlast the membership: what an application commits before it hears that it lost
        its partitions is refused for its old generation, not taken for want of one.
        """
        with self._lock:
            if self._generation.is_lost() and self.held is not None:
                return self.held
            return (self._generation.generation_id, self._generation.member_id)

    @property
    def member_id(self) -> str:
        """What the group calls this member at this moment, or nothing."""
        return str(self._generation.member_id)

    @property
    def is_lost(self) -> bool:
        """Whether the group has gone on without this member since it last joined."""
        with self._lock:
            return self.joined_once and self._generation.is_lost()

    async def ask(self, change: Change, places: Iterable[Place] | None = None) -> None:
        """Have the application do it, with all it has where places are None.

        Raises Superseded.
        """
        done = Future()
        given = () if places is None else tuple(sorted(places))
        # librdkafka would ask as well, the coordinator that it last heard of: it has no heartbeat
        # to hear of another by, and would never begin to read where that one is gone.
        committed = await self._committed(given) if change is Change.ASSIGN else None

        def end(well: bool) -> None:
            try:
                self._net.call_soon_threadsafe(lambda: done.success(well))
            except RuntimeError:  # The event loop is closed, and nobody waits.
                return

        self._inbox.put(Step(change, None if places is None else given, end, committed))
        if not await done:
            raise Superseded(change.value)

    # ---- what the membership asks

    def subscribe(self, wanted: Subscription, metadata_ms: int) -> bool:
        """Subscribe to ``wanted``; whether there is a topic to join for."""
        self._subscription._set_subscription_type(SubscriptionType.AUTO_TOPICS)
        self._subscription.rebalance_listener = self.listener
        self.wanted = wanted
        self._cluster.need_all_topic_metadata = bool(wanted.patterns)
        if wanted.patterns:
            answer = self._cluster.request_update()
            self._net.run(self._manager.wait_for, answer, metadata_ms)
        self.match_topics()
        return bool(self._subscription.subscription)

    @property
    def has_topics(self) -> bool:
        """Whether there is a topic to join for."""
        return bool(self._subscription.subscription)

    def give_back(self, timeout_ms: int) -> None:
        """Have the application give up all that it has; then leave, and subscribe to nothing."""
        if self.is_lost:
            self.lose()
        else:
            self._net.run(self.ask, Change.REVOKE)
        self.commits.flush(timeout_ms / 1000)
        self.listener.forget()
        self.leave(timeout_ms, static=True)
        self._subscription.unsubscribe()
        self.held = None

    def lose(self) -> None:
        """Have the application told that its partitions are gone."""
        self._net.run(self.listener.on_partitions_lost)
        self._subscription.assign_from_subscribed([])

    def leave(self, timeout_ms: int, *, static: bool) -> None:
        """Leave the group; ``static``: even with an instance id, which is kept for a restart."""
        self._leaves_for_good = static
        try:
            self._net.run(self.maybe_leave_group_async, None, timeout_ms)
        finally:
            self._leaves_for_good = False

    def end(self, timeout_ms: int) -> None:
        """Leave, as one that may come back if it has an instance id, and send no more."""
        self._close_heartbeat()
        self.leave(timeout_ms, static=False)
        if self._heartbeat_loop_future is not None:
            self._net.run(self._manager.wait_for, self._heartbeat_loop_future, timeout_ms)

    @property
    def session_expired(self) -> bool:
        """Whether the group has not been heard for so long that it has gone on by itself."""
        return self.stable() and bool(self.heartbeat.session_timeout_expired())

    async def _committed(self, places: Iterable[Place]) -> dict[Place, Position] | None:
        """What the group has committed, None if that is not found at once."""
        asked = [TopicPartition(*place) for place in places]
        try:
            found = await self.fetch_committed_offsets_async(asked, START_MS)
        except KafkaError as error:
            log.debug("group %s: committed offsets not found: %r", self.group_id, error)
            return None
        return {tuple(at): Position(each.offset, each.leader_epoch) for at, each in found.items()}

    # ---- what commits need

    @property
    def manager(self) -> Any:
        """kafka-python's connections."""
        return self._manager

    @property
    def net(self) -> Any:
        """kafka-python's event loop."""
        return self._net

    def commit_answered(self, member: tuple[int, str], codes: set[int]) -> None:
        """Take from the answer to a commit of ``member`` whether the group still knows it."""
        with self._lock:
            if (self._generation.generation_id, self._generation.member_id) != member:
                return
            if Code.UNKNOWN_MEMBER_ID in codes:
                self.reset_generation()
            elif Code.ILLEGAL_GENERATION in codes and not self.rebalance_in_progress():
                self.reset_generation(member[1])

    # ---- what kafka-python calls

    def request_rejoin(self) -> None:
        """Ask for another join."""
        super().request_rejoin()
        self._stir()

    def reset_generation(self, member_id: str = "") -> None:
        """Forget the membership, but for what `member` still needs."""
        with self._lock:
            if not self._generation.is_lost():
                self.held = (self._generation.generation_id, self._generation.member_id)
        super().reset_generation(member_id)
        self._stir()

    async def _send_heartbeat_request(self) -> Any:
        try:
            return await super()._send_heartbeat_request()
        except FencedInstanceIdError:
            self._fenced()
            raise

    def is_dynamic_member(self) -> bool:
        """Whether leaving is told to the group."""
        return self._leaves_for_good or bool(super().is_dynamic_member())

    def _reads_on(self) -> bool:
        # A thread of its own drives this coordinator: it may wait for the others of the group.
        return False

    def _handle_metadata_update(self, cluster: Any) -> None:
        if self._subscription.partitions_auto_assigned():
            self.match_topics()
            self._tell_of_topics(cluster)
        # What is forbidden has been told; kafka-python would raise, on its event loop.
        forbidden, cluster.unauthorized_topics = cluster.unauthorized_topics, set()
        try:
            super()._handle_metadata_update(cluster)
        finally:
            cluster.unauthorized_topics = forbidden
        self._stir()

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.joined_once = True
        now = {tuple(place) for place in ConsumerProtocolAssignment.decode(assignment).partitions()}
        before = {tuple(place) for place in self._subscription.assigned_partitions()}
        self.listener.expect(added=len(now - before))
        await super()._on_join_complete_async(generation, member_id, protocol, assignment)
        await self.listener.complete()

    # ---- how

    def match_topics(self) -> None:
        """Subscribe to the topics that ``wanted`` means at this moment."""
        known = self._cluster.topics(exclude_internal_topics=False)
        topics = {topic for topic in self.wanted.topics(known) if is_topic_name(topic)}
        if topics != self._subscription.subscription:
            self._subscription.change_subscription(sorted(topics))
            self._cluster.set_topics(self._subscription.group_subscription())

    def _tell_of_topics(self, cluster: Any) -> None:
        """Put an error for each topic subscribed to by name that is not there, once."""
        there = cluster.topics(exclude_internal_topics=False)
        forbidden = frozenset(cluster.unauthorized_topics or ())
        errored = unavailable(self.wanted.names, self._sought, there, forbidden)
        self._sought = self.wanted.names
        before, self._errored = self._errored, errored
        for topic, code in errored.items():
            if before.get(topic) != code:
                told = f"Subscribed topic not available: {topic}: {Code(code).str()}"
                self._inbox.put(error_message(code, told, topic))
