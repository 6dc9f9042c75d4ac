"""The collector and topics, and a broker that dies, on a real cluster."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor, TrafficReporter
from integration.collecting import Rows, fill, open_source, read_table, source
from integration.racks import evenly, replicas_led_from
from integration.topics import create_topic, new_name, wait_until
from rackward.admin import connect
from rackward.clusters import Cluster
from rackward.collector import Patterns, RackMap, Selection, take_snapshot
from rackward.collector.parquet_sink import ParquetSink
from rackward.collector.topic_sink import TopicSink
from rackward.collector.worker import Worker

# On containers all clients have one address, that of the engine's gateway.
pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True, scope="session")

PARTITIONS = 12
RECORDS = 20


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    name = create_topic(cluster, new_name("collected"), replicas_led_from(evenly(PARTITIONS)))
    fill(cluster, name, PARTITIONS, RECORDS)
    return name


def only(topic: str) -> Selection:
    """That topic, and the group that reads it."""
    return Selection(Patterns([f"{topic}-group"]), Patterns([topic]))


def test_snapshots_and_exact_reports_go_to_a_topic(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    reports, out = new_name("reports"), new_name("snapshots")
    for name in (reports, out):
        create_topic(cluster, name, [[0, 2, 4]])
    properties = {"bootstrap.servers": cluster.bootstrap_servers}
    given = source(cluster, selection=only(topic), reports_topic=reports)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap("a").split(","),
        group_id=f"{topic}-group",
        auto_offset_reset="earliest",
        partition_assignment_strategy=[LeaderRackAwareCooperativeStickyAssignor(rack="a")],
    )
    worker = Worker(given, TopicSink(properties, out, 20.0), open_source, _now, _no_wait)
    files = Worker(given, ParquetSink(tmp_path), open_source, _now, _no_wait)
    try:
        with TrafficReporter(consumer, reports, every=3600.0):
            read: set[tuple[int, int]] = set()

            def reads_all() -> bool:
                for records in consumer.poll(500).values():
                    read.update((record.partition, record.offset) for record in records)
                return len(read) == PARTITIONS * RECORDS

            wait_until(reads_all, 60, "a consumer reads all that there is")
            consumer.commit()
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","))
        producer.send(reports, b"no report").get(20)
        producer.close()
        assert files.turn()
        assert worker.turn()
        assert worker.turn()
    finally:
        worker.close()
        files.close()
        consumer.close()
    found = read_table(tmp_path, "client_reports")
    sizes = {row["partition"]: row["size_bytes"] for row in read_table(tmp_path, "partitions")}
    view = cluster.view([topic])
    racks = {place.partition: cluster.racks[broker] for place, broker in view.leaders.items()}
    for row in found:
        assert row["cluster"] == "here"
        assert row["topic"] == topic
        assert row["from_rack"] == racks[row["partition"]]
        assert row["to_rack"] == "a"
        assert row["bytes"] == sizes[row["partition"]]
    assert sorted(row["partition"] for row in found) == list(range(PARTITIONS))
    assert files.outcome.faults == 1, "the message that is no report is set aside, and told"
    # What one collector has kept is not read again.
    messages = _messages(cluster, out)
    assert [table for table, _ in messages] == ["brokers", "partitions", "members", "commits"] * 2
    for table, rows in messages:
        kept = read_table(tmp_path, table)
        keys = [name for name in kept[0] if name != "taken_at"]
        assert [{key: row[key] for key in keys} for row in rows] == [
            {key: row[key] for key in keys} for row in kept
        ], table


def test_a_dead_broker_costs_what_it_alone_knows(cluster: Cluster, topic: str) -> None:
    victim = 5
    with connect({"bootstrap.servers": cluster.bootstrap("a")}, timeout=2.0) as admin:

        def snapshot() -> tuple[dict[int, object], list[str]]:
            found = take_snapshot(
                admin,
                "here",
                only(topic),
                RackMap(),
                lambda: None,
                lambda: datetime.now(UTC),
            )
            ends = {row[3]: row[9] for row in found.tables["partitions"] if row[4] == victim}
            others = [row[9] for row in found.tables["partitions"] if row[4] != victim]
            assert None not in others
            return ends, list(found.faults)  # type: ignore[return-value]

        ends, faults = snapshot()
        assert ends
        assert set(ends.values()) == {RECORDS}
        assert faults == []
        cluster.kill_broker(victim)
        try:
            ends, faults = snapshot()
            # For some seconds the others still call it a broker, and a leader; on a machine
            # that is busy enough those may be over.
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

        wait_until(reads_all, 30, f"topic {topic} is read to its end")
    finally:
        consumer.close()
    return found
