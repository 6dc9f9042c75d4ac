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
    :mod:`assignors.kafka_python.workarounds`.
Brokers that are missing from a metadata answer
    A consumer stops reading from them for good: see
    :mod:`assignors.kafka_python.workarounds`.
Topics that are missing
    They are asked for without a pause: see :mod:`assignors.kafka_python.workarounds`.
Leaders that move
    Nobody rebalances for them. Here, the leader of the group looks where they are from time to
    time, and asks for a rebalance where its policy says so: see :mod:`assignors.leader_moves`. Of
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
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import kafka.consumer.group
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.errors import KafkaError, RetriableError
from kafka.protocol.consumer.group import JoinGroupResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from assignors.consumer_protocol import (
    NO_GENERATION,
    SubscriptionReader,
    write_assignments,
    write_user_data,
)
from assignors.group_leader import (
    HAND_OVER_PATIENCE,
    METADATA_PATIENCE,
    About,
    Joined,
    Leaders,
    Remarks,
    is_topic_name,
    log,
)
from assignors.kafka_python.assignors import LeaderRackAwareAssignor, read_leaders
from assignors.kafka_python.workarounds import (
    SteadyCoordinator,
    outlive_missing_brokers,
    stop_asking,
)
from assignors.leader_moves import LeaderWatch, PartitionState

# ---- An assignor's place in the coordinator of one consumer.


class Membership(Protocol):
    """What a seat asks its coordinator."""

    def owned_partitions(self) -> dict[str, list[int]]:
        """What this consumer is assigned at this moment, topic to partitions."""

    @property
    def cooperative(self) -> bool:
        """Whether that is kept through a rebalance, or is all given up by the time it joins."""

    @property
    def owned_since(self) -> int:
        """The generation of the last join that was completed; -1 before the first."""

    @property
    def generation_id(self) -> int:
        """The generation that is being joined, or was joined last."""

    @property
    def topics_gone(self) -> frozenset[str]:
        """Subscribed topics that brokers say do not exist."""

    @property
    def about(self) -> About:
        """Group and generation."""

    def expect_hand_over(self, withheld: int) -> None:
        """``withheld`` partitions wait for another round."""


class Seat(AbstractPartitionAssignor):  # type: ignore[misc]
    """Answers a coordinator in an assignor's name, with what is true of that one consumer."""

    def __init__(self, assignor: LeaderRackAwareAssignor, membership: Membership) -> None:
        self.assignor = assignor
        self._membership = membership
        self._joined: Sequence[Joined] = ()
        policy = assignor.refresh
        self.watch = None if policy is None else LeaderWatch(policy, assignor.rebalance)

    @property
    def name(self) -> str:
        """The assignor's."""
        return self.assignor.name

    def supported_protocols(self) -> list[Any]:
        """The assignor's."""
        return self.assignor.supported_protocols()

    def metadata(self, topics: Iterable[str]) -> Any:
        """The assignor's, with what this consumer owns.

        Beside an eager assignor nothing is kept, though the consumer's state still has it. What
        it had then goes where it is read as given up.
        """
        metadata = self.assignor.metadata(topics)
        if not (self.assignor.cooperative and isinstance(metadata, ConsumerProtocolSubscription)):
            return metadata
        owned = self._membership.owned_partitions()
        claimed = {topic: sorted(owned[topic]) for topic in sorted(owned.keys() & set(topics))}
        since = self._membership.owned_since
        if self._membership.cooperative:
            held = ConsumerProtocolSubscription.TopicPartition
            metadata.owned_partitions = [held(topic=t, partitions=ps) for t, ps in claimed.items()]
            metadata.generation_id = since
        else:
            metadata.user_data = write_user_data(self.assignor.rack, claimed, since)
        return metadata

    def read_members(self, members: Iterable[Any]) -> set[str]:
        """Read what ``members`` (of a JoinGroupResponse, undecoded) said; their topics."""
        reader = SubscriptionReader()
        self._joined = [
            Joined(m.member_id, m.group_instance_id, reader.read(m.metadata)) for m in members
        ]
        return set().union(*{joined.subscription.topics for joined in self._joined})

    def assign(self, cluster: Any, members: Any) -> dict[str, bytes]:  # noqa: ARG002
        """The encoded assignment of every member that was read."""
        joined, self._joined = self._joined, ()
        outcome = self.assignor.rebalance.run(
            partial(read_leaders, cluster),
            joined,
            self._membership.topics_gone,
            self._membership.about,
        )
        if self.watch is not None:
            self.watch.begin(self._membership.generation_id, joined, outcome, time.monotonic())
        if outcome.withheld:
            self._membership.expect_hand_over(outcome.withheld)
        return write_assignments(outcome.shares)

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Nothing to remember: what is owned is read off the consumer when it is needed."""


# ---- Looking at where leaders are, at a policy's pace, from within the polls of one consumer.


class Lookout:
    """Asks for metadata once per interval, and has a watch look at the answer.

    kafka-python asks of itself every five minutes, and where a leader that it reads from is gone:
    of partitions that other members read it hears too late, or never.
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._watch: LeaderWatch | None = None
        self._due = 0.0
        self._asked: int | None = None

    def follow(self, watch: LeaderWatch | None, now: float) -> None:
        """From now on it is ``watch`` that looks; None: nobody."""
        self._watch, self._asked = watch, None
        if watch is not None:
            self._due = now + watch.interval

    def is_due(self, answers: int, now: float) -> bool:
        """Whether there is something to do. ``answers``: of brokers, for metadata, so far."""
        if self._watch is None:
            return False
        return now >= self._due or (self._asked is not None and answers > self._asked)

    def look(self, answers: int, now: float, about: About) -> bool:
        """Do it; whether to ask for a rebalance."""
        watch = self._watch
        if watch is None:
            return False
        if self._asked is not None and answers > self._asked:
            self._asked = None
            return watch.look(partial(read_metadata, self._cluster), now, about)
        self._due = now + watch.interval
        self._asked = answers
        self._cluster.request_update()
        return False


def read_metadata(cluster: Any, topics: Iterable[str]) -> tuple[Leaders, Iterable[PartitionState]]:
    """What ``cluster``, a ClusterMetadata, knows of the leaders and replicas of ``topics``."""
    names = list(topics)
    # Replicas are not to be had otherwise. The dictionary is replaced as a whole by each answer.
    known = cluster._partitions
    states = (
        PartitionState(
            topic,
            number,
            partition.leader_id,
            partition.leader_epoch,
            partition.replica_nodes,
            partition.isr_nodes,
        )
        for topic in names
        for number, partition in known.get(topic, {}).items()
    )
    return read_leaders(cluster, names), states


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
