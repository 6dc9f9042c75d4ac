"""The collector on a real cluster, compared with what client libraries and brokers report."""

from __future__ import annotations

import json
import re
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
from kafka.errors import RetriableError
from pyarrow import parquet

from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import KafkaPython, MakeClient, PartitionId, partitions_of
from integration.support.collecting import (
    Rows,
    collect,
    has_new_protocol,
    layout,
    librdkafka,
    new_protocol,
    open_source,
    read_table,
    source,
    with_stable_state,
)
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import committed, create_topic, fill, new_name, with_admin
from placement_core import ClusterView, TopicPartition
from rack_traffic.tables import SNAPSHOT_TABLES
from rackward.collector import (
    ClusterResult,
    Collector,
    HostRacks,
    ParquetSink,
    Patterns,
    Selection,
)
from rackward.collector.snapshot import collector_id
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

# On containers all clients have one address, that of the engine's gateway.
pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True, scope="session")

SLOW = 120.0
"""Seconds that a process may take on a busy machine."""

SNAPSHOT_FAILED = "WARNING down: snapshot failed"
SNAPSHOT_LINE = re.compile(
    r"INFO up: snapshot: brokers=(\d+) partitions=(\d+) groups=(\d+) members=(\d+) "
    r"commits=(\d+)"
)
COMPLETE = (6, 12, 6, 11, 61)
"""The numbers in the log line of a complete snapshot."""


PARTITIONS = 12
RECORDS = 20
"""Records of a kilobyte in each partition."""

SESSION_MS = 20_000
"""Long enough that no session expires on a busy machine. Not longer, since the others wait for the
session of a member that disappeared while it joined."""

Owned = dict[str, tuple[int, dict[str, frozenset[PartitionId]]]]
"""Kind of group -> its generation, and the partitions of each member."""


@dataclass(frozen=True)
class IdleGroups:
    """A topic, and groups of every kind that have read it to its end and keep polling."""

    cluster: Cluster
    topic: str
    groups: dict[str, ConsumerGroup]
    standalone: str
    """Id of a group without members: its consumer used ``assign``, and committed."""

    @property
    def ids(self) -> list[str]:
        """Return the ids of all groups."""
        return sorted([self.standalone, *(group.id for group in self.groups.values())])

    @property
    def selection(self) -> Selection:
        """Return a selection of these groups and this topic."""
        return Selection(Patterns(self.ids), Patterns([self.topic]))

    def owned(self) -> Owned:
        """Return the generation and the members' partitions of each group, once all are settled."""
        partitions = partitions_of(self.topic, PARTITIONS)
        owned = {kind: group.settle(partitions, hold=0.0) for kind, group in self.groups.items()}
        return {kind: (self.groups[kind].generation, each) for kind, each in owned.items()}


@pytest.fixture(scope="module")
def idle_groups(cluster: Cluster) -> Iterator[IdleGroups]:
    """Yield the groups when they have committed everything and brokers report them as stable."""
    topic = create_topic(cluster, new_name("collected"), replicas_led_from(evenly(PARTITIONS)))
    fill(cluster, topic, PARTITIONS, RECORDS, size=1000)
    kinds: dict[str, MakeClient] = {
        "builtin": KafkaPython(lambda _: [RangePartitionAssignor]),
        "rackward": KafkaPython(),
        "librdkafka": librdkafka,
        "aiokafka": AIOKafka(),
    }
    if has_new_protocol():
        kinds["new"] = new_protocol
    with ExitStack() as stack:
        groups = {}
        for kind, client in kinds.items():
            group = ConsumerGroup(
                cluster, topics=[topic], client=client, session_timeout_ms=SESSION_MS
            )
            groups[kind] = stack.enter_context(group)
            group.start(f"{kind}-a", rack="a")
            group.start(f"{kind}-b", rack="b")
        standalone = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers.split(","), group_id=new_name("standalone")
        )
        stack.callback(standalone.close)
        standalone.assign([KafkaTopicPartition(topic, 3)])
        standalone.seek(KafkaTopicPartition(topic, 3), 7)
        assert standalone.position(KafkaTopicPartition(topic, 3)) == 7
        standalone.commit()
        idle = IdleGroups(cluster, topic, groups, standalone.config["group_id"])
        idle.owned()
        for kind, group in groups.items():
            wait_until(
                lambda group=group: (  # type: ignore[misc]
                    sum(committed(cluster, group.id).values()) == PARTITIONS * RECORDS
                ),
                TEST_TIMEOUT,
                f"the group {kind} commits all records",
            )
        ids = {group.id for group in groups.values()}
        # With the new protocol, members have their assignment before the broker has their
        # acknowledgement.
        wait_until(lambda: ids <= _stable(cluster), TEST_TIMEOUT, "all groups are stable")
        yield idle


def _stable(cluster: Cluster) -> set[str]:
    try:
        listed = with_admin(cluster, lambda admin: admin.list_groups())
    except RetriableError:
        return set()
    return {each["group_id"] for each in listed if each["group_state"] == "Stable"}


def test_a_snapshot_agrees_with_clients_and_brokers(
    idle_groups: IdleGroups, tmp_path: Path
) -> None:
    cluster, topic = idle_groups.cluster, idle_groups.topic
    racks = HostRacks.parse({"127.0.0.0/8": "mapped"}, "test")
    cluster_source = source(cluster, selection=idle_groups.selection, racks=racks)
    roots: list[Path] = []

    def collect_once() -> tuple[datetime, ClusterResult, datetime]:
        roots.append(tmp_path / str(len(roots)))
        sink, began = ParquetSink(roots[-1]), datetime.now(UTC)
        (outcome,) = Collector([cluster_source], sink, open_source, interval=60.0).run(once=True)
        return began, outcome, datetime.now(UTC)

    (view, owned), (began, outcome, ended) = with_stable_state(
        lambda: (layout(cluster, topic), idle_groups.owned()), collect_once
    )
    root = roots[-1]
    assert (outcome.snapshots, outcome.failures, outcome.faults) == (1, 0, 0), outcome
    tables = {table: read_table(root, table) for table in SNAPSHOT_TABLES}
    for table, rows in tables.items():
        assert {row["cluster"] for row in rows} == {"here"}, table
        assert all(began <= row["taken_at"] <= ended for row in rows), table
    for table in ("partitions", "members", "commits"):
        assert {row["collector"] for row in tables[table]} == {collector_id()}
    assert {row["broker"]: row["rack"] for row in tables["brokers"]} == dict(cluster.racks)
    assert {row["host"] for row in tables["brokers"]} == {"127.0.0.1"}
    listeners = tables["listeners"]
    assert {row["address"] for row in listeners} == {"127.0.0.1"}
    assert {row["broker"] for row in listeners} == set(cluster.racks)
    assert None not in {row["listener"] for row in listeners}
    assert {f"127.0.0.1:{row['port']}" for row in listeners} > set(
        cluster.bootstrap_servers.split(",")
    )
    _check_partitions(cluster, view, topic, tables["partitions"])
    _check_members(idle_groups, owned, tables["members"])
    commits = {
        (row["group"], row["topic"], row["partition"]): row["committed_offset"]
        for row in tables["commits"]
    }
    assert commits == {
        (group, *tp): offset
        for group in idle_groups.ids
        for tp, offset in committed(cluster, group).items()
    }
    assert commits[idle_groups.standalone, topic, 3] == 7
    assert len(commits) == len(tables["commits"]) == PARTITIONS * len(idle_groups.groups) + 1


def _check_partitions(cluster: Cluster, view: ClusterView, topic: str, rows: Rows) -> None:
    (description,) = with_admin(cluster, lambda admin: admin.describe_topics([topic]))
    partitions = [KafkaTopicPartition(topic, partition) for partition in range(PARTITIONS)]
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers.split(","))
    try:
        starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    finally:
        consumer.close()
    assert [(row["topic"], row["partition"]) for row in rows] == [tuple(tp) for tp in partitions]
    for row, tp in zip(rows, partitions, strict=True):
        key = TopicPartition(*tp)
        assert row["leader"] == view.known_leaders[key]
        assert tuple(row["replicas"]) == view.replicas[key]
        assert row["leader"] in row["isr"]
        assert set(row["isr"]) <= set(view.replicas[key])
        assert row["topic_id"] == str(description["topic_id"])
        assert row["leader_epoch"] >= 0
        assert (row["start_offset"], row["end_offset"]) == (starts[tp], ends[tp])
        # Each record is an incompressible kilobyte, plus a few bytes of overhead.
        assert RECORDS * 1000 <= row["size_bytes"] <= RECORDS * 1200


def _check_members(idle_groups: IdleGroups, owned: Owned, rows: Rows) -> None:
    expected_fields = {
        # kafka-python's own assignors send no rack.
        "builtin": ("classic", "range", None),
        "rackward": ("classic", "leader-rack-aware-cooperative-sticky", "rack"),
        "librdkafka": ("classic", "range", "rack"),
        "aiokafka": ("classic", "leader-rack-aware-cooperative-sticky", "rack"),
        "new": ("consumer", "uniform", "rack"),
    }
    for kind, group in idle_groups.groups.items():
        members = {row["client_id"]: row for row in rows if row["group"] == group.id}
        assert sorted(members) == [f"{kind}-a", f"{kind}-b"]
        group_type, protocol, rack_field = expected_fields[kind]
        for name, row in members.items():
            assert row["group_type"] == group_type
            assert row["protocol"] == protocol
            assert row["protocol_type"] == "consumer"
            assert row["state"] == "Stable"
            assert row["host"] == "127.0.0.1"
            assert row["member_id"]
            assert row["topics"] == [idle_groups.topic]
            assigned = {
                (share["topic"], partition)
                for share in row["assignment"]
                for partition in share["partitions"]
            }
            assert assigned == owned[kind][1][name], kind
            expected = (name[-1], "subscription") if rack_field else ("mapped", "mapping")
            assert (row["rack"], row["rack_source"]) == expected, kind
        generations = {row["generation"] for row in members.values()}
        assert generations == {None} if group_type == "classic" else min(generations) > 0
    (standalone,) = (row for row in rows if row["group"] == idle_groups.standalone)
    assert standalone["member_id"] is None
    assert standalone["protocol_type"] == ""
    assert len(rows) == 2 * len(idle_groups.groups) + 1


def test_killed_collector_beside_another_and_unreachable_cluster(
    idle_groups: IdleGroups, tmp_path: Path
) -> None:
    with socket.socket() as bound:
        # Bound, but not listening: connections are refused, and no other process gets the port.
        bound.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{bound.getsockname()[1]}"
        config = tmp_path / "clusters.toml"
        config.write_text(
            f"""
            [clusters.up]
            bootstrap_servers = "{idle_groups.cluster.bootstrap_servers}"
            groups = {json.dumps(idle_groups.ids)}
            topics = ["{idle_groups.topic}"]
            requests_per_second = 200
            [clusters.down]
            bootstrap_servers = "{dead}"
            """
        )
        out = tmp_path / "out"
        common = ["--clusters", str(config), "-o", str(out), "--interval", "0.5"]
        common += ["--timeout", f"{TEST_TIMEOUT:g}"]
        logs = {name: tmp_path / f"{name}.log" for name in ("victim", "other")}
        with ExitStack() as stack:
            victim = stack.enter_context(_ended(collect(*common, log=logs["victim"])))
            other = stack.enter_context(_ended(collect(*common, "--json", log=logs["other"])))
            # One may start long after the other.
            for name, text in (
                ("victim", "INFO up:"),
                ("other", "INFO up:"),
                ("other", SNAPSHOT_FAILED),
            ):
                wait_until(
                    lambda name=name, text=text: text in logs[name].read_text(),  # type: ignore[misc]
                    SLOW,
                    f"the collector {name!r} logs {text!r}",
                )
            victim.send_signal(signal.SIGKILL)
            victim.communicate(timeout=SLOW)
            before = _files(out)
            wait_until(
                lambda: len(_files(out) - before) > 4, SLOW, "the other collector writes more files"
            )
            other.send_signal(signal.SIGINT)
            output, _ = other.communicate(timeout=SLOW)
    log = logs["other"].read_text()
    assert other.returncode == 128 + signal.SIGINT, log
    outcomes = {each["cluster"]: each for each in json.loads(output)["clusters"]}
    assert outcomes["up"]["snapshots"] >= 2
    assert outcomes["up"]["failures"] == 0, log
    assert outcomes["down"]["snapshots"] == 0
    assert outcomes["down"]["failures"] >= 1
    # Logged once, at the first of several attempts.
    assert log.count(SNAPSHOT_FAILED) == 1
    logged = [tuple(map(int, each)) for each in SNAPSHOT_LINE.findall(log)]
    # A snapshot that was in progress at the signal may be logged after the results are counted.
    late = log.count("abandoned while waiting for a response")
    assert 0 <= len(logged) - outcomes["up"]["snapshots"] <= late
    assert COMPLETE in logged
    # While a busy broker is fenced, and its groups move to another coordinator, none lists them.
    for snapshot in logged:
        assert all(a <= b for a, b in zip(snapshot, COMPLETE, strict=True)), snapshot
    logged += [tuple(map(int, each)) for each in SNAPSHOT_LINE.findall(logs["victim"].read_text())]
    snapshots = len(list(out.glob("brokers/*/snapshot-*.parquet")))
    assert snapshots > outcomes["up"]["snapshots"]
    for table, column in (("brokers", 0), ("partitions", 1), ("members", 3), ("commits", 4)):
        files = list(out.glob(f"{table}/*/snapshot-*.parquet"))
        # No file is partial: each has all rows of one snapshot of its table.
        rows = [parquet.read_table(file).num_rows for file in files]
        assert set(rows) <= {each[column] for each in logged}
        assert len(read_table(out, table)) == sum(rows)
        # The victim may have died between two tables.
        assert snapshots - 1 <= len(files) <= snapshots
    with _ended(collect(*common, "--cluster", f"more={dead}", "--once")) as again:
        _, log = again.communicate(timeout=SLOW)
    assert again.returncode == 1, log
    assert len(list(out.glob("brokers/*/snapshot-*.parquet"))) == snapshots + 1


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Yield the process; kill it at the end if it still runs."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=TEST_TIMEOUT)


def _files(root: Path) -> set[Path]:
    """Return the complete files. Names of unfinished ones begin with a full stop."""
    return set(root.glob("*/*/snapshot-*.parquet"))
