"""Clusters as brokers would tell of them, for commands that only show or plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placement_core import Broker, ClusterView, TopicPartition
from rackward.admin import ClusterState

RACKS = ("a", "a", "b", "b", "c", "c")
Rows = Sequence[tuple[int, ...]]


def state(
    topics: Mapping[str, Rows],
    racks: Sequence[str | None] = RACKS,
    *,
    down: Sequence[int] = (),
    **more: Any,
) -> ClusterState:
    """Brokers 0, 1, ... in ``racks``, without those that are ``down``; the first replica that
    is up leads, and those that are up are in sync."""
    replicas = {
        TopicPartition(topic, number): row
        for topic, rows in topics.items()
        for number, row in enumerate(rows)
    }
    up = {
        place: tuple(broker for broker in row if broker not in down)
        for place, row in replicas.items()
    }
    brokers = [Broker(number, rack) for number, rack in enumerate(racks)]
    return ClusterState(
        cluster_id="cluster",
        view=ClusterView(
            brokers=tuple(broker for broker in brokers if broker.id not in down),
            replicas=replicas,
            leaders={place: row[0] for place, row in up.items() if row},
        ),
        in_sync=up,
        fenced=tuple(broker for broker in brokers if broker.id in down),
        addresses={broker.id: f"kafka-{broker.id}.example:9092" for broker in brokers},
        topic_ids={topic: f"id of {topic}" for topic in topics},
        **more,
    )
