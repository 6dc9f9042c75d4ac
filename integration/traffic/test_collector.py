"""The collector on a real cluster, held against what clients and brokers say by other means."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from pyarrow import parquet

from integration.support.collecting import (
    PARTITIONS,
    RECORDS,
    Owned,
    Rows,
    Scene,
    collect,
    collected,
    in_one_state,
    layout,
    open_source,
    read_table,
    source,
)
from integration.support.topics import committed, with_admin
from placement_core import ClusterView, TopicPartition
from rackward.clusters import Cluster
from rackward.collector import ClusterResult, Collector, HostRacks
from rackward.collector.parquet_sink import ParquetSink
from tests.support.waiting import PATIENCE, wait_until

# On containers all clients have one address, that of the engine's gateway.
pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True, scope="session")

SLOW = 120.0
"""Seconds that a process may take on a machine that has much else to do."""

GONE = "WARNING down: snapshot failed"
SNAPSHOT = re.compile(
    r"INFO up: snapshot: brokers=(\d+) partitions=(\d+) groups=(\d+) members=(\d+) "
    r"commits=(\d+)"
)
WHOLE = (6, 12, 6, 11, 61)


@pytest.fixture(scope="module")
def scene(cluster: Cluster) -> Iterator[Scene]:
    with collected(cluster) as made:
        yield made


def test_a_snapshot_says_what_clients_and_brokers_say(scene: Scene, tmp_path: Path) -> None:
    cluster, topic = scene.cluster, scene.topic
    racks = HostRacks.parse({"127.0.0.0/8": "mapped"}, "test")
    given = source(cluster, selection=scene.selection, racks=racks)
    roots: list[Path] = []

    def look() -> tuple[datetime, ClusterResult, datetime]:
        roots.append(tmp_path / str(len(roots)))
        sink, began = ParquetSink(roots[-1]), datetime.now(UTC)
        (outcome,) = Collector([given], sink, open_source, interval=60.0, seed=1).run(once=True)
        return began, outcome, datetime.now(UTC)

    (view, owned), (began, outcome, ended) = in_one_state(
        lambda: (layout(cluster, topic), scene.owned()), look
    )
    root = roots[-1]
    assert (outcome.snapshots, outcome.failures, outcome.faults) == (1, 0, 0), outcome
    tables = {
        table: read_table(root, table) for table in ("brokers", "partitions", "members", "commits")
    }
    for table, rows in tables.items():
        assert {row["cluster"] for row in rows} == {"here"}, table
        assert all(began <= row["taken_at"] <= ended for row in rows), table
    assert {row["broker"]: row["rack"] for row in tables["brokers"]} == dict(cluster.racks)
    assert {row["host"] for row in tables["brokers"]} == {"127.0.0.1"}
    _check_partitions(cluster, view, topic, tables["partitions"])
    _check_members(scene, owned, tables["members"])
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
        assert row["leader"] == view.known_leaders[ours]
        assert tuple(row["replicas"]) == view.replicas[ours]
        assert row["leader"] in row["isr"]
        assert set(row["isr"]) <= set(view.replicas[ours])
        assert row["topic_id"] == str(told["topic_id"])
        assert row["leader_epoch"] >= 0
        assert (row["start_offset"], row["end_offset"]) == (starts[place], ends[place])
        # Each record is a kilobyte that cannot be compressed, and a few bytes around it.
        assert RECORDS * 1000 <= row["size_bytes"] <= RECORDS * 1200


def _check_members(scene: Scene, owned: Owned, rows: Rows) -> None:
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
            assert assigned == owned[kind][1][name], kind
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
        common = ["--clusters", str(config), "-o", str(out), "--interval", "0.5"]
        common += ["--timeout", f"{PATIENCE:g}"]
        logs = {name: tmp_path / f"{name}.log" for name in ("victim", "other")}
        with ExitStack() as stack:
            victim = stack.enter_context(_ended(collect(*common, log=logs["victim"])))
            other = stack.enter_context(_ended(collect(*common, "--json", log=logs["other"])))
            # Each may begin long after the other does.
            for name, text in (("victim", "INFO up:"), ("other", "INFO up:"), ("other", GONE)):
                wait_until(
                    lambda name=name, text=text: text in logs[name].read_text(),  # type: ignore[misc]
                    SLOW,
                    f"the {name} of two collectors says {text}",
                )
            victim.send_signal(signal.SIGKILL)
            victim.communicate(timeout=SLOW)
            before = _files(out)
            wait_until(lambda: len(_files(out) - before) > 4, SLOW, "the other collector writes on")
            other.send_signal(signal.SIGINT)
            told, _ = other.communicate(timeout=SLOW)
    log = logs["other"].read_text()
    assert other.returncode == 128 + signal.SIGINT, log
    outcomes = {each["cluster"]: each for each in json.loads(told)["clusters"]}
    assert outcomes["up"]["snapshots"] >= 2
    assert outcomes["up"]["failures"] == 0, log
    assert outcomes["down"]["snapshots"] == 0
    assert outcomes["down"]["failures"] >= 1
    # Said once, however often it was tried.
    assert log.count(GONE) == 1
    said = [tuple(map(int, each)) for each in SNAPSHOT.findall(log)]
    # Of what it is still at when it is told to end, it may speak after it has counted.
    late = log.count("abandoned while waiting for a response")
    assert 0 <= len(said) - outcomes["up"]["snapshots"] <= late
    assert WHOLE in said
    # Only where a broker was taken for dead, because the machine is busy, something is missing.
    assert set(said) == {WHOLE} or any(brokers < WHOLE[0] for brokers, *_ in said)
    said += [tuple(map(int, each)) for each in SNAPSHOT.findall(logs["victim"].read_text())]
    snapshots = len(list(out.glob("brokers/*/snapshot-*.parquet")))
    assert snapshots > outcomes["up"]["snapshots"]
    for table, column in (("brokers", 0), ("partitions", 1), ("members", 3), ("commits", 4)):
        files = list(out.glob(f"{table}/*/snapshot-*.parquet"))
        # Whole files only: each of its table's rows of one snapshot.
        rows = [parquet.read_table(file).num_rows for file in files]
        assert set(rows) <= {each[column] for each in said}
        assert len(read_table(out, table)) == sum(rows)
        # The victim may have died between two tables.
        assert snapshots - 1 <= len(files) <= snapshots
    with _ended(collect(*common, "--cluster", f"more={dead}", "--once")) as again:
        _, log = again.communicate(timeout=SLOW)
    assert again.returncode == 1, log
    assert len(list(out.glob("brokers/*/snapshot-*.parquet"))) == snapshots + 1


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """The process, killed at the end if it still runs."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def _files(root: Path) -> set[Path]:
    """Without those that the victim left unfinished, whose names begin with a full stop."""
    return set(root.glob("*/*/snapshot-*.parquet"))
