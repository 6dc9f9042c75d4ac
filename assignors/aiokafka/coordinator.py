"""What an assignor cannot do in aiokafka from where it stands, done in the coordinator.

aiokafka asks an assignor for its metadata and for a plan, and tells it of each new assignment.
That is too little in several ways. So importing this package has every AIOKafkaConsumer make the
coordinator below, which differs from aiokafka's own only in a consumer that was given one of our
assignors:

What the others said
    aiokafka decodes every subscription as version 0 before it asks the assignor. What later
    versions say (racks, and what cooperative members own while they join) would be lost, and
    the two members of different clients would read one partition. One subscription that is cut
    short would stop the leader for good, and the next. Here, an assignor reads the bytes.
What this member had
    An assignor is not told of generations, and shares its memory with all consumers that it
    was given to. Here, each coordinator remembers its own last assignment, and when it was.
    The claim survives a change of topics, and an expired session; whoever was given the
    partitions meanwhile has a later claim.
Topics that only others subscribe to
    aiokafka waits for their metadata for as long as brokers let it, and assigns without it
    where the first answer lacks them. Here, silent brokers are waited for
    ``METADATA_PATIENCE`` seconds and no longer, and a topic is asked for twice: a broker may
    not have heard of it yet that others already serve.
Topics that are deleted
    What was read last is committed before a rebalance, and of a topic that is gone aiokafka
    tries that for ever: the member never joins again, and its group waits for it in vain. Here,
    it is tried once, as it is in Apache's client.
More assignors than one
    For each assignor of its list aiokafka asks to join once, with one more of them each time.
    Every such request is a rebalance for all, and members that are out of step keep each other
    from ever ending one: a rolling change of assignors can stop a group. Here, only the request
    that has them all is sent.
Leaders that move
    Nobody rebalances for them. Here, the leader of the group looks where they are from time to
    time, and asks for a rebalance where its policy says so: see :mod:`assignors.leader_moves`.
A hand-over that does not happen
    Partitions are withheld until whoever owned them has rejoined. Should a foreign client
    claim and never give up, the leader asks for another round itself.

One group, several clients
    Members of other clients join under the sticky protocol's name cooperatively: they own
    their partitions throughout, and say so in their subscription. Members of aiokafka give up
    everything before they join, and say in their user data what they had. Whoever leads, of
    whichever client, follows the same rule: what is owned goes to no other member before
    its owner has given it up and joined again; what was given up is free at once. So there
    is at no time a partition with two owners, and there are two rounds at most.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

import aiokafka
import aiokafka.consumer.consumer
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.protocol import ConsumerProtocol, ConsumerProtocolMemberMetadata
from aiokafka.errors import CommitFailedError, KafkaError, NoError, UnknownTopicOrPartitionError
from aiokafka.protocol import group
from aiokafka.protocol.group import JoinGroupRequest

from assignors.aiokafka.assignors import LeaderRackAwareAssignor, UnsupportedAiokafkaError
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
    Outcome,
    is_topic_name,
    log,
    read_leaders,
)
from assignors.leader_moves import LeaderWatch, PartitionState

# ---- Looking at where leaders are, at a policy's pace, beside one consumer's other tasks.

NOT_TOLD = -1
"""The epoch of every leader: aiokafka does not ask for it."""


class Lookout:
    """Asks for metadata once per interval, and has a watch look at the answer."""

    def __init__(self, client: Any, about: Callable[[], About], ask: Callable[[], None]) -> None:
        """``about`` names the group for the log; ``ask`` asks for a rebalance."""
        self._client = client
        self._about = about
        self._ask = ask
        self._task: asyncio.Task[None] | None = None

    def follow(self, watch: LeaderWatch | None) -> None:
        """From now on it is ``watch`` that looks; None: nobody."""
        if self._task is not None:
            self._task.cancel()
        self._task = None if watch is None else asyncio.create_task(self._run(watch))

    async def close(self) -> None:
        """Nobody looks any more once this returns."""
        task = self._task
        self.follow(None)
        if task is not None:
            await asyncio.wait([task])

    async def _run(self, watch: LeaderWatch) -> None:
        pause = watch.interval
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(pause):
                    answered = await self._client.force_metadata_update()
            except (TimeoutError, KafkaError) as error:
                log.debug("%s: no metadata: %r", self._about(), error)
                continue
            if answered and watch.look(self._read, loop.time(), self._about()):
                self._ask()

    def _read(self, topics: Iterable[str]) -> tuple[Leaders, Iterable[PartitionState]]:
        return read_metadata(self._client.cluster, topics)


def read_brokers(cluster: Any, topics: Iterable[str]) -> Leaders:
    """The leaders' racks of ``topics`` as ``cluster``, a ClusterMetadata, knows them."""
    return read_leaders(cluster, {b.nodeId: b.rack for b in cluster.brokers()}, topics)


def read_metadata(cluster: Any, topics: Iterable[str]) -> tuple[Leaders, Iterable[PartitionState]]:
    """The same, and what it knows of their replicas."""
    names = list(topics)
    # Replicas are not to be had otherwise.
    states = (
        PartitionState(topic, number, known.leader, NOT_TOLD, known.replicas, known.isr)
        for topic in names
        for number, known in cluster._partitions.get(topic, {}).items()
    )
    return read_brokers(cluster, names), states


# ---- An assignor's place in the coordinator of one consumer.


class Membership(Protocol):
    """What a seat asks its coordinator."""

    @property
    def had(self) -> dict[str, list[int]]:
        """What the last join that was completed gave to this consumer, topic to partitions."""

    @property
    def had_since(self) -> int:
        """The generation of that join; -1 before the first."""

    @property
    def about(self) -> About:
        """Group and generation."""


class Seat:
    """Answers a coordinator in an assignor's name, with what is true of that one consumer."""

    def __init__(self, assignor: LeaderRackAwareAssignor, membership: Membership) -> None:
        self.assignor = assignor
        self._membership = membership
        policy = assignor.refresh
        self.watch = None if policy is None else LeaderWatch(policy, assignor.rebalance)

    @property
    def name(self) -> str:
        """The assignor's."""
        return self.assignor.name

    def metadata(self, topics: Iterable[str]) -> Any:
        """What this member says as it joins: its topics, and the rest as user data.

        aiokafka's subscription is of version 0, which has no field for a rack. What the member
        had goes where it is read as given up: by the time it joins it has been revoked.
        """
        wanted = sorted(topics)
        had: dict[str, list[int]] = {}
        since = NO_GENERATION
        if self.assignor.sticky:
            had = {t: self._membership.had[t] for t in wanted if t in self._membership.had}
            since = self._membership.had_since
        return ConsumerProtocolMemberMetadata(
            0, wanted, write_user_data(self.assignor.rack, had, since)
        )

    def read_members(self, members: Iterable[Sequence[Any]]) -> list[Joined]:
        """Read what ``members`` (of a JoinGroupResponse of any version, undecoded) said."""
        reader = SubscriptionReader()
        return [
            Joined(id_, instance_id[0] if instance_id else None, reader.read(said))
            for id_, *instance_id, said in members
        ]

    def rebalance(self, cluster: Any, joined: Sequence[Joined], gone: frozenset[str]) -> Outcome:
        """Everyone's share, from what ``cluster`` knows; never raises over what a member sent."""

        return self.assignor.rebalance.run(
            partial(read_brokers, cluster), joined, gone, self._membership.about
        )

    def on_assignment(self, assignment: Any) -> None:
        """Nothing to remember: the coordinator knows what it was assigned, and since when."""


# ---- Whether the aiokafka that is installed is one that the coordinator can stand on.

OLDEST = "0.13.0"
"""The oldest aiokafka that the adapter was tested with."""

NEEDED: Iterable[tuple[Any, Iterable[str]]] = (
    # Looked up there when a consumer is started, and so replaced there.
    (aiokafka.consumer.consumer, ["GroupCoordinator"]),
    (
        GroupCoordinator,
        [
            "_send_req(self, request)",
            "_perform_assignment(self, response)",
            "_on_join_prepare(self, previous_assignment)",
            "_on_join_complete(self, generation, member_id, protocol, member_assignment_bytes)",
            "_maybe_do_last_autocommit(self, assignment)",
            "_do_commit_offsets(self, assignment, offsets)",
            "_get_metadata_snapshot(self)",
            "_lookup_assignor(self, name)",
            "request_rejoin(self)",
            "close(self)",
        ],
    ),
    (
        group,
        [
            "JoinGroupRequest(group, session_timeout, rebalance_timeout, member_id,"
            " group_instance_id, protocol_type, group_protocols)"
        ],
    ),
    (
        AIOKafkaClient,
        ["set_topics(self, topics)", "force_metadata_update(self)", "_maybe_wait_metadata(self)"],
    ),
    (
        ClusterMetadata,
        [
            "brokers(self)",
            "partitions_for_topic(self, topic)",
            "partitions_for_broker(self, broker_id)",
        ],
    ),
)
"""What the coordinator calls, replaces or is called by, private parts included."""


def check_support(
    needed: Iterable[tuple[Any, Iterable[str]]] = NEEDED, version: str = aiokafka.__version__
) -> None:
    """Raises UnsupportedAiokafkaError where aiokafka lacks something of ``needed``."""
    for owner, names in needed:
        for declared in names:
            name, _, parameters = declared.partition("(")
            found = getattr(owner, name, None)
            if found is None or (parameters and not _takes(found, parameters.rstrip(")"))):
                raise UnsupportedAiokafkaError(
                    f"aiokafka {version} has no {owner.__name__}.{declared}, which the assignors"
                    f" need: install aiokafka {OLDEST} or later; if yours is, rackward has to"
                    " be brought up to it"
                )


def _takes(function: Any, parameters: str) -> bool:
    if not callable(function):
        return False
    return list(inspect.signature(function).parameters) == parameters.split(", ")


ANSWERS = 2
"""Answers of brokers that have to lack a topic before it counts as one that does not exist."""


class RackAwareCoordinator(GroupCoordinator):  # type: ignore[misc]
    """aiokafka's coordinator, with a seat for each of our assignors."""

    def __init__(self, client: Any, subscription: Any, **config: Any) -> None:
        self.had: dict[str, list[int]] = {}
        self.had_since = NO_GENERATION
        self._hand_over: asyncio.TimerHandle | None = None
        self._giving_up = False
        config["assignors"] = [_seated(each, self) for each in config.get("assignors", ())]
        self._ours = any(isinstance(each, Seat) for each in config["assignors"])
        super().__init__(client, subscription, **config)
        self._lookout = Lookout(client, lambda: self.about, self.request_rejoin)
        self._led: tuple[int, LeaderWatch] | None = None

    @property
    def about(self) -> About:
        """Group and generation."""
        return About(self.group_id, self.generation)

    # ---- what aiokafka calls

    async def _send_req(self, request: Any) -> Any:
        if (
            self._ours
            and isinstance(request, JoinGroupRequest)
            and len(request._group_protocols) < len(self._assignors)
        ):
            # Of this answer nothing is looked at but whether it is an error.
            return SimpleNamespace(error_code=NoError.errno)
        return await super()._send_req(request)

    async def _on_join_prepare(self, previous_assignment: Any) -> None:
        self._lookout.follow(None)
        await super()._on_join_prepare(previous_assignment)

    async def _perform_assignment(self, response: Any) -> Any:
        seat = self._lookup_assignor(response.group_protocol)
        if not isinstance(seat, Seat):
            return await super()._perform_assignment(response)
        joined = seat.read_members(response.members)
        topics: set[str] = set()
        for member in joined:
            topics |= member.subscription.topics
        # What the leader watches from now on, so that all changes of metadata are noticed.
        self._group_subscription = {topic for topic in topics if is_topic_name(topic)}
        gone = await self._await_metadata(self._group_subscription)
        outcome = seat.rebalance(self._cluster, joined, gone)
        self._metadata_snapshot = self._get_metadata_snapshot()
        self._expect_hand_over(outcome.withheld)
        if seat.watch is not None:
            now = asyncio.get_running_loop().time()
            seat.watch.begin(self.generation, joined, outcome, now)
            self._led = self.generation, seat.watch
        return write_assignments(outcome.shares)

    async def _on_join_complete(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        had: dict[str, list[int]] = {}
        for topic, partition in ConsumerProtocol.ASSIGNMENT.decode(
            member_assignment_bytes
        ).partitions():
            had.setdefault(topic, []).append(partition)
        self.had, self.had_since = had, generation
        await super()._on_join_complete(generation, member_id, protocol, member_assignment_bytes)
        if self._led is not None and self._led[0] == generation:
            self._lookout.follow(self._led[1])

    async def _maybe_do_last_autocommit(self, assignment: Any) -> None:
        self._giving_up = self._ours
        try:
            await super()._maybe_do_last_autocommit(assignment)
        finally:
            self._giving_up = False

    async def _do_commit_offsets(self, assignment: Any, offsets: Any) -> None:
        try:
            await super()._do_commit_offsets(assignment, offsets)
        except UnknownTopicOrPartitionError as error:
            if not self._giving_up:
                raise
            # Of what is there, the same request has committed everything.
            raise CommitFailedError("nothing can be committed of a topic that is gone") from error

    async def close(self) -> None:
        """Also forget what was to be looked at later."""
        try:
            await super().close()
        finally:
            # Not before: it finishes a join that is on its way, after which there may be more.
            self._expect_hand_over(0)
            await self._lookout.close()

    # ---- how

    async def _await_metadata(self, topics: set[str]) -> frozenset[str]:
        """Return when all ``topics`` are seen, or those that are not do not exist: these.

        Without an answer in time nothing is known of topics that are not seen.
        """
        if topics and not self._subscription.subscribed_pattern:
            self._client.set_topics(topics)
        try:
            async with asyncio.timeout(METADATA_PATIENCE):
                await self._client._maybe_wait_metadata()
                answers = 0
                while self._unseen(topics) and answers < ANSWERS:
                    answers += bool(await self._client.force_metadata_update())
                    if self._unseen(topics) and answers < ANSWERS:
                        await asyncio.sleep(self._retry_backoff_ms / 1000)
        except (TimeoutError, KafkaError) as error:
            log.debug("group %s: no metadata: %r", self.group_id, error)
            return frozenset()
        # Topics that this member may not see may well be there for those that subscribe to them.
        return frozenset(self._unseen(topics) - self._cluster.unauthorized_topics)

    def _unseen(self, topics: Iterable[str]) -> set[str]:
        return {topic for topic in topics if not self._cluster.partitions_for_topic(topic)}

    def _expect_hand_over(self, withheld: int) -> None:
        """Ask for another round if nobody else does within ``HAND_OVER_PATIENCE``."""
        if self._hand_over is not None:
            self._hand_over.cancel()
            self._hand_over = None
        if withheld:
            self._hand_over = asyncio.get_running_loop().call_later(
                HAND_OVER_PATIENCE, self._check_hand_over, self.generation, withheld
            )

    def _check_hand_over(self, awaited: int, withheld: int) -> None:
        if self.generation == awaited and not self._rejoin_needed_fut.done():
            log.warning(
                "%d withheld partitions of group %s were not handed over in %.0f s: rejoining",
                withheld,
                self.group_id,
                HAND_OVER_PATIENCE,
            )
            self.request_rejoin()


def install() -> None:
    """Have every AIOKafkaConsumer that is started from now on use this coordinator.

    Raises UnsupportedAiokafkaError where the installed aiokafka is not one that would.
    """
    check_support()
    aiokafka.consumer.consumer.GroupCoordinator = RackAwareCoordinator


def _seated(assignor: Any, membership: RackAwareCoordinator) -> Any:
    """A seat for one of our assignors, or for a class of them; any other as it is."""
    if isinstance(assignor, type) and issubclass(assignor, LeaderRackAwareAssignor):
        assignor = assignor()  # type: ignore[call-arg]
    return Seat(assignor, membership) if isinstance(assignor, LeaderRackAwareAssignor) else assignor
