"""An assignor's place in the coordinator of one consumer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from assignors.kafka_python.strategies import LeaderRackAwareAssignor, read_leaders
from assignors.leading import About, Joined, LeaderWatch
from assignors.wire import SubscriptionReader, write_assignments, write_user_data


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
