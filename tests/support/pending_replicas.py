"""Records of pending replicas, states of clusters, and a lease for tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from placement_core import TopicPartition
from rackward.controller.lease import LeaseLostError, ReadProgress
from rackward.kafka import AdminError, ClusterState, Reassignment
from rackward.topics.pending_replicas import PendingReplicas, layout_digest
from tests.support.simulated_cluster import cluster_state

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
    cluster = cluster_state(
        {topic: [row for _, row in sorted(rows.items())] for topic, rows in lists.items()},
        list(RACKS.values()),
        down=sorted(RACKS.keys() - set(live)),
        reassignments=dict(reassignments or {}),
    )
    out_of_sync = behind or {}
    return replace(
        cluster,
        in_sync={
            tp: tuple(broker for broker in row if broker not in out_of_sync.get(tp, ()))
            for tp, row in cluster.in_sync.items()
        },
        topic_ids={topic: f"{topic}-id" for topic in lists},
    )


def without_topic(cluster: ClusterState, topic: str) -> ClusterState:
    """Return the state without the topic."""
    return cluster.only([each for each in cluster.topics if each != topic])


def with_id(cluster: ClusterState, topic: str, id: str) -> ClusterState:
    """Return the state with another id of the topic."""
    return replace(cluster, topic_ids={**cluster.topic_ids, topic: id})


class FakeLease:
    """A lease that can be lost; ``confirmations`` tell whether it is confirmed for each change.

    ``error`` is raised by heartbeats.
    """

    def __init__(self, *records: PendingReplicas) -> None:
        self.owned = True
        self.records: dict[str, PendingReplicas] = {record.key: record for record in records}
        self.confirmations: list[bool] = []
        self.error: AdminError | None = None
        self.was_reset = False

    @property
    def ready(self) -> bool:
        return self.owned

    @property
    def progress(self) -> ReadProgress | None:
        return ReadProgress(len(self.records), len(self.records)) if self.owned else None

    def poll(self, seconds: float) -> None:
        """Read nothing."""

    def heartbeat(self) -> bool:
        if self.error is not None:
            raise self.error
        return self.owned

    def confirm(self) -> None:
        """Permit a change, or raise LeaseLostError."""
        self.owned = self.confirmations.pop(0) if self.confirmations else self.owned
        if not self.owned:
            raise LeaseLostError("lost")

    def update(self, records: Iterable[PendingReplicas], deleted: Iterable[str]) -> None:
        self.records.update((record.key, record) for record in records)
        for key in deleted:
            self.records.pop(key)

    def reset(self) -> None:
        self.records, self.was_reset = {}, True
