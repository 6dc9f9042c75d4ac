"""Cluster states with any topics, for tests that render or plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placement_core import Broker, ClusterView, TopicPartition
from rackward.admin import ClusterState

RACKS = ("a", "a", "b", "b", "c", "c")
Rows = Sequence[tuple[int, ...]]


def cluster_state(
    topics: Mapping[str, Rows],
    racks: Sequence[str | None] = RACKS,
    *,
    down: Sequence[int] = (),
    **fields: Any,
) -> ClusterState:
    """Return a state with the brokers 0, 1, ... in ``racks``, of which some are ``down``.

    The leader of a partition is its first live replica; all live replicas are in sync.
    """
    replicas = {
        TopicPartition(topic, number): row
        for topic, rows in topics.items()
        for number, row in enumerate(rows)
    }
    in_sync = {
        tp: tuple(broker for broker in row if broker not in down) for tp, row in replicas.items()
    }
    brokers = [Broker(number, rack) for number, rack in enumerate(racks)]
    return ClusterState(
        cluster_id="cluster",
        view=ClusterView(
            brokers=tuple(broker for broker in brokers if broker.id not in down),
            replicas=replicas,
            leaders={tp: row[0] for tp, row in in_sync.items() if row},
        ),
        in_sync=in_sync,
        fenced=tuple(broker for broker in brokers if broker.id in down),
        addresses={broker.id: f"kafka-{broker.id}.example:9092" for broker in brokers},
        topic_ids={topic: f"id of {topic}" for topic in topics},
        **fields,
    )
