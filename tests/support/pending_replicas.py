"""Records of pending replicas and states of clusters for tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from placement_core import Broker, ClusterView, TopicPartition
from rackward.kafka import ClusterState, Reassignment
from rackward.topics.pending_replicas import PendingReplicas, layout_digest

RACKS = {0: "a", 1: "b", 2: "c", 3: "a", 4: "b", 5: "c"}
Lists = Mapping[str, Mapping[int, tuple[int, ...]]]


def pending(
    topic: str = "t",
    rows: Mapping[int, tuple[int, ...]] | None = None,
    *,
    id: str = "i",
    topic_id: str | None = "",
    factor: int = 3,
    offline_replicas: Collection[int] = (),
    assigned: Mapping[int, tuple[int, ...]] | None = None,
) -> PendingReplicas:
    """Return a record for a topic created with ``rows``, whose id is ``t-id`` by default."""
    rows = {0: (0, 1)} if rows is None else rows
    return PendingReplicas(
        id=id,
        topic=topic,
        topic_id=f"{topic}-id" if topic_id == "" else topic_id,
        replication_factor=factor,
        partitions=tuple(sorted(rows)),
        layout=layout_digest(rows),
        offline_replicas=frozenset(offline_replicas),
        assigned=dict(assigned or {}),
    )


def state(
    live: Collection[int],
    lists: Lists,
    *,
    reassignments: Mapping[TopicPartition, Reassignment] | None = None,
    behind: Mapping[TopicPartition, Collection[int]] | None = None,
) -> ClusterState:
    """Return the state of a cluster with the brokers of RACKS, of which ``live`` are up.

    Every live replica is in sync except those ``behind``.
    """
    replicas = {
        TopicPartition(topic, number): row
        for topic, rows in lists.items()
        for number, row in rows.items()
    }
    out_of_sync = behind or {}
    return ClusterState(
        cluster_id="c",
        view=ClusterView(
            tuple(Broker(each, RACKS[each]) for each in sorted(live)),
            replicas,
            {tp: row[0] for tp, row in replicas.items()},
        ),
        in_sync={
            tp: tuple(b for b in row if b in live and b not in out_of_sync.get(tp, ()))
            for tp, row in replicas.items()
        },
        fenced=tuple(Broker(each, RACKS[each]) for each in sorted(RACKS.keys() - set(live))),
        topic_ids={topic: f"{topic}-id" for topic in lists},
        reassignments=dict(reassignments or {}),
    )


def without_topic(cluster: ClusterState, topic: str) -> ClusterState:
    """Return the state without the topic."""
    return cluster.only([each for each in cluster.topics if each != topic])


def with_id(cluster: ClusterState, topic: str, id: str) -> ClusterState:
    """Return the state with another id of the topic."""
    return replace(cluster, topic_ids={**cluster.topic_ids, topic: id})
