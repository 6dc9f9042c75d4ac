"""Topics with fewer brokers than replicas (KIP-409), and the controller that adds the replicas.

The cluster has one broker in each of three racks; all of them run again after each test.
"""

from __future__ import annotations

import operator
import random
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

import pytest
from kafka import KafkaProducer

from integration.support.command_line import rackward
from integration.support.controllers import (
    FILL_SECONDS,
    RunningController,
    cluster_state,
    create_under_replicated,
    pending_keys,
    stop_brokers,
    wait_for_active,
    wait_for_replicas,
    wait_until_complete,
)
from integration.support.topics import create_topic, fill, throttle_settings
from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.controller.lease import ControllerCluster, Lease, ReconnectingAdmin
from rackward.kafka import connect, errors, read_state
from rackward.placement_service import create_replica_placement
from rackward.testing import Cluster
from rackward.testing.pytest_plugin import UniqueName
from rackward.topics.creator import confirm_pending_replicas
from rackward.topics.pending_replicas import (
    PENDING_REPLICAS_TOPIC,
    PendingReplicas,
    PendingReplicasWriter,
    ensure_topic,
    read_pending_replicas,
)
from rackward.units import Deadline
from tests.support.waiting import TEST_TIMEOUT, wait_until


def produce(cluster: Cluster, topic: str, partitions: int) -> int:
    """Send a record to each partition with acks=all; return the number of acknowledged ones."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all")
    try:
        sent = [producer.send(topic, b"x", partition=number) for number in range(partitions)]
        return sum(each.get(timeout=TEST_TIMEOUT).offset == 0 for each in sent)
    finally:
        producer.close()


def test_a_topic_gets_its_replicas_when_a_broker_returns(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    """In between, the controller is killed and started again."""
    topic, complete = unique_name("short"), unique_name("complete")
    rackward(cluster, *("topics", "create", complete, "-p", 3, "-r", 3, "--seed", 1, "--yes"))
    with RunningController(cluster, tmp_path) as first:
        wait_for_active(first)
        stop_brokers(cluster, 2)
        shape = ("--partitions", 4, "--replication-factor", 3, "--yes")
        refused = rackward(cluster, "topics", "create", topic, *shape, status=2)
        assert "replication factor 3 on 2 brokers" in refused.err
        create_under_replicated(cluster, topic)
        assert produce(cluster, topic, 4) == 4
        # For existing topics Kafka requires complete lists, with the offline broker as a replica.
        options = ("--allow-under-replicated", "--yes")
        rackward(cluster, "topics", "add-partitions", complete, "-p", 5, *options)
        rackward(cluster, "topics", "add-partitions", topic, "-p", 6, *options)

        described = rackward(cluster, "topics", "describe", topic, complete, "--json").json
        lists = {
            (each["name"], partition["partition"]): partition["replicas"]
            for each in described["topics"]
            for partition in each["partitions"]
        }
        short = [row for (name, number), row in lists.items() if name == topic or number >= 3]
        assert len(short) == 8
        assert all(sorted(row) == [-1, 0, 1] and row[-1] == -1 for row in short)
        (finding,) = [
            each["message"]
            for each in described["findings"]
            if each["kind"] == "waiting for brokers" and each["subject"] == topic
        ]
        assert "2 live brokers in racks a, b, but 3 are needed: start 1 more" in finding
        checked = rackward(cluster, "placement", "check", "--topics", topic, status=1)
        assert "placeholders for 1 replica each" in checked.out

        placement = create_replica_placement(first.service, 2, 3, timeout=TEST_TIMEOUT)
        assert [row[-1] for row in placement] == [-1, -1]
        first.kill()
    with RunningController(cluster, tmp_path) as second:
        # It is active before the broker is started.
        wait_for_active(second)
        cluster.start_broker(2)
        state = wait_for_replicas(cluster, topic, complete, within=FILL_SECONDS)
        assert sum(tp.topic == topic for tp in state.view.replicas) == 6
        wait_until_complete(cluster)
        assert "throttling replication to 50.0 MB per second" in second.log
        assert "throttle removed" in second.log
        assert second.stop() == 130
    described = rackward(cluster, "topics", "describe", topic)
    assert "-1" not in described.out.replace("--", "")
    assert "healthy" in described.out


def test_fewer_live_brokers_than_min_insync_replicas_are_refused(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = unique_name("refused")
    options = ("-p", 2, "-r", 3, "--seed", 1, "--allow-under-replicated")
    stop_brokers(cluster, 1, 2)
    try:
        two = ("--config", "min.insync.replicas=2")
        refused = rackward(cluster, "topics", "create", topic, *options, *two, "--yes", status=2)
        assert "2 in-sync replicas are needed" in refused.err
        assert "1 live brokers (broker 0)" in refused.err
        assert topic not in cluster_state(cluster).topic_ids
        one = ("--config", "min.insync.replicas=1", "--yes", "--json")
        created = rackward(cluster, "topics", "create", topic, *options, *one).json
        assert created["topics"][0]["replicas"] == {"0": [0, -1, -2], "1": [0, -1, -2]}
        described = rackward(cluster, "topics", "describe", topic)
        assert described.out.count("0:a -1 -2") == 2
        assert "3 are needed: start 2 more" in described.out
        assert produce(cluster, topic, 2) == 2
    finally:
        cluster.start_broker(1)
        cluster.start_broker(2)


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Yield the ``host:port`` of a server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_the_record_of_a_topic_that_was_not_created_is_deleted(
    cluster: Cluster,
    unique_name: UniqueName,
    silent_server: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first bootstrap server accepts connections and is silent."""
    monkeypatch.setattr(errors, "STEP_SECONDS", 0.5)
    # kafka-python takes one of its servers at random, and spends all of its time on that one.
    monkeypatch.setattr(random, "shuffle", lambda _: None)
    monkeypatch.setattr(random, "choice", operator.itemgetter(0))
    refused, created = unique_name("refused"), unique_name("created")
    properties = {"bootstrap.servers": f"{silent_server},{cluster.bootstrap_servers}"}
    records = [
        PendingReplicas("id", topic, None, replication_factor=3, partitions=(0,), layout="")
        for topic in (refused, created)
    ]
    with (
        connect(properties) as admin,
        closing(PendingReplicasWriter(properties, TEST_TIMEOUT)) as writer,
    ):
        ensure_topic(admin, read_state(admin, [PENDING_REPLICAS_TOPIC], reassignments=False))
        writer.write(records)
        assert len(pending_keys(cluster, refused)) == 1
        create_topic(cluster, created, [[0, 1]])
        confirm_pending_replicas(admin, writer, records, [refused])
        assert pending_keys(cluster, refused) == []
        record = read_pending_replicas(properties, TEST_TIMEOUT).records[f"{created}/id"]
        assert record.topic_id == cluster_state(cluster).topic_ids[created]
        confirm_pending_replicas(admin, writer, records, [refused, created])
    assert pending_keys(cluster, created) == []


class ConfirmedLease:
    """A lease that no other controller takes."""

    @contextmanager
    def fenced(self, operation: str) -> Iterator[Deadline]:  # noqa: ARG002
        yield Deadline.after(TEST_TIMEOUT)


def test_only_replicas_that_are_being_copied_stay_throttled(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = create_topic(cluster, unique_name("large"), [[0]] * 3)
    fill(cluster, topic, 1, 3000, size=1000)
    admin = ReconnectingAdmin({"bootstrap.servers": cluster.bootstrap_servers}, TEST_TIMEOUT)
    changes = ControllerCluster(admin, cast("Lease", ConfirmedLease()))
    moves = [Move(TopicPartition(topic, number), (0,), (0, 1)) for number in range(3)]
    with closing(changes):
        try:
            for move in moves:
                changes.throttle(10_000, [move])
                changes.reassign({move.partition: move.after})
                wait_until(
                    lambda: cluster_state(cluster).reassignments.keys() <= {moves[0].partition},
                    TEST_TIMEOUT,
                    "empty partitions are copied",
                )
            listed = throttle_settings(cluster)["topic", topic]
            assert listed["follower.replication.throttled.replicas"] == "00:1,02:1"
        finally:
            changes.reassign({moves[0].partition: None})
            wait_until(
                lambda: not changes.remove_throttle(), TEST_TIMEOUT, "the throttle is removed"
            )
    assert throttle_settings(cluster) == {}


@pytest.mark.slow
def test_replication_is_throttled(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    topic = unique_name("throttled")
    with RunningController(cluster, tmp_path, throttle="300kB") as running:
        wait_for_active(running)
        stop_brokers(cluster, 2)
        create_under_replicated(cluster, topic)
        fill(cluster, topic, 4, 3000, size=1000)
        cluster.start_broker(2)
        wait_until(
            lambda: cluster_state(cluster).reassignments != {},
            FILL_SECONDS,
            "replicas are being added",
        )
        started = time.monotonic()
        wait_for_replicas(cluster, topic, within=4 * FILL_SECONDS)
        # 12 MB at 300 kB per second, except for the first 4 MB, which Kafka does not throttle.
        assert time.monotonic() - started > 15
        wait_until_complete(cluster)
        assert running.stop() == 130
