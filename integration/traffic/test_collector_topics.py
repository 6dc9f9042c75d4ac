"""The collector on a real cluster: its output topic, and a broker that dies."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.structs import OffsetAndMetadata

from integration.support.collecting import (
    Rows,
    layout,
    open_source,
    read_table,
    source,
    with_stable_state,
)
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import create_topic, fill, new_name
from placement_core import TopicPartition
from rack_traffic.tables import SNAPSHOT_TABLES
from rackward.collector import (
    ClusterSource,
    ParquetSink,
    Patterns,
    Selection,
    Snapshot,
    TopicSink,
    take_snapshot,
)
from rackward.collector.collector import Worker
from rackward.kafka import connect
from rackward.testing import Cluster
from rackward.units import Deadline
from tests.support.waiting import TEST_TIMEOUT, wait_until

# On containers all clients have one address, that of the engine's gateway.
pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True, scope="session")

PARTITIONS = 12
RECORDS = 20


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    name = create_topic(cluster, new_name("collected"), replicas_led_from(evenly(PARTITIONS)))
    fill(cluster, name, PARTITIONS, RECORDS, size=1000)
    return name


def test_snapshots_are_written_and_sent_to_a_topic(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    _, (root, messages) = with_stable_state(
        lambda: layout(cluster, topic), lambda: collect(cluster, topic, tmp_path)
    )
    assert [table for table, _ in messages] == list(SNAPSHOT_TABLES) * 2
    for table, rows in messages:
        written = read_table(root, table)
        keys = [name for name in written[0] if name != "taken_at"]
        assert [{key: row[key] for key in keys} for row in rows] == [
            {key: row[key] for key in keys} for row in written
        ], table


def collect(cluster: Cluster, topic: str, folder: Path) -> tuple[Path, list[tuple[str, Rows]]]:
    """Write one snapshot to files and send two to a topic, all of a group that has left.

    Return the folder of the files, and table and rows of each message.
    """
    out = create_topic(cluster, new_name("snapshots"), [[0, 2, 4]])
    properties = {"bootstrap.servers": cluster.bootstrap_servers}
    group = f"{out}-group"
    selection = Selection(Patterns([group]), Patterns([topic]))
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers.split(","), group_id=group)
    try:
        consumer.assign([KafkaTopicPartition(topic, number) for number in range(PARTITIONS)])
        consumer.seek_to_end()
        consumer.commit(
            {
                each: OffsetAndMetadata(consumer.position(each), "", -1)
                for each in consumer.assignment()
            }
        )
    finally:
        consumer.close()
    cluster_source = source(cluster, selection=selection)
    for sink, passes in (
        (ParquetSink(folder / out), 1),
        (TopicSink(properties, out, TEST_TIMEOUT), 2),
    ):
        worker = Worker(cluster_source, sink, open_source, _now, _no_wait)
        try:
            for _ in range(passes):
                assert worker.run_once(), worker.result
        finally:
            worker.close()
            sink.close()
    return folder / out, _messages(cluster, out)


def test_a_snapshot_lacks_only_the_data_of_a_dead_broker(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = layout(cluster, topic).known_leaders[TopicPartition(topic, 0)]
    selection = Selection(Patterns([f"{topic}-group"]), Patterns([topic]))
    source = ClusterSource("here", {}, selection)
    with connect({"bootstrap.servers": cluster.bootstrap("a")}, timeout=TEST_TIMEOUT) as admin:
        send = admin.send

        def take() -> Snapshot:
            return take_snapshot(admin, source, lambda: None, lambda host: [host])

        def send_to_victim_briefly(operation: str, request: Any, **options: Any) -> Any:
            if options.get("node") != victim:
                return send(operation, request, **options)
            with admin.within(Deadline.after(2.0)):
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
