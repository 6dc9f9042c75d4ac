"""Topics on fewer brokers than replicas, KIP-409, and the controller that fills them.

A cluster of three racks with a broker each; the tests leave it whole.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from integration.support.collecting import fill
from integration.support.command_line import rackward
from integration.support.controllers import (
    FILL_SECONDS,
    await_full,
    await_holder,
    await_kept,
    controller,
    create,
    intents_left,
    look,
    produce,
    stop,
)
from integration.support.topics import create_topic
from rackward.admin import connect
from rackward.clusters import Cluster
from rackward.clusters.pytest_plugin import UniqueName
from rackward.controller.pending_replicas import Intent, read_intents
from rackward.placement_service import create_replica_placement
from rackward.topics.creator import Promises
from tests.support.waiting import PATIENCE, wait_until


@pytest.fixture
def cluster(three_brokers: Cluster) -> Cluster:
    """Brokers 0, 1 and 2 in racks a, b and c."""
    return three_brokers


def test_a_topic_made_while_a_broker_is_down_is_filled_when_it_returns(
    cluster: Cluster, unique_name: UniqueName, tmp_path: Path
) -> None:
    """Also by a controller that was killed and started again meanwhile."""
    topic, whole = unique_name("short"), unique_name("whole")
    rackward(cluster, *("topics", "create", whole, "-p", 3, "-r", 3, "--seed", 1, "--yes"))
    with controller(cluster, tmp_path) as first:
        await_holder(first)
        stop(cluster, 2)
        shape = ("--partitions", 4, "--replication-factor", 3, "--yes")
        refused = rackward(cluster, "topics", "create", topic, *shape, status=2)
        assert "replication factor 3 on 2 brokers" in refused.err
        create(cluster, topic)
        assert produce(cluster, topic, 4) == 4
        # Kafka takes no shorter lists for an old topic: the broker that is down stands in.
        more = ("--allow-under-replicated", "--yes")
        rackward(cluster, "topics", "add-partitions", whole, "-p", 5, *more)
        rackward(cluster, "topics", "add-partitions", topic, "-p", 6, *more)

        told = rackward(cluster, "topics", "describe", topic, whole, "--json").json
        lists = {
            (each["name"], one["partition"]): one["replicas"]
            for each in told["topics"]
            for one in each["partitions"]
        }
        short = [row for (name, number), row in lists.items() if name == topic or number >= 3]
        assert len(short) == 8
        assert all(sorted(row) == [-1, 0, 1] and row[-1] == -1 for row in short)
        (finding,) = [
            each["message"]
            for each in told["findings"]
            if each["kind"] == "placeholders" and each["subject"] == topic
        ]
        assert "there are 2 live brokers in racks a, b, and 3 are needed: start 1 more" in finding
        checked = rackward(cluster, "placement", "check", "--topics", topic, status=1)
        assert "placeholders for 1 replica each" in checked.out

        # The service knows what is missing, too.
        placed = create_replica_placement(first.service, 2, 3, timeout=PATIENCE)
        assert [row[-1] for row in placed] == [-1, -1]
        first.kill()
    with controller(cluster, tmp_path) as second:
        # It has asked who there is before the broker is back.
        await_holder(second)
        cluster.start_broker(2)
        state = await_full(cluster, topic, whole, within=FILL_SECONDS)
        assert sum(place.topic == topic for place in state.view.replicas) == 6
        await_kept(cluster)
        assert "brokers copy at most 50 MB per second" in second.log
        assert "the throttle is lifted" in second.log
        assert second.stop() == 130
    described = rackward(cluster, "topics", "describe", topic)
    assert "-1" not in described.out.replace("--", "")
    assert "healthy" in described.out


def test_what_could_not_be_written_is_refused(cluster: Cluster, unique_name: UniqueName) -> None:
    topic = unique_name("refused")
    options = ("-p", 2, "-r", 3, "--seed", 1, "--allow-under-replicated")
    stop(cluster, 1, 2)
    try:
        two = ("--config", "min.insync.replicas=2")
        refused = rackward(cluster, "topics", "create", topic, *options, *two, "--yes", status=2)
        assert "2 replicas in sync are needed to write" in refused.err
        assert "the live brokers are 1 (broker 0)" in refused.err
        assert topic not in look(cluster).topic_ids
        one = ("--config", "min.insync.replicas=1", "--yes", "--json")
        told = rackward(cluster, "topics", "create", topic, *options, *one).json
        assert told["topics"][0]["replicas"] == {"0": [0, -1, -2], "1": [0, -1, -2]}
        described = rackward(cluster, "topics", "describe", topic)
        assert described.out.count("0:a -1 -2") == 2
        assert "3 are needed: start 2 more" in described.out
        assert produce(cluster, topic, 2) == 2
    finally:
        cluster.start_broker(1)
        cluster.start_broker(2)


def test_what_was_promised_to_a_topic_that_was_not_made_is_taken_back(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    refused, made = unique_name("refused"), unique_name("made")
    properties = {"bootstrap.servers": cluster.bootstrap_servers}
    promised = [
        Intent("id", topic, None, replication_factor=3, open=(0,), layout="")
        for topic in (refused, made)
    ]
    with connect(properties) as admin, closing(Promises(properties, promised)) as promises:
        promises.record(admin)
        assert len(intents_left(cluster, refused)) == 1
        create_topic(cluster, made, [[0, 1]])
        promises.settle(admin, [refused])
        assert intents_left(cluster, refused) == []
        kept = read_intents(properties, PATIENCE).intents[f"{made}/id"]
        assert kept.topic_id == look(cluster).topic_ids[made]
        promises.settle(admin, [refused, made])
    assert intents_left(cluster, made) == []


@pytest.mark.slow
def test_a_fill_is_throttled(cluster: Cluster, unique_name: UniqueName, tmp_path: Path) -> None:
    topic = unique_name("throttled")
    with controller(cluster, tmp_path, throttle="300kB") as running:
        await_holder(running)
        stop(cluster, 2)
        create(cluster, topic)
        fill(cluster, topic, 4, 3000)
        cluster.start_broker(2)
        wait_until(lambda: look(cluster).ongoing != {}, FILL_SECONDS, "it is being filled")
        began = time.monotonic()
        await_full(cluster, topic, within=4 * FILL_SECONDS)
        # 12 MB at 300 kB a second, but for the 4 MB that Kafka sends at once.
        assert time.monotonic() - began > 15
        await_kept(cluster)
        assert running.stop() == 130
