"""Groups of other kinds than plain consumers': what lead, explain, audit and plans do with them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from integration.support.clients import MakeClient
from integration.support.command_line import one_line, rackward
from integration.support.groups import ConsumerGroup
from integration.support.java_programs import (
    RACKS,
    ShareConsumer,
    Streams,
    has_javac,
    sink_connector,
)
from integration.support.leading import (
    leading,
    live_group,
    membership_times,
    wait_for_status,
    wait_until_leading,
)
from integration.support.topics import create_topic, fill, new_name
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import current_readers, find_groups, is_stable
from rackward.kafka import connect
from rackward.kafka.groups import GroupKind
from rackward.lead import GroupLeader, TakeOver, TakeOverPolicy
from rackward.testing import Cluster
from rackward.testing.kafka_jars import default_version
from tests.support.waiting import TEST_TIMEOUT, wait_until

PARTITIONS = 12
REPLICAS = [[(p * 7) % 3, (p * 7 + 1) % 3, (p * 7 + 2) % 3] for p in range(PARTITIONS)]
"""Leaders in all racks, four in each."""

COMMIT_SECONDS = 0.2

needs_4_2 = pytest.mark.skipif(
    tuple(map(int, default_version().split(".")[:2])) < (4, 2),
    reason="share groups and streams groups are on by default from Kafka 4.2 on",
)


@pytest.fixture
def topic(shared_three_brokers: Cluster) -> str:
    return create_topic(shared_three_brokers, new_name("kinds"), REPLICAS)


@contextmanager
def members_in_each_rack(cluster: Cluster, topic: str, client: MakeClient) -> Iterator[str]:
    """Run a group with a member in each rack until the block ends; yield its id."""
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        for rack in RACKS:
            group.start(rack, rack)
        wait_until_assigned(cluster, group.id, len(RACKS))
        yield group.id


def wait_until_assigned(cluster: Cluster, group: str, members: int) -> None:
    """Wait until so many members read all partitions."""

    def assigned() -> bool:
        with connect({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            found = find_groups(admin, cluster.racks, [group]).get(group)
        if found is None or not is_stable(found):
            return False
        reading = sum(bool(member.assignment) for member in found.members)
        return reading == members and len(current_readers(found, HostRacks())) == PARTITIONS

    wait_until(assigned, TEST_TIMEOUT, f"{members} members of {group} read all partitions")


def check_leaders_follow(
    cluster: Cluster, group: str, kind: GroupKind, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Check that ``lead`` leaves the group alone, and that moved leaders make it local."""
    assert live_group(cluster, group).kind is kind
    with leading(cluster, group) as leader:
        status = wait_for_status(leader, lambda each: each.state == "refused", "it is refused")
    assert "rackward leaders plan" in status.reason
    if kind is not GroupKind.CLASSIC:
        ignored = f"not led: groups={group} reason={status.reason}"
        with caplog.at_level(logging.INFO, "rackward.lead"), leading(cluster, f"{group}*"):
            wait_until(
                lambda: ignored in caplog.messages,
                TEST_TIMEOUT,
                "the log says why it is not led",
            )
    dry = rackward(cluster, "lead", f"{group}*", "--dry-run", "--json")
    (row,) = dry.events
    assert row["action"].startswith("none: ")
    assert row["action"].endswith("rackward leaders plan moves leaders to its members")
    before = rackward(cluster, "groups", "explain", group, "--json").json
    assert before["partitions"] == PARTITIONS
    assert {member["rack"] for member in before["members"]} == {"a", "b", "c"}
    kinds = {remedy["kind"] for each in before["findings"] for remedy in each["remedies"]}
    assert kinds <= {"fit-leaders"}
    (audited,) = rackward(cluster, "audit", group, "--json").json["groups"]
    assert audited["now"]["off_rack"] == before["off_rack"]
    assert audited["layout"]["off_rack"] == 0
    rackward(cluster, "leaders", "plan", group, "-o", path)
    if before["off_rack"]:
        rackward(cluster, "leaders", "apply", path, "--yes")
    after = rackward(cluster, "groups", "explain", group, "--json").json
    assert (after["local"], after["findings"]) == (PARTITIONS, [])


@needs_4_2
def test_leaders_move_to_the_members_of_a_share_group(
    shared_three_brokers: Cluster,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with members_in_each_rack(shared_three_brokers, topic, ShareConsumer()) as group:
        check_leaders_follow(
            shared_three_brokers, group, GroupKind.SHARE, tmp_path / "leaders.json", caplog
        )


@needs_4_2
@pytest.mark.slow
@pytest.mark.skipif(not has_javac(), reason="needs javac")
@pytest.mark.parametrize(
    ("protocol", "kind"), [("streams", GroupKind.STREAMS), ("classic", GroupKind.CLASSIC)]
)
def test_leaders_move_to_the_members_of_kafka_streams(
    shared_three_brokers: Cluster,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    protocol: str,
    kind: GroupKind,
) -> None:
    with members_in_each_rack(shared_three_brokers, topic, Streams(protocol)) as group:
        check_leaders_follow(shared_three_brokers, group, kind, tmp_path / "leaders.json", caplog)


@pytest.mark.slow
def test_a_sink_connector_is_led_and_its_workers_are_not(
    shared_three_brokers: Cluster, topic: str
) -> None:
    cluster = shared_three_brokers
    with sink_connector(cluster, topic) as (members, group):
        workers = members.id
        wait_until_assigned(cluster, group, 6)
        dry = rackward(cluster, "lead", workers, group, "--dry-run", "--json").events
        actions = {row["group"]: row["action"] for row in dry}
        assert actions[group] == "join, and lead when its leader leaves"
        assert actions[workers].startswith("none: it has the workers of a Connect cluster")
        for command in (["groups", "explain", workers], ["leaders", "plan", workers]):
            assert "workers of a Connect cluster" in one_line(rackward(cluster, *command, status=2))
        with leading(cluster, workers) as leader:
            wait_for_status(leader, lambda each: each.state == "refused", "it is refused")
        with leading(cluster, group, take_over=TakeOverPolicy(TakeOver.REMOVE)) as leader:
            wait_until_leading(leader)
            wait_until_assigned(cluster, group, 6)
            led = rackward(cluster, "groups", "explain", group, "--json").json
            assert led["leader"] is not None
            assert (led["local"], led["off_rack"]) == (PARTITIONS, 0)


@contextmanager
def assigned_by_hand(cluster: Cluster, group: str, topic: str) -> Iterator[list[Exception]]:
    """Commit offsets that move, of a consumer with assign(); yield the errors of its commits."""
    errors: list[Exception] = []
    ending = threading.Event()
    consumer: Any = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=group, enable_auto_commit=False
    )
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer.assign(partitions)

    def run() -> None:
        offset = 0
        while not ending.wait(COMMIT_SECONDS):
            offset += 1
            try:
                consumer.commit({tp: OffsetAndMetadata(offset, "", -1) for tp in partitions})
            except Exception as error:  # noqa: BLE001 - what the test counts
                errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield errors
    finally:
        ending.set()
        thread.join(TEST_TIMEOUT)
        consumer.close()


@pytest.mark.parametrize("had_members", [False, True])
def test_commits_of_consumers_that_assign_themselves_succeed(
    shared_three_brokers: Cluster, topic: str, had_members: bool
) -> None:
    cluster, group = shared_three_brokers, new_name("manual")
    fill(cluster, topic, PARTITIONS, 1)
    if had_members:
        # It joins again once it knows the topic, which not every broker does at first.
        member: Any = KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group,
            metadata_max_age_ms=500,
        )
        wait_until(
            lambda: not member.poll(100) and bool(member.assignment()), TEST_TIMEOUT, "it is in"
        )
        member.close()
    properties = {"bootstrap.servers": cluster.bootstrap_servers}
    with (
        membership_times(watched=20 * COMMIT_SECONDS),
        GroupLeader(properties, [group]) as leader,
        assigned_by_hand(cluster, group, topic) as errors,
    ):
        status = wait_for_status(
            leader, lambda each: "assign partitions to themselves" in each.reason, "it is seen"
        )
        assert status.state == "outside"
        time.sleep(20 * COMMIT_SECONDS)
        assert leader.status()[0] == status
        assert errors == []
        expected = GroupKind.CLASSIC if had_members else GroupKind.MANUAL
        assert live_group(cluster, group).kind is expected
        (row,) = rackward(cluster, "audit", group, "--measure", 2, "--json").json["groups"]
        assert row["rate_source"] == "committed"
        assert (row["partitions"], row["unknown"], row["members"]) == (PARTITIONS, PARTITIONS, 0)
        assert "(assign())" in row["reason"]
        explained = one_line(rackward(cluster, "groups", "explain", group, status=2))
        assert ("(assign())" in explained) is not had_members
