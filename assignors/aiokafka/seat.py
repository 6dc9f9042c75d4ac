"""An assignor's place in the coordinator of one consumer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

from assignors.aiokafka.lookout import read_brokers
from assignors.aiokafka.strategies import LeaderRackAwareAssignor
from assignors.leading import About, Joined, LeaderWatch, Outcome
from assignors.wire import NO_GENERATION, SubscriptionReader, write_user_data


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
