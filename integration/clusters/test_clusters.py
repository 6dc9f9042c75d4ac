"""What the Cluster Protocol promises, on processes and on containers alike."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Place

from integration.support.topics import create_topic, with_admin
from placement_core import TopicPartition
from rackward.clusters import (
    BrokerStateError,
    Cluster,
    ClusterError,
    UnknownBrokerError,
    UnknownClientRackError,
    admin,
)
from rackward.clusters.pytest_plugin import UniqueName
from tests.support.waiting import PATIENCE, wait_until

MB = 1_000_000


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


def leader(cluster: Cluster, topic: str) -> int | None:
    """Who leads its first partition."""
    return cluster.view([topic]).leaders.get(TopicPartition(topic, 0))


def in_sync(cluster: Cluster, topic: str) -> set[int]:
    (found,) = with_admin(cluster, lambda client: client.describe_topics([topic]))
    return set.intersection(*(set(each["isr_nodes"]) for each in found["partitions"]))


@pytest.mark.everywhere
def test_metadata_shows_every_broker_in_its_rack(cluster: Cluster) -> None:
    assert dict(cluster.racks) == {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    assert cluster.client_racks == ("a", "b", "c")
    assert cluster.view([]).racks() == dict(cluster.racks)


@pytest.mark.everywhere
def test_every_door_leads_to_every_broker(cluster: Cluster) -> None:
    doors = [cluster.bootstrap(rack) for rack in (None, *cluster.client_racks)]
    assert doors[0] == cluster.bootstrap_servers
    ports = [address for door in doors for address in door.split(",")]
    assert len(set(ports)) == len(ports) == 4 * 6
    with pytest.raises(UnknownClientRackError, match=r"'d'.*'a', 'b', 'c'"):
        cluster.bootstrap("d")


@pytest.mark.everywhere
def test_bytes_are_counted_for_the_rack_whose_door_they_left_by(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = unique_name("bytes")
    create_topic(cluster, topic, [[2, 0, 4], [5, 1, 3]])
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


@pytest.mark.everywhere
def test_reading_without_a_rack_is_counted_for_none(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = unique_name("no-rack")
    create_topic(cluster, topic, [[1, 2, 5]])
    produce(cluster, topic, 0, 200, 10_000)
    before = cluster.bytes_out()
    assert consume(cluster, None, topic, 0, 200) == 200
    assert sum(cluster.bytes_out().values()) - sum(before.values()) < 0.1 * MB


@pytest.mark.everywhere
def test_leaders_move_where_they_are_sent_and_back(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = unique_name("leaders")
    create_topic(cluster, topic, [[p % 6, (p + 2) % 6, (p + 4) % 6] for p in range(12)])
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


@pytest.mark.everywhere
def test_leaders_do_not_move_to_strangers(cluster: Cluster, unique_name: UniqueName) -> None:
    topic = unique_name("strangers")
    create_topic(cluster, topic, [[0, 1]])
    with pytest.raises(ClusterError, match="holds no replica"):
        cluster.move_leaders({TopicPartition(topic, 0): 5})
    with pytest.raises(ClusterError, match="no partition 7"):
        cluster.move_leaders({TopicPartition(topic, 7): 1})
    with pytest.raises(UnknownBrokerError, match="no broker 99"):
        cluster.move_leaders({TopicPartition(topic, 0): 99})
    assert cluster.view([unique_name("absent")]).replicas == {}


@pytest.mark.everywhere
def test_what_was_acknowledged_is_known_to_every_broker(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    def create(name: str) -> None:
        with_admin(cluster, lambda client: client.create_topics([name]))

    for name in [unique_name("known") for _ in range(5)]:
        create(name)
        cluster.await_metadata()
        for address in cluster.bootstrap_servers.split(","):
            port = int(address.rpartition(":")[2])
            assert admin.read_view([port], [name]).leaders.keys() == {TopicPartition(name, 0)}


@pytest.mark.parametrize("way", [pytest.param("kill", marks=pytest.mark.everywhere), "stop"])
def test_a_broker_dies_and_comes_back_with_its_data(
    cluster: Cluster, unique_name: UniqueName, way: str
) -> None:
    # One whose only replica is on the broker, one with others to lead it.
    alone, topic = unique_name(f"{way}-alone"), unique_name(way)
    create_topic(cluster, alone, [[3]])
    create_topic(cluster, topic, [[3, 0, 4]])
    produce(cluster, alone, 0, 100, 100)
    door = cluster.bootstrap("b")
    end = cluster.kill_broker if way == "kill" else cluster.stop_broker
    end(3)
    try:
        with pytest.raises(BrokerStateError, match="broker 3 is dead"):
            end(3)
        assert 3 in cluster.racks
        assert {broker for _, broker in cluster.bytes_out()} == {0, 1, 2, 4, 5}
        wait_until(lambda: 3 not in cluster.view([topic]).racks(), PATIENCE, "broker 3 is fenced")
        wait_until(lambda: leader(cluster, topic) == 0, PATIENCE, "another one leads")
        wait_until(lambda: leader(cluster, alone) is None, PATIENCE, "nobody leads")
        assert cluster.log(3)
    finally:
        cluster.start_broker(3)
    assert cluster.bootstrap("b") == door
    wait_until(lambda: leader(cluster, alone) == 3, PATIENCE, "broker 3 leads again")
    assert consume(cluster, "b", alone, 0, 100) == 100
    wait_until(lambda: 3 in in_sync(cluster, topic), PATIENCE, "broker 3 is in sync")
    with pytest.raises(BrokerStateError, match="broker 3 is running"):
        cluster.start_broker(3)


@pytest.mark.everywhere
def test_a_paused_broker_is_fenced_and_goes_on_as_the_same_process(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = unique_name("pause")
    create_topic(cluster, topic, [[4, 1, 2]])
    produce(cluster, topic, 0, 100, 10_000)
    assert consume(cluster, "c", topic, 0, 100) == 100
    counted = cluster.bytes_out()["c", 4]
    cluster.pause_broker(4)
    try:
        assert ("c", 4) not in cluster.bytes_out()
        for call in (cluster.pause_broker, cluster.stop_broker, cluster.start_broker):
            with pytest.raises(BrokerStateError, match="broker 4 is paused"):
                call(4)
        wait_until(lambda: leader(cluster, topic) == 1, PATIENCE, "another one leads")
    finally:
        cluster.resume_broker(4)
    wait_until(lambda: 4 in cluster.view([]).racks(), PATIENCE, "broker 4 is back")
    assert cluster.bytes_out()["c", 4] >= counted
    wait_until(lambda: 4 in in_sync(cluster, topic), PATIENCE, "broker 4 is in sync")
    cluster.move_leaders({TopicPartition(topic, 0): 4})


def test_a_paused_broker_can_be_killed(cluster: Cluster) -> None:
    cluster.pause_broker(5)
    cluster.kill_broker(5)
    cluster.start_broker(5)
    assert 5 in cluster.view([]).racks()


def test_a_log_tells_of_all_of_a_brokers_lives(cluster: Cluster) -> None:
    # The line comes a moment after the broker says that it serves.
    started = "Kafka Server started"
    wait_until(lambda: started in cluster.log(1), PATIENCE, "broker 1 has logged its start")
    lives = cluster.log(1).count(started)
    cluster.stop_broker(1)
    assert "shut down completed" in cluster.log(1)
    cluster.start_broker(1)
    wait_until(
        lambda: cluster.log(1).count(started) == lives + 1,
        PATIENCE,
        "broker 1 has started",
    )
    with pytest.raises(UnknownBrokerError):
        cluster.log(77)
