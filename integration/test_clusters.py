"""What the Cluster Protocol promises, on processes and on containers alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Place

from placement_core import TopicPartition
from rackward.clusters import (
    BrokerStateError,
    Cluster,
    ClusterError,
    UnknownBrokerError,
    UnknownClientRackError,
)
from rackward.clusters.pytest_plugin import UniqueName

pytestmark = pytest.mark.everywhere

MB = 1_000_000


def eventually(what: Callable[[], bool], timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not what():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.1)


@contextmanager
def admin(cluster: Cluster) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    try:
        yield client
    finally:
        client.close()


def create(cluster: Cluster, topic: str, assignments: dict[int, list[int]]) -> None:
    with admin(cluster) as client:
        client.create_topics({topic: {"assignments": assignments}}, wait_for_metadata=True)


def produce(cluster: Cluster, topic: str, partition: int, count: int, size: int) -> None:
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers.split(","),
        acks="all",
        batch_size=64 * 1024,
        linger_ms=20,
    )
    try:
        payload = bytes(size)
        sent = [producer.send(topic, payload, partition=partition) for _ in range(count)]
        for each in sent:
            each.get(timeout=60)
    finally:
        producer.close()


def consume(cluster: Cluster, rack: str | None, topic: str, partition: int, count: int) -> int:
    """Reads `count` records through a rack's door; returns how many it got."""
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap(rack).split(","),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        group_id=None,
    )
    try:
        consumer.assign([Place(topic, partition)])
        got, deadline = 0, time.monotonic() + 60
        while got < count and time.monotonic() < deadline:
            got += sum(map(len, consumer.poll(timeout_ms=500).values()))
        return got
    finally:
        consumer.close()


def in_sync(cluster: Cluster, topic: str) -> set[int]:
    with admin(cluster) as client:
        (found,) = client.describe_topics([topic])
    return set.intersection(*(set(each["isr_nodes"]) for each in found["partitions"]))


def test_metadata_shows_every_broker_in_its_rack(cluster: Cluster) -> None:
    assert dict(cluster.racks) == {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    assert cluster.client_racks == ("a", "b", "c")
    assert cluster.view([]).racks() == dict(cluster.racks)


def test_every_door_leads_to_every_broker(cluster: Cluster) -> None:
    doors = [cluster.bootstrap(rack) for rack in (None, *cluster.client_racks)]
    assert doors[0] == cluster.bootstrap_servers
    ports = [address for door in doors for address in door.split(",")]
    assert len(set(ports)) == len(ports) == 4 * 6
    with pytest.raises(UnknownClientRackError, match=r"'d'.*'a', 'b', 'c'"):
        cluster.bootstrap("d")


def test_bytes_are_counted_for_the_rack_whose_door_they_left_by(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = unique_name("bytes")
    create(cluster, topic, {0: [2, 0, 4], 1: [5, 1, 3]})
    before = cluster.bytes_out()
    assert set(before) == {(rack, broker) for rack in "abc" for broker in range(6)}
    produce(cluster, topic, 0, 2000, 10_000)
    produced = cluster.bytes_out()
    assert sum(produced.values()) - sum(before.values()) < 0.1 * MB
    assert consume(cluster, "a", topic, 0, 2000) == 2000
    after = cluster.bytes_out()
    grown = {key: after[key] - produced[key] for key in after}
    assert grown.pop(("a", 2)) == pytest.approx(20 * MB, rel=0.05)
    assert sum(grown.values()) < 0.1 * MB


def test_reading_without_a_rack_is_counted_for_none(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = unique_name("no-rack")
    create(cluster, topic, {0: [1, 2, 5]})
    produce(cluster, topic, 0, 200, 10_000)
    before = cluster.bytes_out()
    assert consume(cluster, None, topic, 0, 200) == 200
    assert sum(cluster.bytes_out().values()) - sum(before.values()) < 0.1 * MB


def test_leaders_move_where_they_are_sent_and_back(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = unique_name("leaders")
    create(cluster, topic, {each: [each % 6, (each + 2) % 6, (each + 4) % 6] for each in range(12)})
    view = cluster.view([topic])
    wanted = {place: replicas[-1] for place, replicas in view.replicas.items()}
    cluster.move_leaders(wanted)
    moved = cluster.view([topic])
    assert moved.leaders == wanted
    assert {place: replicas[0] for place, replicas in moved.replicas.items()} == wanted
    assert all(
        sorted(moved.replicas[place]) == sorted(view.replicas[place]) for place in view.replicas
    )
    cluster.move_leaders(view.leaders)
    assert cluster.view([topic]).leaders == view.leaders


def test_leaders_do_not_move_to_strangers(cluster: Cluster, unique_name: UniqueName) -> None:
    topic = unique_name("strangers")
    create(cluster, topic, {0: [0, 1]})
    with pytest.raises(ClusterError, match="holds no replica"):
        cluster.move_leaders({TopicPartition(topic, 0): 5})
    with pytest.raises(ClusterError, match="no partition 7"):
        cluster.move_leaders({TopicPartition(topic, 7): 1})
    with pytest.raises(UnknownBrokerError, match="no broker 99"):
        cluster.move_leaders({TopicPartition(topic, 0): 99})
    assert cluster.view([unique_name("absent")]).replicas == {}


@pytest.mark.parametrize("way", ["kill", "stop"])
def test_a_broker_dies_and_comes_back_with_its_data(
    cluster: Cluster, unique_name: UniqueName, way: str
) -> None:
    # One whose only replica is on the broker, one with others to lead it.
    alone, topic = unique_name(f"{way}-alone"), unique_name(way)
    create(cluster, alone, {0: [3]})
    create(cluster, topic, {0: [3, 0, 4]})
    produce(cluster, alone, 0, 100, 100)
    door = cluster.bootstrap("b")
    end = cluster.kill_broker if way == "kill" else cluster.stop_broker
    end(3)
    try:
        with pytest.raises(BrokerStateError, match="broker 3 is dead"):
            end(3)
        assert 3 in cluster.racks
        assert {broker for _, broker in cluster.bytes_out()} == {0, 1, 2, 4, 5}
        eventually(lambda: 3 not in cluster.view([topic]).racks())
        eventually(lambda: cluster.view([topic]).leaders.get(TopicPartition(topic, 0)) == 0)
        eventually(lambda: TopicPartition(alone, 0) not in cluster.view([alone]).leaders)
        assert cluster.log(3)
    finally:
        cluster.start_broker(3)
    assert cluster.bootstrap("b") == door
    eventually(lambda: cluster.view([alone]).leaders.get(TopicPartition(alone, 0)) == 3)
    assert consume(cluster, "b", alone, 0, 100) == 100
    eventually(lambda: 3 in in_sync(cluster, topic))
    with pytest.raises(BrokerStateError, match="broker 3 is running"):
        cluster.start_broker(3)


def test_a_paused_broker_is_fenced_and_goes_on_as_the_same_process(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = unique_name("pause")
    create(cluster, topic, {0: [4, 1, 2]})
    produce(cluster, topic, 0, 100, 10_000)
    assert consume(cluster, "c", topic, 0, 100) == 100
    counted = cluster.bytes_out()["c", 4]
    cluster.pause_broker(4)
    try:
        assert ("c", 4) not in cluster.bytes_out()
        for call in (cluster.pause_broker, cluster.stop_broker, cluster.start_broker):
            with pytest.raises(BrokerStateError, match="broker 4 is paused"):
                call(4)
        eventually(lambda: cluster.view([topic]).leaders.get(TopicPartition(topic, 0)) == 1)
    finally:
        cluster.resume_broker(4)
    eventually(lambda: 4 in cluster.view([]).racks())
    assert cluster.bytes_out()["c", 4] >= counted
    eventually(lambda: 4 in in_sync(cluster, topic))
    cluster.move_leaders({TopicPartition(topic, 0): 4})


def test_a_paused_broker_can_be_killed(cluster: Cluster) -> None:
    cluster.pause_broker(5)
    cluster.kill_broker(5)
    cluster.start_broker(5)
    assert 5 in cluster.view([]).racks()


def test_a_log_tells_of_all_of_a_brokers_lives(cluster: Cluster) -> None:
    lives = cluster.log(1).count("Kafka Server started")
    assert lives >= 1
    cluster.stop_broker(1)
    assert "shut down completed" in cluster.log(1)
    cluster.start_broker(1)
    # The line comes a moment after the broker says that it serves.
    eventually(lambda: cluster.log(1).count("Kafka Server started") == lives + 1)
    with pytest.raises(UnknownBrokerError):
        cluster.log(77)
