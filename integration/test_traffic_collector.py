"""The collector on a real cluster, held against what clients and brokers say by other means."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor

from integration.aiokafka_client import AIOKafka
from integration.clients import KafkaPython, MakeClient
from integration.collecting import (
    Rows,
    collect,
    fill,
    librdkafka,
    new_protocol,
    open_source,
    read_table,
    source,
)
from integration.groups import ConsumerGroup, Place
from integration.racks import evenly, replicas_led_from
from integration.topics import committed, create_topic, new_name, wait_until, with_admin
from placement_core import ClusterView, TopicPartition
from rackward.clusters import Cluster
from rackward.collector import Collector, Patterns, Selection, parse_rack_map
from rackward.collector.parquet_sink import ParquetSink

# On containers all clients have one address, that of the engine's gateway.
pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True, scope="session")

SLOW = 120.0
"""Seconds that a process may take on a machine that has much else to do."""

PARTITIONS = 12
RECORDS = 20
"""Of each partition, a kilobyte each."""


@dataclass(frozen=True)
class Scene:
    """A topic that several groups have read to its end, and go on reading."""

    cluster: Cluster
    topic: str
    groups: dict[str, ConsumerGroup]
    owned: dict[str, dict[str, frozenset[Place]]]
    alone: str
    """A group whose consumer assigned partitions to itself, committed, and left."""

    @property
    def ids(self) -> list[str]:
        return sorted([self.alone, *(group.id for group in self.groups.values())])

    @property
    def selection(self) -> Selection:
        return Selection(Patterns(self.ids), Patterns([self.topic]))


@pytest.fixture(scope="module")
def scene(cluster: Cluster) -> Iterator[Scene]:
    topic = create_topic(cluster, new_name("collected"), replicas_led_from(evenly(PARTITIONS)))
    places = {(topic, partition) for partition in range(PARTITIONS)}
    fill(cluster, topic, PARTITIONS, RECORDS)
    kinds: dict[str, MakeClient] = {
        "builtin": KafkaPython(lambda _: [RangePartitionAssignor]),
        "ours": KafkaPython(),
        "librdkafka": librdkafka,
        "aiokafka": AIOKafka(),
        "new": new_protocol,
    }
    with ExitStack() as stack:
        groups = {}
        for kind, client in kinds.items():
            group = ConsumerGroup(cluster, topics=[topic], client=client)
            groups[kind] = stack.enter_context(group)
            group.start(f"{kind}-a", rack="a")
            group.start(f"{kind}-b", rack="b")
        alone = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers.split(","), group_id=new_name("alone")
        )
        stack.callback(alone.close)
        alone.assign([KafkaTopicPartition(topic, 3)])
        alone.seek(KafkaTopicPartition(topic, 3), 7)
        assert alone.position(KafkaTopicPartition(topic, 3)) == 7
        alone.commit()
        owned = {kind: group.settle(places, within=60) for kind, group in groups.items()}
        for kind, group in groups.items():
            wait_until(
                lambda group=group: (  # type: ignore[misc]
                    sum(committed(cluster, group.id).values()) == PARTITIONS * RECORDS
                ),
                30,
                f"the group {kind} commits all that there is",
            )
        yield Scene(cluster, topic, groups, owned, alone.config["group_id"])


def test_a_snapshot_says_what_clients_and_brokers_say(scene: Scene, tmp_path: Path) -> None:
    cluster, topic = scene.cluster, scene.topic
    racks = parse_rack_map({"127.0.0.0/8": "mapped"}, "test")
    given = source(cluster, selection=scene.selection, racks=racks)
    # On a busy machine leaders move by themselves: what is compared has to be of one layout.
    for attempt in range(10):
        root = tmp_path / str(attempt)
        before = cluster.view([topic])
        began = datetime.now(UTC)
        (outcome,) = Collector([given], ParquetSink(root), open_source, interval=60.0, seed=1).run(
            once=True
        )
        ended = datetime.now(UTC)
        if cluster.view([topic]) == before:
            break
    else:
        raise AssertionError("leaders moved during each of ten snapshots")
    assert (outcome.snapshots, outcome.failures, outcome.faults) == (1, 0, 0)
    tables = {
        table: read_table(root, table) for table in ("brokers", "partitions", "members", "commits")
    }
    for table, rows in tables.items():
        assert {row["cluster"] for row in rows} == {"here"}, table
        assert all(began <= row["taken_at"] <= ended for row in rows), table
    assert {row["broker"]: row["rack"] for row in tables["brokers"]} == dict(cluster.racks)
    assert {row["host"] for row in tables["brokers"]} == {"127.0.0.1"}
    _check_partitions(cluster, before, topic, tables["partitions"])
    _check_members(scene, tables["members"])
    commits = {
        (row["group"], row["topic"], row["partition"]): row["committed_offset"]
        for row in tables["commits"]
    }
    assert commits == {
        (group, *place): offset
        for group in scene.ids
        for place, offset in committed(cluster, group).items()
    }
    assert commits[scene.alone, topic, 3] == 7
    assert len(commits) == len(tables["commits"]) == PARTITIONS * len(scene.groups) + 1


def _check_partitions(cluster: Cluster, view: ClusterView, topic: str, rows: Rows) -> None:
    (told,) = with_admin(cluster, lambda admin: admin.describe_topics([topic]))
    places = [KafkaTopicPartition(topic, partition) for partition in range(PARTITIONS)]
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers.split(","))
    try:
        starts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
    finally:
        consumer.close()
    assert [(row["topic"], row["partition"]) for row in rows] == [tuple(place) for place in places]
    for row, place in zip(rows, places, strict=True):
        ours = TopicPartition(*place)
        assert row["leader"] == view.leaders[ours]
        assert tuple(row["replicas"]) == view.replicas[ours]
        assert row["leader"] in row["isr"]
        assert set(row["isr"]) <= set(view.replicas[ours])
        assert row["topic_id"] == str(told["topic_id"])
        assert row["leader_epoch"] >= 0
        assert (row["start_offset"], row["end_offset"]) == (starts[place], ends[place])
        # Each record is a kilobyte that cannot be compressed, and a few bytes around it.
        assert RECORDS * 1000 <= row["size_bytes"] <= RECORDS * 1200


def _check_members(scene: Scene, rows: Rows) -> None:
    said = {
        # Apache's own assignors for these clients say nothing of a rack.
        "builtin": ("classic", "range", None),
        "ours": ("classic", "leader-rack-aware-cooperative-sticky", "rack"),
        "librdkafka": ("classic", "range", "rack"),
        "aiokafka": ("classic", "leader-rack-aware-cooperative-sticky", "rack"),
        "new": ("consumer", "uniform", "rack"),
    }
    for kind, group in scene.groups.items():
        found = {row["client_id"]: row for row in rows if row["group"] == group.id}
        assert sorted(found) == [f"{kind}-a", f"{kind}-b"]
        group_type, protocol, says_rack = said[kind]
        for name, row in found.items():
            assert row["group_type"] == group_type
            assert row["protocol"] == protocol
            assert row["protocol_type"] == "consumer"
            assert row["state"] == "Stable"
            assert row["host"] == "127.0.0.1"
            assert row["member_id"]
            assert row["topics"] == [scene.topic]
            assigned = {
                (share["topic"], partition)
                for share in row["assignment"]
                for partition in share["partitions"]
            }
            assert assigned == scene.owned[kind][name], kind
            expected = (name[-1], "subscription") if says_rack else ("mapped", "mapping")
            assert (row["rack"], row["rack_source"]) == expected, kind
        generations = {row["generation"] for row in found.values()}
        assert generations == {None} if group_type == "classic" else min(generations) > 0
    (alone,) = (row for row in rows if row["group"] == scene.alone)
    assert alone["member_id"] is None
    assert alone["protocol_type"] == ""
    assert len(rows) == 2 * len(scene.groups) + 1


def test_two_collectors_at_once_one_of_them_killed_and_a_cluster_that_is_down(
    scene: Scene, tmp_path: Path
) -> None:
    with socket.socket() as bound:
        # Bound and not listened to: nobody else takes the port meanwhile.
        bound.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{bound.getsockname()[1]}"
        config = tmp_path / "clusters.toml"
        config.write_text(
            f"""
            [clusters.up]
            bootstrap_servers = "{scene.cluster.bootstrap_servers}"
            groups = {json.dumps(scene.ids)}
            topics = ["{scene.topic}"]
            requests_per_second = 200
            [clusters.down]
            bootstrap_servers = "{dead}"
            """
        )
        out = tmp_path / "out"
        common = ("--clusters", str(config), "-o", str(out), "--interval", "0.5")
        with ExitStack() as stack:
            victim = stack.enter_context(_ended(collect(*common)))
            other = stack.enter_context(_ended(collect(*common, "--json")))
            wait_until(
                lambda: len(list(out.glob("commits/*/snapshot-up-*.parquet"))) >= 4,
                SLOW,
                "two collectors write four snapshots",
            )
            victim.send_signal(signal.SIGKILL)
            before = _files(out)
            wait_until(lambda: len(_files(out) - before) > 4, SLOW, "the other collector writes on")
            other.send_signal(signal.SIGINT)
            told, log = other.communicate(timeout=SLOW)
    assert other.returncode == 128 + signal.SIGINT, log
    outcomes = {each["cluster"]: each for each in json.loads(told)["clusters"]}
    assert outcomes["up"]["snapshots"] >= 2
    assert outcomes["up"]["failures"] == 0
    assert outcomes["down"]["snapshots"] == 0
    assert outcomes["down"]["failures"] >= 1
    # Said once, however often it was tried.
    assert log.count("WARNING down: no snapshot") == 1
    assert (
        log.count("INFO up: 6 brokers, 12 partitions, 6 groups, 11 rows of members")
        == (outcomes["up"]["snapshots"])
    )
    snapshots = len(list(out.glob("brokers/*/*.parquet")))
    assert snapshots > outcomes["up"]["snapshots"]
    # Whole files only: each of its table's rows of one snapshot.
    assert len(read_table(out, "brokers")) == 6 * snapshots
    for table, rows in (("partitions", 12), ("members", 11), ("commits", 61)):
        files = len(list(out.glob(f"{table}/*/*.parquet")))
        assert len(read_table(out, table)) == rows * files
        # The victim may have died between two tables.
        assert snapshots - 1 <= files <= snapshots
    again = collect(*common, "--cluster", f"more={dead}", "--once")
    _, log = again.communicate(timeout=SLOW)
    assert again.returncode == 1, log
    assert len(list(out.glob("brokers/*/*.parquet"))) == snapshots + 1


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """The process, killed at the end if it still runs."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


def _files(root: Path) -> set[Path]:
    return set(root.glob("*/*/*.parquet"))
