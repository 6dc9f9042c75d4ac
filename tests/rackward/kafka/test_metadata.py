"""Metadata responses, encoded and decoded by kafka-python, as ClusterState."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataResponse

from placement_core import Broker, TopicPartition
from rackward.kafka.metadata import ClusterState, Reassignment, parse_metadata, topic_errors

TOPIC_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def partition(
    number: int, replicas: list[int], leader: int, in_sync: list[int], offline: list[int]
) -> Any:
    return MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
        error_code=0,
        partition_index=number,
        leader_id=leader,
        leader_epoch=1,
        replica_nodes=replicas,
        isr_nodes=in_sync,
        offline_replicas=offline,
    )


def topic(name: str, partitions: list[Any], *, internal: bool = False, error: int = 0) -> Any:
    return MetadataResponse.MetadataResponseTopic(
        error_code=error, name=name, topic_id=TOPIC_ID, is_internal=internal, partitions=partitions
    )


def metadata(version: int) -> Any:
    broker = MetadataResponse.MetadataResponseBroker
    response = MetadataResponse[version](
        throttle_time_ms=0,
        brokers=[
            broker(node_id=2, host="h2", port=9092, rack="b"),
            broker(node_id=0, host="h0", port=9092, rack=None),
            broker(node_id=1, host="h1", port=9092, rack=""),
        ],
        cluster_id="c",
        controller_id=1,
        topics=[
            topic("orders", [partition(1, [2, 0], -1, [], [2]), partition(0, [0, 2], 0, [0], [2])]),
            topic("__consumer_offsets", [partition(0, [1], 1, [1], [])], internal=True),
            topic("deleted", [], error=3),
        ],
    )
    return MetadataResponse[version].decode(response.encode())


@pytest.mark.parametrize("version", [9, 12])
def test_parse_metadata(version: int) -> None:
    state = parse_metadata(metadata(version))
    orders = (TopicPartition("orders", 0), TopicPartition("orders", 1))
    offsets = TopicPartition("__consumer_offsets", 0)
    assert state.cluster_id == "c"
    assert state.view.brokers == (Broker(0), Broker(1), Broker(2, "b"))
    assert list(state.view.replicas) == [offsets, *orders]
    assert state.view.replicas[orders[1]] == (2, 0)
    assert state.view.leaders == {offsets: 1, orders[0]: 0}
    assert state.leader_epochs == dict.fromkeys([offsets, *orders], 1)
    assert state.in_sync == {offsets: (1,), orders[0]: (0,), orders[1]: ()}
    assert state.addresses == {0: "h0:9092", 1: "h1:9092", 2: "h2:9092"}
    topic_id = str(TOPIC_ID) if version >= 10 else None
    assert state.topic_ids == {"__consumer_offsets": topic_id, "orders": topic_id}
    assert state.internal == {"__consumer_offsets"}
    assert topic_errors(metadata(version)) == {"deleted": 3}


def test_internal_topics_can_be_left_out() -> None:
    assert parse_metadata(metadata(12), internal=False).topics == ("orders",)


def test_state_restricted_to_some_topics() -> None:
    state = parse_metadata(metadata(12)).with_reassignments(
        {
            TopicPartition("orders", 0): Reassignment((1, 0, 2), (1,), (2,)),
            TopicPartition("elsewhere", 0): Reassignment((1,), (), ()),
        }
    )
    assert state.reassignments.keys() == {TopicPartition("orders", 0)}
    assert state.reassignments[TopicPartition("orders", 0)].target == (1, 0)
    part = state.only(["__consumer_offsets"])
    offsets = TopicPartition("__consumer_offsets", 0)
    assert part == ClusterState(
        cluster_id="c",
        view=part.view,
        in_sync={offsets: (1,)},
        addresses=state.addresses,
        topic_ids={"__consumer_offsets": str(TOPIC_ID)},
        leader_epochs={offsets: 1},
        internal=frozenset({"__consumer_offsets"}),
    )
    assert part.view.brokers == state.view.brokers
    assert part.view.replicas == {offsets: (1,)}
