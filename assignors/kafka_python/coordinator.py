"""What an assignor cannot do in kafka-python from where it stands, done in the coordinator.

kafka-python 3.0 asks an assignor for its metadata and for a plan, and tells it of each new
assignment. That is too little in several ways. So importing this package has every KafkaConsumer
make the coordinator below, which differs from kafka-python's own only in a consumer that was
given one of our assignors:

What is owned
    An assignor is not told when partitions are lost (an expired session, ``unsubscribe``),
    nor what another strategy assigned before it in a rolling change. It would claim what it
    no longer has, which nobody would ever give up, or claim nothing of what it still reads,
    which another member would then read too. Here, what is claimed is what the consumer's
    own subscription state holds at the moment of joining, as of the last completed join.
    One assignor may serve several consumers of a process for the same reason.
Members that cannot be read
    The leader decodes every subscription before it asks the assignor, and one that is cut
    short raises out of its ``poll``, and out of the next leader's. Here, the subscriptions
    are read tolerantly (and a good deal faster), and kafka-python's own bookkeeping is given
    one member that stands for all, subscribed to whatever anyone subscribes to.
Topics that only others subscribe to
    The leader asks for their metadata, then assigns at once without it. Here, the join is
    repeated when the answer has come: to a broker that awaits a leader's plan, a join with
    the same bytes is the same join, so this costs no rebalance. Silent brokers are waited
    for ``METADATA_PATIENCE`` seconds and no longer.
Joins that outlast the poll that began them
    kafka-python forgets some, repeats others, and reads nothing meanwhile: see
    :mod:`assignors.kafka_python.steady`.
Brokers that are missing from a metadata answer
    A consumer stops reading from them for good: see
    :mod:`assignors.kafka_python.missing_brokers`.
Topics that are missing
    They are asked for without a pause: see :mod:`assignors.kafka_python.missing_topics`.
Leaders that move
    Nobody rebalances for them. Here, the leader of the group looks where they are from time to
    time, and asks for a rebalance where its policy says so: see :mod:`assignors.refresh`. Of
    other members brokers ignore such a request.
A hand-over that does not happen
    Partitions are withheld until whoever claimed them has rejoined. Should a foreign client
    claim and never give up, the leader asks for another round itself.

Reads from followers
    Balancing over leaders is pointless where brokers send a consumer to followers. Whether
    ``replica.selector.class`` is set cannot be asked without rights on the cluster that a
    consumer seldom has, and being set does not mean that it redirects this consumer. What
    can be seen for certain is the redirect: kafka-python keeps the preferred replica that a
    broker named per partition. It is looked at shortly after each rebalance and with each
    metadata update. ``client_rack``, which asks for such redirects, is warned of at once.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import kafka.consumer.group
from kafka.errors import KafkaError, RetriableError
from kafka.protocol.consumer.group import JoinGroupResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from assignors.kafka_python.lookout import Lookout
from assignors.kafka_python.missing_brokers import outlive_missing_brokers
from assignors.kafka_python.missing_topics import stop_asking
from assignors.kafka_python.seat import Seat
from assignors.kafka_python.steady import SteadyCoordinator
from assignors.kafka_python.strategies import LeaderRackAwareAssignor
from assignors.leading import (
    HAND_OVER_PATIENCE,
    METADATA_PATIENCE,
    About,
    Remarks,
    is_topic_name,
    log,
)
from assignors.wire import NO_GENERATION

FIRST_READS = 5.0
"""Seconds after an assignment by which brokers have said where to read."""


class TopicsUnseenError(RetriableError):  # type: ignore[misc]
    """The leader has no metadata yet of topics that some member subscribes to."""


class RackAwareCoordinator(SteadyCoordinator):
    """kafka-python's coordinator, with a seat for each of our assignors."""

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        # Set first: the I/O thread may deliver metadata while the base class initialises.
        self._metadata_answers = 0
        self._asks_later = False
        self._asked: dict[str, int] = {}
        self._wait_until: float | None = None
        self._seats: dict[str, Seat] = {}
        self._remarks = Remarks()
        self.owned_since = NO_GENERATION
        self.topics_gone: frozenset[str] = frozenset()
        super().__init__(client, subscription, **configs)
        self._lookout = Lookout(self._cluster)
        for name, assignor in self._assignors.items():
            if isinstance(assignor, LeaderRackAwareAssignor):
                self._seats[name] = Seat(assignor, self)
                self._remarks = assignor.remarks
        self._assignors.update(self._seats)
        if self._seats and all(seat.assignor.hardened for seat in self._seats.values()):
            self.harden()
        if self._seats and configs.get("client_rack"):
            self._remarks.once(
                "client_rack",
                "client_rack=%r is set: where brokers have a rack-aware replica.selector.class,"
                " followers serve this consumer, and assigning by the racks of leaders is in"
                " vain; leave client_rack out and give the rack to the assignor",
                configs["client_rack"],
            )

    def harden(self) -> None:
        """Work around kafka-python's faults in this consumer."""
        self.steady = True
        outlive_missing_brokers(self._manager)

    # ---- what seats ask

    def owned_partitions(self) -> dict[str, list[int]]:
        """What this consumer is assigned at this moment, topic to partitions."""
        owned: dict[str, list[int]] = {}
        for topic, partition in self._subscription.assigned_partitions():
            owned.setdefault(topic, []).append(partition)
        return owned

    @property
    def generation_id(self) -> int:
        """The generation that is being joined, or was joined last."""
        return int(self._generation.generation_id)

    @property
    def about(self) -> About:
        """Group and generation."""
        return About(self.group_id, self.generation_id)

    def expect_hand_over(self, withheld: int) -> None:
        """Ask for another round if nobody else does within ``HAND_OVER_PATIENCE``."""
        awaited = self._generation.generation_id
        self._later(HAND_OVER_PATIENCE, self._check_hand_over, awaited, withheld)

    def _check_hand_over(self, awaited: int, withheld: int) -> None:
        if self.stable() and self._generation.generation_id == awaited:
            log.warning(
                "%d withheld partitions of group %s were not handed over in %.0f s: rejoining",
                withheld,
                self.group_id,
                HAND_OVER_PATIENCE,
            )
            self.request_rejoin()

    # ---- what kafka-python calls

    def poll(self, timeout_ms: float | None = None) -> bool:
        """Also look where leaders are, if this consumer leads the group."""
        now = time.monotonic()
        if (
            self._lookout.is_due(self._metadata_answers, now)
            and self.stable()
            and not self.need_rejoin()
            and self._lookout.look(self._metadata_answers, now, self.about)
        ):
            self.request_rejoin()
        return super().poll(timeout_ms=timeout_ms)

    def _perform_assignment(self, leader_id: str, protocol_name: str, members: Any) -> Any:
        seat = self._seats.get(protocol_name)
        if seat is None:
            return super()._perform_assignment(leader_id, protocol_name, members)
        topics = {topic for topic in seat.read_members(members) if is_topic_name(topic)}
        self._await_metadata(topics)
        # What is compared later to see whether the metadata changed must have the topics of
        # the whole group; metadata that came while this member joined was taken without.
        self._metadata_snapshot = self._build_metadata_snapshot(self._subscription, self._cluster)
        everyone = JoinGroupResponse.JoinGroupResponseMember(
            member_id=leader_id,
            metadata=ConsumerProtocolSubscription(
                version=0, topics=sorted(topics), user_data=b""
            ).encode(),
        )
        plan = super()._perform_assignment(leader_id, protocol_name, [everyone])
        self._lookout.follow(seat.watch, time.monotonic())
        return plan

    async def _join_and_sync(self) -> Any:
        self._lookout.follow(None, time.monotonic())
        while True:
            try:
                return await super()._join_and_sync()
            except TopicsUnseenError as unseen:
                log.debug("group %s: waiting for metadata of %s", self.group_id, unseen)
            try:
                await self._manager.wait_for(self._cluster.request_update(), 1000)
            except KafkaError as error:
                log.debug("group %s: no metadata: %s", self.group_id, error)

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.owned_since = generation
        if self._seats:
            self._later(FIRST_READS, self._look_for_followers)
        await super()._on_join_complete_async(generation, member_id, protocol, assignment)

    def _handle_metadata_update(self, cluster: Any) -> None:
        self._metadata_answers += 1
        if self._seats:
            self._look_for_followers()
        super()._handle_metadata_update(cluster)
        if self.steady and (pause := stop_asking(cluster)) is not None and not self._asks_later:
            self._asks_later = True
            self._later(pause, self._ask_for_topics)

    # ---- how

    def _ask_for_topics(self) -> None:
        self._asks_later = False
        self._cluster.request_update()

    def _await_metadata(self, topics: Iterable[str]) -> None:
        """Raise TopicsUnseenError while brokers may still tell us of one of ``topics``."""
        self._subscription.group_subscribe(topics)
        self._cluster.set_topics(self._subscription.group_subscription())
        unseen = {t for t in topics if not self._cluster.partitions_for_topic(t)}
        # The first answer may be to a question that was on its way before we asked of the
        # topic; a topic that the second lacks as well does not exist.
        self._asked = {t: self._asked.get(t, self._metadata_answers) for t in unseen}
        unanswered = {t for t, at in self._asked.items() if self._metadata_answers < at + 2}
        if unanswered:
            now = time.monotonic()
            if self._wait_until is None:
                self._wait_until = now + METADATA_PATIENCE
            if now < self._wait_until:
                raise TopicsUnseenError(", ".join(sorted(unanswered)))
        self._wait_until = None
        self.topics_gone = frozenset(unseen - unanswered)

    def _later(self, seconds: float, method: Callable[..., None], *values: object) -> None:
        """Call ``method`` on the I/O thread, unless this consumer is gone by then."""
        reference = weakref.WeakMethod(method)

        def call() -> None:
            alive = reference()
            if alive is not None:
                alive(*values)

        self._net.call_later(seconds, call)

    def _look_for_followers(self) -> None:
        for partition, state in list(self._subscription.assignment.items()):
            replica = state.preferred_read_replica()
            if replica is not None:
                self._remarks.once(
                    "followers",
                    "brokers send this consumer to followers (broker %s for %s-%d), so assigning"
                    " by the racks of leaders is in vain: unset the brokers'"
                    " replica.selector.class, or this consumer's client_rack",
                    replica,
                    partition.topic,
                    partition.partition,
                )
                return


def harden(consumer: Any) -> None:
    """Work around kafka-python's faults in a KafkaConsumer that has none of our assignors.

    Those that have one are hardened as they are made. TypeError where ``consumer`` was made before
    this package was imported. docs/kafka-python.md describes the faults.
    """
    coordinator = consumer._coordinator
    if not isinstance(coordinator, RackAwareCoordinator):
        raise TypeError("import assignors.kafka_python before the consumer is made")
    if not coordinator.steady:
        coordinator.harden()


def install() -> None:
    """Have every KafkaConsumer made from now on use this coordinator."""
    kafka.consumer.group.ConsumerCoordinator = RackAwareCoordinator
