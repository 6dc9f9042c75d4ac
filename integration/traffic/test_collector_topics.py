"""The collector on a real cluster: its output topic, client reports, and a broker that dies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor, TrafficReporter
from integration.support.collecting import (
    Rows,
    fill,
    layout,
    open_source,
    read_table,
    source,
    with_stable_state,
)
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import create_topic, new_name
from placement_core import TopicPartition
from rackward.admin import connect
from rackward.clusters import Cluster
from rackward.collector import HostRacks, Patterns, Selection, Snapshot, take_snapshot
from rackward.collector.collector import Worker
from rackward.collector.parquet_sink import ParquetSink
from rackward.collector.topic_sink import TopicSink
from rackward.units import Deadline
from tests.support.waiting import TEST_TIMEOUT, wait_until

# On containers all clients have one address, that of the engine's gateway.
pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True, scope="session")

PARTITIONS = 12
RECORDS = 20


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    name = create_topic(cluster, new_name("collected"), replicas_led_from(evenly(PARTITIONS)))
    fill(cluster, name, PARTITIONS, RECORDS)
    return name


@dataclass(frozen=True)
class CollectedReports:
    """Output of two collectors that read the same client reports."""

    root: Path
    """Folder of the files of one of them."""
    faults: int
    messages: list[tuple[str, Rows]]
    """Table and rows of each message that the other one sent to a topic."""


def test_snapshots_and_client_reports_are_written_and_sent_to_a_topic(
    cluster: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long timeouts: reports that are dropped or postponed are not tested here.
    monkeypatch.setattr("assignors.kafka_python.traffic_reporter.CLOSE_SECONDS", TEST_TIMEOUT)
    monkeypatch.setattr("rackward.collector.client_reports.READ_SECONDS", TEST_TIMEOUT)
    view, collected = with_stable_state(
        lambda: layout(cluster, topic), lambda: read_and_collect(cluster, topic, tmp_path)
    )
    reports = read_table(collected.root, "client_reports")
    sizes = {
        row["partition"]: row["size_bytes"] for row in read_table(collected.root, "partitions")
    }
    racks = {
        tp.partition: cluster.racks[broker]
        for tp, broker in view.known_leaders.items()
        if tp.topic == topic
    }
    for row in reports:
        assert row["cluster"] == "here"
        assert row["topic"] == topic
        assert row["from_rack"] == racks[row["partition"]]
        assert row["to_rack"] == "a"
        assert row["bytes"] == sizes[row["partition"]]
    assert sorted(row["partition"] for row in reports) == list(range(PARTITIONS))
    assert collected.faults == 1, "the invalid report is skipped and counted"
    # Client reports that one collector has read are not read by the other one.
    tables = [table for table, _ in collected.messages]
    assert tables == ["brokers", "partitions", "members", "commits"] * 2
    for table, rows in collected.messages:
        written = read_table(collected.root, table)
        keys = [name for name in written[0] if name != "taken_at"]
        assert [{key: row[key] for key in keys} for row in rows] == [
            {key: row[key] for key in keys} for row in written
        ], table


def read_and_collect(cluster: Cluster, topic: str, folder: Path) -> CollectedReports:
    """Read the topic with a consumer that reports; run one collector once, another one twice."""
    reports, out = new_name("reports"), new_name("snapshots")
    for name in (reports, out):
        create_topic(cluster, name, [[0, 2, 4]])
    properties = {"bootstrap.servers": cluster.bootstrap_servers}
    group = f"{reports}-group"
    selection = Selection(Patterns([group]), Patterns([topic]))
    cluster_source = source(cluster, selection=selection, reports_topic=reports)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap("a").split(","),
        group_id=group,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[LeaderRackAwareCooperativeStickyAssignor(rack="a")],
    )
    root = folder / reports
    worker = Worker(
        cluster_source, TopicSink(properties, out, TEST_TIMEOUT), open_source, _now, _no_wait
    )
    files = Worker(cluster_source, ParquetSink(root), open_source, _now, _no_wait)
    try:
        with TrafficReporter(consumer, reports, every=3600.0):
            read: set[tuple[int, int]] = set()

            def reads_all() -> bool:
                for records in consumer.poll(500).values():
                    read.update((record.partition, record.offset) for record in records)
                return len(read) == PARTITIONS * RECORDS

            wait_until(reads_all, TEST_TIMEOUT, "the consumer reads all records")
            consumer.commit()
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","))
        producer.send(reports, b"no report").get(TEST_TIMEOUT)
        producer.close()
        for each in (files, worker, worker):
            assert each.run_once(), each.result
    finally:
        worker.close()
        files.close()
        consumer.close()
    return CollectedReports(root, files.result.faults, _messages(cluster, out))


def test_a_snapshot_lacks_only_the_data_of_a_dead_broker(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = layout(cluster, topic).known_leaders[TopicPartition(topic, 0)]
    selection = Selection(Patterns([f"{topic}-group"]), Patterns([topic]))
    with connect({"bootstrap.servers": cluster.bootstrap("a")}, timeout=TEST_TIMEOUT) as admin:
        send = admin.send

        def take() -> Snapshot:
            return take_snapshot(
                admin,
                "here",
                selection,
                HostRacks(),
                lambda: None,
                lambda: datetime.now(UTC),
                "collector",
            )

        def send_to_victim_briefly(operation: str, request: Any, **options: Any) -> Any:
            if options.get("node") == victim:
                options["deadline"] = Deadline.after(2.0)
            return send(operation, request, **options)

        def snapshot() -> tuple[dict[int, object], tuple[str, ...]]:
            _, taken = with_stable_state(lambda: layout(cluster, topic), take)
            ends = {row[3]: row[9] for row in taken.tables["partitions"] if row[4] == victim}
            others = [row[9] for row in taken.tables["partitions"] if row[4] != victim]
            assert set(others) == {RECORDS}
            # Until it is fenced, the metadata of the others has it as a broker and a leader. On a
            # busy machine the snapshot may be later than that.
            assert bool(ends) == (victim in {row[1] for row in taken.tables["brokers"]})
            return ends, taken.faults  # type: ignore[return-value]

        ends, faults = snapshot()
        assert set(ends.values()) == {RECORDS}
        assert faults == ()
        cluster.kill_broker(victim)
        try:
            monkeypatch.setattr(admin, "send", send_to_victim_briefly)
            ends, faults = snapshot()
            assert set(ends.values()) <= {None}
            assert len(faults) == (1 if ends else 0)
        finally:
            cluster.start_broker(victim)


def _now() -> float:
    return datetime.now(UTC).timestamp()


def _no_wait(_: float) -> None:
    """Do not limit the rate of requests."""


def _messages(cluster: Cluster, topic: str) -> list[tuple[str, Rows]]:
    """Return table and rows of each message of a topic with one partition."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers.split(","))
    try:
        tp = KafkaTopicPartition(topic, 0)
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        end = consumer.end_offsets([tp])[tp]
        messages: list[tuple[str, Rows]] = []

        def reads_all() -> bool:
            for records in consumer.poll(500).values():
                for record in records:
                    message = json.loads(record.value)
                    assert record.key.decode() == f"here/{message['table']}"
                    messages.append((message["table"], message["rows"]))
            return bool(consumer.position(tp) >= end)

        wait_until(reads_all, TEST_TIMEOUT, f"topic {topic} is read to its end")
    finally:
        consumer.close()
    return messages
