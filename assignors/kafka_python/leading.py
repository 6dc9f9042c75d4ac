"""What the coordinator of a KafkaConsumer does as the leader of its group.

This module imports numpy and the assignors, so the coordinator imports it when its consumer leads
for the first time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from assignors.client_assignor import (
    BoundAssignor,
    ClientAssignor,
    DescribedMember,
    topics_of,
)
from assignors.consumer_protocol import write_assignments
from assignors.group_leader import (
    METADATA_TIMEOUT,
    REVOCATION_TIMEOUT,
    GroupContext,
    JoinedMember,
    JoinedMembers,
    Leaders,
    format_list,
    read_leaders,
    read_members,
)
from assignors.kafka_python.coordinator import MetadataPending
from assignors.leader_moves import LeaderMoveMonitor, PartitionMetadata

__all__ = ["REVOCATION_TIMEOUT", "GroupLeader", "read_metadata"]


class GroupLeader:
    """Assigns the partitions of a group for the coordinator of one consumer.

    ``cluster`` and ``subscription`` are the consumer's ClusterMetadata and SubscriptionState.
    Everywhere ``responses`` is the number of metadata responses received so far, and ``now`` is a
    time of `time.monotonic`.
    """

    def __init__(self, cluster: Any, subscription: Any) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._assignors: dict[str, BoundAssignor] = {}
        self._unseen_topics: dict[str, int] = {}
        self._metadata_deadline: float | None = None

    def read_members(
        self, members: Iterable[Any], responses: int, now: float
    ) -> tuple[JoinedMembers, frozenset[str]]:
        """Return the members of a JoinGroup response, and those of their topics that do not exist.

        Raises MetadataPending while brokers may still return metadata of one of the others.
        """
        joined = read_members((m.member_id, m.group_instance_id, m.metadata) for m in members)
        return joined, self._deleted_topics(topics_of(joined), responses, now)

    def assign(
        self,
        assignor: ClientAssignor,
        joined: Sequence[JoinedMember],
        deleted_topics: frozenset[str],
        context: GroupContext,
        now: float,
    ) -> tuple[dict[str, bytes], int]:
        """Return the encoded assignment of each member, and the number of withheld partitions."""
        bound = self._bound(assignor)
        read = partial(read_metadata, self._cluster)
        result = bound.assign(joined, read, deleted_topics, context, now)
        return write_assignments(result.assignments), result.withheld

    def resume(
        self,
        assignor: ClientAssignor,
        members: Iterable[DescribedMember],
        context: GroupContext,
        now: float,
    ) -> None:
        """See `BoundAssignor.resume`."""
        bound = self._bound(assignor)
        bound.resume(members, partial(read_metadata, self._cluster), context, now)

    def monitor(self, assignor: ClientAssignor) -> LeaderMoveMonitor | None:
        """Return the monitor of the assignment made last; None if the refresh policy is None."""
        return self._bound(assignor).monitor

    def follow(self) -> None:
        """Note that another member leads the group."""
        for bound in self._assignors.values():
            bound.follow()

    def on_revocation_timeout(
        self, assignor: ClientAssignor, context: GroupContext, withheld: int
    ) -> None:
        """See `BoundAssignor.on_revocation_timeout`."""
        self._bound(assignor).on_revocation_timeout(context, withheld)

    def _bound(self, assignor: ClientAssignor) -> BoundAssignor:
        if assignor.name not in self._assignors:
            self._assignors[assignor.name] = BoundAssignor(assignor)
        return self._assignors[assignor.name]

    def _deleted_topics(self, topics: set[str], responses: int, now: float) -> frozenset[str]:
        self._subscription.group_subscribe(topics)
        self._cluster.set_topics(self._subscription.group_subscription())
        unseen = {topic for topic in topics if not self._cluster.partitions_for_topic(topic)}
        # The next response may be to a request that was sent before this topic was of interest; a
        # topic that the second one lacks as well does not exist.
        self._unseen_topics = {topic: self._unseen_topics.get(topic, responses) for topic in unseen}
        pending = {topic for topic, first in self._unseen_topics.items() if responses < first + 2}
        if pending:
            if self._metadata_deadline is None:
                self._metadata_deadline = now + METADATA_TIMEOUT
            if now < self._metadata_deadline:
                raise MetadataPending(format_list(sorted(pending)))
        self._metadata_deadline = None
        # A topic that this member may not describe may exist for the members that subscribe to it.
        return frozenset(unseen - pending - self._cluster.unauthorized_topics)


def read_metadata(
    cluster: Any, topics: Iterable[str]
) -> tuple[Leaders, Iterable[PartitionMetadata]]:
    """Return the leaders' racks and the replicas of ``topics`` from a ClusterMetadata."""
    names = list(topics)
    racks = {broker.node_id: broker.rack for broker in cluster.brokers()}
    # There is no public way to the replicas. Each response replaces the dictionary as a whole.
    known = cluster._partitions
    partitions = (
        PartitionMetadata(
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
    return read_leaders(known, attrgetter("leader_id"), racks, names), partitions
