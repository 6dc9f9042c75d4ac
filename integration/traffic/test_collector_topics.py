"""The collector and topics, and a broker that dies, on a real cluster."""

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
    in_one_state,
    layout,
    open_source,
    read_table,
    source,
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
from rackward.deadline import Deadline
from tests.support.waiting import PATIENCE, wait_until

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
class Turn:
    """What two collectors have made of what a consumer reported."""

    root: Path
    """Where one of them left its files."""
    faults: int
    messages: list[tuple[str, Rows]]
    """What the other one sent to a topic."""


def test_snapshots_and_exact_reports_go_to_a_topic(
    cluster: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a client or a collector gives up for next time, or for ever, is not the matter here.
    monkeypatch.setattr("assignors.kafka_python.traffic_reporter.CLOSE_SECONDS", PATIENCE)
    monkeypatch.setattr("rackward.collector.client_reports.PATIENCE_SECONDS", PATIENCE)
    view, turn = in_one_state(
        lambda: layout(cluster, topic), lambda: read_and_collect(cluster, topic, tmp_path)
    )
    found = read_table(turn.root, "client_reports")
    sizes = {row["partition"]: row["size_bytes"] for row in read_table(turn.root, "partitions")}
    racks = {
        place.partition: cluster.racks[broker]
        for place, broker in view.known_leaders.items()
        if place.topic == topic
    }
    for row in found:
        assert row["cluster"] == "here"
        assert row["topic"] == topic
        assert row["from_rack"] == racks[row["partition"]]
        assert row["to_rack"] == "a"
        assert row["bytes"] == sizes[row["partition"]]
    assert sorted(row["partition"] for row in found) == list(range(PARTITIONS))
    assert turn.faults == 1, "the message that is no report is set aside, and told"
    # What one collector has kept is not read again.
    tables = [table for table, _ in turn.messages]
    assert tables == ["brokers", "partitions", "members", "commits"] * 2
    for table, rows in turn.messages:
        kept = read_table(turn.root, table)
        keys = [name for name in kept[0] if name != "taken_at"]
        assert [{key: row[key] for key in keys} for row in rows] == [
            {key: row[key] for key in keys} for row in kept
        ], table


def read_and_collect(cluster: Cluster, topic: str, folder: Path) -> Turn:
    """A consumer reads the topic and reports; a collector takes a turn, and another one two."""
    reports, out = new_name("reports"), new_name("snapshots")
    for name in (reports, out):
        create_topic(cluster, name, [[0, 2, 4]])
    properties = {"bootstrap.servers": cluster.bootstrap_servers}
    group = f"{reports}-group"
    selection = Selection(Patterns([group]), Patterns([topic]))
    given = source(cluster, selection=selection, reports_topic=reports)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap("a").split(","),
        group_id=group,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[LeaderRackAwareCooperativeStickyAssignor(rack="a")],
    )
    root = folder / reports
    worker = Worker(given, TopicSink(properties, out, PATIENCE), open_source, _now, _no_wait)
    files = Worker(given, ParquetSink(root), open_source, _now, _no_wait)
    try:
        with TrafficReporter(consumer, reports, every=3600.0):
            read: set[tuple[int, int]] = set()

            def reads_all() -> bool:
                for records in consumer.poll(500).values():
                    read.update((record.partition, record.offset) for record in records)
                return len(read) == PARTITIONS * RECORDS

            wait_until(reads_all, PATIENCE, "a consumer reads all that there is")
            consumer.commit()
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","))
        producer.send(reports, b"no report").get(PATIENCE)
        producer.close()
        for each in (files, worker, worker):
            assert each.run_once(), each.result
    finally:
        worker.close()
        files.close()
        consumer.close()
    return Turn(root, files.result.faults, _messages(cluster, out))


def test_a_dead_broker_costs_what_it_alone_knows(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = layout(cluster, topic).known_leaders[TopicPartition(topic, 0)]
    selection = Selection(Patterns([f"{topic}-group"]), Patterns([topic]))
    with connect({"bootstrap.servers": cluster.bootstrap("a")}, timeout=PATIENCE) as admin:
        send = admin.send

        def look() -> Snapshot:
            return take_snapshot(
                admin, "here", selection, HostRacks(), lambda: None, lambda: datetime.now(UTC)
            )

        def send_to_victim_briefly(operation: str, request: Any, **options: Any) -> Any:
            if options.get("node") == victim:
                options["deadline"] = Deadline.after(2.0)
            return send(operation, request, **options)

        def snapshot() -> tuple[dict[int, object], tuple[str, ...]]:
            _, found = in_one_state(lambda: layout(cluster, topic), look)
            ends = {row[3]: row[9] for row in found.tables["partitions"] if row[4] == victim}
            others = [row[9] for row in found.tables["partitions"] if row[4] != victim]
            assert set(others) == {RECORDS}
            # For some seconds the others still call it a broker, and a leader; on a machine
            # that is busy enough those may be over.
            assert bool(ends) == (victim in {row[1] for row in found.tables["brokers"]})
            return ends, found.faults  # type: ignore[return-value]

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
    """As fast as it goes."""


def _messages(cluster: Cluster, topic: str) -> list[tuple[str, Rows]]:
    """All messages of a topic of one partition: table and rows."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers.split(","))
    try:
        place = KafkaTopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        found: list[tuple[str, Rows]] = []

        def reads_all() -> bool:
            for records in consumer.poll(500).values():
                for record in records:
                    message = json.loads(record.value)
                    assert record.key.decode() == f"here/{message['table']}"
                    found.append((message["table"], message["rows"]))
            return bool(consumer.position(place) >= end)

        wait_until(reads_all, PATIENCE, f"topic {topic} is read to its end")
    finally:
        consumer.close()
    return found
