"""The answer to a metadata request, as values. Any version from 4 on; no I/O."""

from __future__ import annotations

from typing import Any

from placement_core import Broker, ClusterView, TopicPartition
from rackward.admin.state import ClusterState

NO_LEADER = -1
_NO_ID = "00000000-0000-0000-0000-000000000000"


def state_of(answer: Any, *, internal: bool = True) -> ClusterState:
    """The state that a MetadataResponse of kafka-python holds.

    Topics with an error (unknown, not allowed, being deleted) are left out, and those that
    Kafka keeps for itself where ``internal`` is False.
    """
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    leaders: dict[TopicPartition, int] = {}
    in_sync: dict[TopicPartition, tuple[int, ...]] = {}
    offline: dict[TopicPartition, tuple[int, ...]] = {}
    topic_ids: dict[str, str | None] = {}
    kept: set[str] = set()
    for topic in sorted(answer.topics, key=lambda topic: str(topic.name)):
        if topic.error_code or (topic.is_internal and not internal):
            continue
        name = topic.name
        topic_ids[name] = _id(topic)
        if topic.is_internal:
            kept.add(name)
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index):
            place = TopicPartition(name, partition.partition_index)
            replicas[place] = tuple(partition.replica_nodes)
            in_sync[place] = tuple(partition.isr_nodes)
            if partition.leader_id > NO_LEADER:
                leaders[place] = partition.leader_id
            if away := getattr(partition, "offline_replicas", None):
                offline[place] = tuple(away)
    brokers = sorted(answer.brokers, key=lambda broker: broker.node_id)
    return ClusterState(
        cluster_id=getattr(answer, "cluster_id", None),
        view=ClusterView(
            brokers=tuple(Broker(each.node_id, each.rack or None) for each in brokers),
            replicas=replicas,
            leaders=leaders,
        ),
        in_sync=in_sync,
        offline=offline,
        addresses={each.node_id: f"{each.host}:{each.port}" for each in brokers},
        topic_ids=topic_ids,
        internal=frozenset(kept),
    )


def errors_of(answer: Any) -> dict[str, int]:
    """Topic to error code, for the topics of a MetadataResponse that have one."""
    return {topic.name: topic.error_code for topic in answer.topics if topic.error_code}


def _id(topic: Any) -> str | None:
    found = getattr(topic, "topic_id", None)
    return None if found is None or str(found) == _NO_ID else str(found)
