"""Records that anybody with Write on the topic of pending replicas could forge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from integration.support.controllers import (
    TAKE_OVER_SECONDS,
    RunningController,
    cluster_state,
    create_under_replicated,
    stop_brokers,
    wait_for_active,
    wait_for_replicas,
)
from integration.support.topics import create_topic
from rackward.testing import Cluster
from rackward.testing.pytest_plugin import UniqueName
from rackward.topics.pending_replicas import PENDING_REPLICAS_TOPIC
from tests.support.waiting import TEST_TIMEOUT, wait_until


def test_forged_records_remove_nothing(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    """With broker 2 down: short lists, moves, internal topics, sizes, and odd bytes."""
    full, single = unique_name("full"), unique_name("single")
    create_topic(cluster, full, [[0, 1, 2], [2, 1, 0]])
    create_topic(cluster, single, [[2]])
    with RunningController(cluster, tmp_path, "one") as one:
        wait_for_active(one)
        stop_brokers(cluster, 2)
        state = cluster_state(cluster)
        before = state.view.replicas
        internal = "__consumer_offsets"
        every = [0, 1, 2]
        # Topic, name, and fields that differ from those of a record for partition 0.
        forged: list[tuple[str, str, dict[str, Any]]] = [
            (full, "shorter", {"replication_factor": 1, "offline_replicas": every,
                               "assigned": {"0": [1]}}),
            (full, "other", {"replication_factor": 2, "offline_replicas": [2],
                             "assigned": {"0": [0, 1]}}),
            (full, "leader", {"assigned": {"0": [1, 0, 2]}}),
            (single, "moved", {"replication_factor": 1, "offline_replicas": [2],
                               "assigned": {"0": [0]}}),
            (internal, "more", {"assigned": {"0": every}}),
            (full, "huge", {"partitions": list(range(100_000))}),
            (full, "many", {"replication_factor": 1000}),
            *((full, f"large{n}", {"partitions": list(range(99_999))}) for n in range(20)),
        ]  # fmt: skip
        valid = {"version": 1, "replication_factor": 3, "partitions": [0], "layout": "",
                 "offline_replicas": [], "assigned": {}}  # fmt: skip
        values = {
            f"{topic}/{name}": json.dumps(
                {**valid, "topic": topic, "topic_id": state.topic_ids.get(topic), "id": name,
                 **fields}
            ).encode()
            for topic, name, fields in forged
        }  # fmt: skip
        values |= {f"{full}/odd": b"\xff\x00", f"{full}/deep": b"[" * 100_000}
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
        for key, value in values.items():
            producer.send(PENDING_REPLICAS_TOPIC, key=key.encode(), value=value, partition=0)
        producer.flush(TEST_TIMEOUT)
        producer.close()

        def read() -> bool:
            details = one.health()[1]
            return bool(details["topic_offsets_read"] >= details["topic_offsets"] >= len(values))

        wait_until(read, TEST_TIMEOUT, "the controller has read all records")
        # A topic that is filled afterwards shows that the controller has passed over them all.
        topic = unique_name("filled")
        create_under_replicated(cluster, topic)
        cluster.start_broker(2)
        wait_for_replicas(cluster, topic, within=TAKE_OVER_SECONDS)
        after = cluster_state(cluster).view.replicas
        assert {tp: after[tp] for tp in before} == before
        assert "is of an internal topic" in one.log
        assert "more than 1,000,000 partitions" in one.log
