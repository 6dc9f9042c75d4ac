"""The two assignors as kafka-python knows assignors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from assignors.consumer_protocol import NO_GENERATION, Subscription, SubscriptionReader
from assignors.cooperative_sticky import LeaderRackAwareCooperativeSticky
from assignors.group_leader import (
    Assignor,
    Joined,
    Leaders,
    Rebalance,
    Remarks,
    Remembering,
    WeightSource,
)
from assignors.group_leader import read_leaders as read_metadata
from assignors.leader_moves import DEFAULT_REFRESH, RefreshPolicy, checked_refresh
from assignors.rack_discovery import RackSource, chosen_rack
from assignors.range import LeaderRackAwareRange

SUBSCRIPTION_VERSION = 3
"""The first version of the subscription that has a field for the rack."""


class LeaderRackAwareAssignor(Remembering, AbstractPartitionAssignor):  # type: ignore[misc]
    """What both strategies share; not to be used itself.

    An instance can be given to any number of consumers: what belongs to one consumer is kept
    by the :class:`~assignors.kafka_python.coordinator.Seat` that each consumer has of its own.
    """

    name: str
    _PROTOCOLS: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def __init__(
        self,
        assignor: Assignor,
        rack: str | RackSource | None,
        weights: WeightSource | None,
        refresh: RefreshPolicy | None,
        hardened: bool = True,
    ) -> None:
        self.rack = chosen_rack(rack, os.environ)
        self.refresh = checked_refresh(refresh)
        self.hardened = hardened
        self.remarks = Remarks()
        self.rebalance = Rebalance(
            name=self.name,
            assignor=assignor,
            cooperative=RebalanceProtocol.COOPERATIVE in self._PROTOCOLS,
            weights=weights,
            remarks=self.remarks,
        )
        self._owned: dict[str, list[int]] = {}
        self._generation = NO_GENERATION

    @property
    def cooperative(self) -> bool:
        """Whether members keep their partitions through a rebalance, and so may claim them."""
        return self.rebalance.cooperative

    def supported_protocols(self) -> list[Any]:
        """The protocols this strategy works in; kafka-python takes the best that all permit."""
        return list(self._PROTOCOLS)

    def metadata(self, topics: Iterable[str]) -> Any:
        """What this member says as it joins: its topics, its rack, what it owns since when."""
        wanted = sorted(topics)
        owned = {t: self._owned[t] for t in wanted if t in self._owned}
        return subscription(wanted, self.rack, owned, self._generation)

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        """The assignment of every member, as objects that kafka-python encodes.

        ``members`` have their metadata decoded, or still as bytes. Never raises over what a
        member sent.
        """
        reader = SubscriptionReader()
        joined = [
            Joined(m.member_id, m.group_instance_id, _said(m.metadata, reader)) for m in members
        ]
        return {
            member: ConsumerProtocolAssignment(
                version=0, assigned_partitions=list(topics.items()), user_data=b""
            )
            for member, topics in self.rebalance.run(
                partial(read_leaders, cluster), joined
            ).shares.items()
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Remember what to claim at the next join.

        Asked only where there is no seat, that is outside of a ConsumerCoordinator.
        """
        if self.cooperative:
            self._owned = {topic: list(ps) for topic, ps in assignment.assigned_partitions}
            self._generation = generation


class LeaderRackAwareRangeAssignor(LeaderRackAwareAssignor):
    """Partition *i* of all topics to one member, in the rack of its leaders where possible.

    Eager: everything is given up before a rebalance. ``rack`` is where this consumer runs
    (None: see :mod:`assignors.rack_discovery`); ``weights`` gives a topic's traffic per partition,
    as a mapping or a function, and counts on whichever member leads the group; so does
    ``refresh``, when leaders that moved are worth a rebalance (None: never); ``hardened``
    False leaves kafka-python's faults as they are (docs/kafka-python.md); for
    ``co_partitioned`` and ``max_imbalance`` see :class:`assignors.LeaderRackAwareRange`.
    """

    name = "leader-rack-aware-range"

    def __init__(
        self,
        rack: str | RackSource | None = None,
        *,
        weights: WeightSource | None = None,
        max_imbalance: float = 0.0,
        refresh: RefreshPolicy | None = DEFAULT_REFRESH,
        co_partitioned: bool = True,
        hardened: bool = True,
    ) -> None:
        super().__init__(
            LeaderRackAwareRange(co_partitioned=co_partitioned, max_imbalance=max_imbalance),
            rack,
            weights,
            refresh,
            hardened,
        )


class LeaderRackAwareCooperativeStickyAssignor(LeaderRackAwareAssignor):
    """Balanced, then in the rack of the leader, then where it was before.

    Cooperative: what a member keeps it goes on reading through the rebalance, and what moves
    does so in two rounds. Listed beside an eager assignor, for a rolling change, everything is
    given up before a rebalance, until that one is left out. Options as for
    :class:`LeaderRackAwareRangeAssignor`; for ``max_imbalance`` see
    :class:`assignors.LeaderRackAwareCooperativeSticky`.
    """

    name = "leader-rack-aware-cooperative-sticky"
    _PROTOCOLS = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(
        self,
        rack: str | RackSource | None = None,
        *,
        weights: WeightSource | None = None,
        max_imbalance: float = 0.0,
        refresh: RefreshPolicy | None = DEFAULT_REFRESH,
        hardened: bool = True,
    ) -> None:
        super().__init__(
            LeaderRackAwareCooperativeSticky(max_imbalance=max_imbalance),
            rack,
            weights,
            refresh,
            hardened,
        )


def read_leaders(cluster: Any, topics: Iterable[str]) -> Leaders:
    """The leaders' racks of ``topics`` as ``cluster``, a ClusterMetadata, knows them."""
    return read_metadata(cluster, {b.node_id: b.rack for b in cluster.brokers()}, topics)


def subscription(
    topics: Sequence[str], rack: str | None, owned: Mapping[str, Sequence[int]], generation: int
) -> Any:
    """A ConsumerProtocolSubscription of the version that has all of this."""
    held = ConsumerProtocolSubscription.TopicPartition
    return ConsumerProtocolSubscription(
        version=SUBSCRIPTION_VERSION,
        topics=list(topics),
        user_data=None,
        owned_partitions=[
            held(topic=topic, partitions=sorted(partitions))
            for topic, partitions in sorted(owned.items())
        ],
        generation_id=generation,
        rack_id=rack,
    )


def _said(metadata: Any, reader: SubscriptionReader) -> Subscription:
    """What a member said, from bytes or from what kafka-python decoded of them."""
    if isinstance(metadata, bytes):
        return reader.read(metadata)
    try:
        topics = frozenset(metadata.topics)
        user_data = metadata.user_data
        owned: dict[str, Sequence[int]] = {}
        for held in metadata.owned_partitions or ():
            before = owned.get(held.topic, ())
            owned[held.topic] = [*before, *held.partitions] if before else held.partitions
        generation, rack = metadata.generation_id, metadata.rack_id
    except (AttributeError, TypeError) as error:
        return Subscription(faults=(f"subscription: {error!r}",))
    return reader.complete(topics, user_data, owned, generation, rack)
