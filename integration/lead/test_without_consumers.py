"""Groups whose consumers have all stopped: their offsets are kept, and can be changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial

import confluent_kafka
import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.structs import OffsetAndMetadata

from integration.support.leading import (
    MAPPING,
    membership_times,
    wait_for_status,
    wait_until_leading,
)
from integration.support.topics import (
    committed,
    create_topic,
    described,
    new_name,
    with_admin,
)
from rackward.groups.readers import find_groups
from rackward.kafka import connect
from rackward.lead import GroupLeader, LeadOptions, match_groups
from rackward.testing import Cluster, LocalCluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

HEARTBEAT_SECONDS = 0.2

RETENTION_SECONDS = 60.0
"""The shortest offsets.retention.minutes."""


@pytest.fixture
def forgetful() -> Iterator[Cluster]:
    """A cluster that deletes offsets after a minute."""
    properties = {
        "offsets.retention.minutes": "1",
        "offsets.retention.check.interval.ms": "500",
    }
    with LocalCluster(["a"], server_properties=properties) as cluster:
        yield cluster


def consume_and_commit(cluster: Cluster, group: str, topic: str) -> confluent_kafka.Consumer:
    """Return a member of the group that has committed offset 7 of partition 0."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
        }
    )
    consumer.subscribe([topic])
    wait_until(
        lambda: consumer.poll(0.1) is None and bool(consumer.assignment()),
        TEST_TIMEOUT,
        "the consumer has partitions",
    )
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 7)], asynchronous=False)
    return consumer


def state(cluster: Cluster, group: str) -> str:
    return str(described(cluster, group)[0]["group_state"])


@pytest.mark.slow
def test_offsets_outlive_a_stop_of_all_consumers(forgetful: Cluster) -> None:
    """Their retention begins when the last consumer stops, however old the commits are."""
    topic = create_topic(forgetful, new_name("led"), [[0]])
    group = new_name("group")
    options = LeadOptions(host_racks=MAPPING)
    properties = {"bootstrap.servers": forgetful.bootstrap_servers}
    consumer = consume_and_commit(forgetful, group, topic)
    with membership_times(alone=2.0), GroupLeader(properties, [group], options):
        stopped_at = time.monotonic() + RETENTION_SECONDS + 2
        while time.monotonic() < stopped_at:
            consumer.poll(0.5)
        consumer.close()
        for _ in range(10):
            assert committed(forgetful, group) == {(topic, 0): 7}
            time.sleep(1.0)


def test_a_group_without_consumers_is_left_and_joined_again(
    shared_three_brokers: Cluster,
) -> None:
    cluster = shared_three_brokers
    topic = create_topic(cluster, new_name("led"), [[0]])
    group = new_name("group")
    options = LeadOptions(host_racks=MAPPING)
    properties = {"bootstrap.servers": cluster.bootstrap_servers}
    with (
        membership_times(alone=2.0, heartbeat=HEARTBEAT_SECONDS),
        GroupLeader(properties, [group], options) as leader,
    ):
        wait_until_leading(leader)
        # Not stable: brokers delete offsets of stable groups whose members read other topics.
        assert state(cluster, group) == "CompletingRebalance"
        consumer = consume_and_commit(cluster, group, topic)
        assert leader.status()[0].leads
        consumer.close()
        wait_for_status(leader, lambda each: each.reason == "it has no consumers", "it has left")
        assert state(cluster, group) == "Empty"
        reset = {TopicPartition(topic, 0): OffsetAndMetadata(3, "", -1)}
        with_admin(
            cluster, partial(KafkaAdminClient.alter_group_offsets, group_id=group, offsets=reset)
        )
        assert committed(cluster, group) == {(topic, 0): 3}
        with_admin(cluster, partial(KafkaAdminClient.delete_groups, group_ids=[group]))
        wait_for_status(
            leader, lambda each: each.reason == "no such group: check the name", "it is gone"
        )
        time.sleep(5 * HEARTBEAT_SECONDS)
        with connect({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            assert find_groups(admin, cluster.racks, [group]) == {}
        # It comes back with the next consumer, and leads once that one has left.
        consumer = consume_and_commit(cluster, group, topic)
        wait_until(
            lambda: consumer.poll(0.1) is None and leader.status()[0].state == "waiting",
            TEST_TIMEOUT,
            "it is back",
        )
        consumer.close()
        wait_until_leading(leader)


def test_patterns_match_groups_with_members_only(
    shared_three_brokers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rackward.lead.leader.SCAN_SECONDS", 0.5)
    cluster = shared_three_brokers
    properties = {"bootstrap.servers": cluster.bootstrap_servers}
    topic = create_topic(cluster, new_name("led"), [[0]])
    stem = new_name("pattern")
    consume_and_commit(cluster, f"{stem}-empty", topic).close()
    consumer = consume_and_commit(cluster, f"{stem}-live", topic)
    try:
        with connect(properties) as admin:
            assert match_groups(admin, [f"{stem}-*"]) == [f"{stem}-live"]
            assert match_groups(admin, [f"{stem}-empty"]) == [f"{stem}-empty"]
        leader = GroupLeader(properties, [f"{stem}-*"])
        running = threading.Thread(target=leader.run)
        running.start()
        try:
            _wait_for_groups(leader, f"{stem}-live")
            late = consume_and_commit(cluster, f"{stem}-late", topic)
            _wait_for_groups(leader, f"{stem}-late", f"{stem}-live")
            late.close()
        finally:
            leader.stop()
            running.join(TEST_TIMEOUT)
        assert not running.is_alive()
    finally:
        consumer.close()


def _wait_for_groups(leader: GroupLeader, *names: str) -> None:
    wait_until(
        lambda: tuple(status.group for status in leader.status()) == names,
        TEST_TIMEOUT,
        f"the groups are {names}",
    )
