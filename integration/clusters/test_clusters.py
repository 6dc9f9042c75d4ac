"""The Cluster interface, on processes and on containers."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition

from integration.support.topics import create_topic, fill, with_admin
from placement_core import TopicPartition
from rackward.testing import (
    BrokerStateError,
    Cluster,
    ClusterError,
    UnknownBrokerError,
    UnknownClientRackError,
)
from rackward.testing.admin import RunningBrokers
from rackward.testing.pytest_plugin import UniqueName
from tests.support.waiting import TEST_TIMEOUT, wait_until

MB = 1_000_000


def consume(cluster: Cluster, rack: str | None, topic: str, partition: int, count: int) -> int:
    """Read ``count`` records through a rack's listener; return the number received."""
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap(rack).split(","),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        group_id=None,
    )
    try:
        consumer.assign([KafkaTopicPartition(topic, partition)])
        received, deadline = 0, time.monotonic() + 60
        while received < count and time.monotonic() < deadline:
            received += sum(map(len, consumer.poll(timeout_ms=500).values()))
        return received
    finally:
        consumer.close()


def leader(cluster: Cluster, topic: str) -> int | None:
    """Return the leader of partition 0."""
    return cluster.view([topic]).leader(TopicPartition(topic, 0))


def in_sync(cluster: Cluster, topic: str) -> set[int]:
    """Return the brokers that are in the ISR of every partition."""
    (description,) = with_admin(cluster, lambda client: client.describe_topics([topic]))
    return set.intersection(*(set(each["isr_nodes"]) for each in description["partitions"]))


@pytest.mark.everywhere
def test_metadata_shows_every_broker_in_its_rack(cluster: Cluster) -> None:
    assert dict(cluster.racks) == {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    assert cluster.client_racks == ("a", "b", "c")
    assert cluster.view([]).racks() == dict(cluster.racks)


@pytest.mark.everywhere
def test_each_listener_has_its_own_port_on_every_broker(cluster: Cluster) -> None:
    lists = [cluster.bootstrap(rack) for rack in (None, *cluster.client_racks)]
    assert lists[0] == cluster.bootstrap_servers
    addresses = [address for servers in lists for address in servers.split(",")]
    assert len(set(addresses)) == len(addresses) == 4 * 6
    with pytest.raises(UnknownClientRackError, match=r"'d'.*'a', 'b', 'c'"):
        cluster.bootstrap("d")


@pytest.mark.everywhere
def test_bytes_are_counted_for_the_rack_of_the_listener(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = unique_name("bytes")
    create_topic(cluster, topic, [[2, 0, 4], [5, 1, 3]])
    before, received = cluster.bytes_out(), cluster.bytes_in()
    assert set(before) == set(received) == {(rack, n) for rack in "abc" for n in range(6)}
    fill(cluster, topic, 1, 2000, size=10_000, rack="b")
    written = {key: size - received[key] for key, size in cluster.bytes_in().items()}
    assert written.pop(("b", 2)) == pytest.approx(20 * MB, rel=0.05)
    assert sum(written.values()) < 0.1 * MB
    produced = cluster.bytes_out()
    assert sum(produced.values()) - sum(before.values()) < 0.1 * MB
    assert consume(cluster, "a", topic, 0, 2000) == 2000
    after = cluster.bytes_out()
    grown = {key: after[key] - produced[key] for key in after}
    assert grown.pop(("a", 2)) == pytest.approx(20 * MB, rel=0.05)
    assert sum(grown.values()) < 0.1 * MB


@pytest.mark.everywhere
def test_bytes_sent_to_clients_without_a_rack_are_not_counted(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    topic = unique_name("no-rack")
    create_topic(cluster, topic, [[1, 2, 5]])
    fill(cluster, topic, 1, 200, size=10_000)
    before = cluster.bytes_out()
    assert consume(cluster, None, topic, 0, 200) == 200
    assert sum(cluster.bytes_out().values()) - sum(before.values()) < 0.1 * MB


@pytest.mark.everywhere
def test_leaders_move_and_move_back(cluster: Cluster, unique_name: UniqueName) -> None:
    topic = unique_name("leaders")
    create_topic(cluster, topic, [[p % 6, (p + 2) % 6, (p + 4) % 6] for p in range(12)])
    view = cluster.view([topic])
    leaders = {partition: replicas[-1] for partition, replicas in view.replicas.items()}
    cluster.move_leaders(leaders)
    moved = cluster.view([topic])
    assert moved.leaders == leaders
    assert {partition: replicas[0] for partition, replicas in moved.replicas.items()} == leaders
    assert all(
        sorted(moved.replicas[partition]) == sorted(replicas)
        for partition, replicas in view.replicas.items()
    )
    cluster.move_leaders(view.known_leaders)
    assert cluster.view([topic]).leaders == view.leaders


@pytest.mark.everywhere
def test_leaders_move_only_to_replicas(cluster: Cluster, unique_name: UniqueName) -> None:
    topic = unique_name("replicas")
    create_topic(cluster, topic, [[0, 1]])
    with pytest.raises(ClusterError, match="holds no replica"):
        cluster.move_leaders({TopicPartition(topic, 0): 5})
    with pytest.raises(ClusterError, match="no partition 7"):
        cluster.move_leaders({TopicPartition(topic, 7): 1})
    with pytest.raises(UnknownBrokerError, match="no broker 99"):
        cluster.move_leaders({TopicPartition(topic, 0): 99})
    assert cluster.view([unique_name("absent")]).replicas == {}


@pytest.mark.everywhere
def test_await_metadata_waits_for_every_broker(cluster: Cluster, unique_name: UniqueName) -> None:
    def create(name: str) -> None:
        with_admin(cluster, lambda client: client.create_topics([name]))

    for name in [unique_name("metadata") for _ in range(5)]:
        create(name)
        cluster.await_metadata()
        for address in cluster.bootstrap_servers.split(","):
            port = int(address.rpartition(":")[2])
            assert set(RunningBrokers([port]).view([name]).known_leaders) == {
                TopicPartition(name, 0)
            }


@pytest.mark.parametrize("method", [pytest.param("kill", marks=pytest.mark.everywhere), "stop"])
def test_a_restarted_broker_has_its_data_and_its_ports(
    cluster: Cluster, unique_name: UniqueName, method: str
) -> None:
    # One topic has its only replica on the broker, the other one has followers.
    single, topic = unique_name(f"{method}-single"), unique_name(method)
    create_topic(cluster, single, [[3]])
    create_topic(cluster, topic, [[3, 0, 4]])
    fill(cluster, single, 1, 100, size=100)
    servers = cluster.bootstrap("b")
    end_broker = cluster.kill_broker if method == "kill" else cluster.stop_broker
    end_broker(3)
    try:
        with pytest.raises(BrokerStateError, match="broker 3 is dead, but must be running"):
            end_broker(3)
        assert 3 in cluster.racks
        assert {broker for _, broker in cluster.bytes_out()} == {0, 1, 2, 4, 5}
        wait_until(
            lambda: 3 not in cluster.view([topic]).racks(), TEST_TIMEOUT, "broker 3 is fenced"
        )
        wait_until(lambda: leader(cluster, topic) == 0, TEST_TIMEOUT, "a follower leads")
        wait_until(lambda: leader(cluster, single) is None, TEST_TIMEOUT, "no leader is left")
        assert cluster.log(3)
    finally:
        cluster.start_broker(3)
    assert cluster.bootstrap("b") == servers
    wait_until(lambda: leader(cluster, single) == 3, TEST_TIMEOUT, "broker 3 leads again")
    assert consume(cluster, "b", single, 0, 100) == 100
    wait_until(lambda: 3 in in_sync(cluster, topic), TEST_TIMEOUT, "broker 3 is in sync")
    with pytest.raises(BrokerStateError, match="broker 3 is running"):
        cluster.start_broker(3)


@pytest.mark.everywhere
def test_a_paused_broker_is_fenced_and_continues(cluster: Cluster, unique_name: UniqueName) -> None:
    topic = unique_name("pause")
    create_topic(cluster, topic, [[4, 1, 2]])
    fill(cluster, topic, 1, 100, size=10_000)
    assert consume(cluster, "c", topic, 0, 100) == 100
    sent = cluster.bytes_out()["c", 4]
    cluster.pause_broker(4)
    try:
        assert ("c", 4) not in cluster.bytes_out()
        for method in (cluster.pause_broker, cluster.stop_broker, cluster.start_broker):
            with pytest.raises(BrokerStateError, match="broker 4 is paused"):
                method(4)
        wait_until(lambda: leader(cluster, topic) == 1, TEST_TIMEOUT, "a follower leads")
    finally:
        cluster.resume_broker(4)
    wait_until(lambda: 4 in cluster.view([]).racks(), TEST_TIMEOUT, "broker 4 is back")
    assert cluster.bytes_out()["c", 4] >= sent
    wait_until(lambda: 4 in in_sync(cluster, topic), TEST_TIMEOUT, "broker 4 is in sync")
    cluster.move_leaders({TopicPartition(topic, 0): 4})


def test_a_paused_broker_can_be_killed(cluster: Cluster) -> None:
    cluster.pause_broker(5)
    cluster.kill_broker(5)
    cluster.start_broker(5)
    assert 5 in cluster.view([]).racks()


def test_a_log_includes_earlier_processes_of_the_broker(cluster: Cluster) -> None:
    # The line is logged shortly after the broker serves.
    started = "Kafka Server started"
    wait_until(lambda: started in cluster.log(1), TEST_TIMEOUT, "broker 1 has logged its start")
    starts = cluster.log(1).count(started)
    cluster.stop_broker(1)
    assert "shut down completed" in cluster.log(1)
    cluster.start_broker(1)
    wait_until(
        lambda: cluster.log(1).count(started) == starts + 1,
        TEST_TIMEOUT,
        "broker 1 has started",
    )
    with pytest.raises(UnknownBrokerError):
        cluster.log(77)
