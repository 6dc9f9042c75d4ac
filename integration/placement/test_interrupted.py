"""Reassignments that are interrupted: kill, Ctrl-C, cancel, a broker that fails.

On local clusters only: the command is independent of how brokers run.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from integration.support.command_line import one_line, rackward, running
from integration.support.topics import (
    SINGLE,
    SLOW,
    TRIPLE,
    Settings,
    content,
    create_topic,
    create_topics,
    delete_topic,
    fill,
    no_reassignments,
    plan,
    rows,
    throttle_settings,
    wait_for_progress,
    with_admin,
)
from placement_core import TopicPartition
from rackward.reassignment.plan import to_kafka_json
from rackward.testing import Cluster
from rackward.testing.pytest_plugin import UniqueName
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

LEADER_LIST = "leader.replication.throttled.replicas"
FOLLOWER_LIST = "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def test_a_killed_run_is_resumed_from_another_folder(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(cluster, topic, SINGLE)
    written = fill(cluster, topic, 6, 150)
    planned = plan(cluster, topic, tmp_path / "plan.json", "-r", "3")
    command = ("placement", "apply", tmp_path / "plan.json", "--yes", "--json")
    with running(cluster, *command, "--throttle", SLOW) as run:
        wait_for_progress(run)
        # A second run of the plan would replace the rate, and remove it for both.
        before = throttle_settings(cluster)
        second = rackward(cluster, *command, "--throttle", "1MB", status=2)
        assert "another run of rackward has set a throttle of 60.0 kB/s" in one_line(second)
        assert throttle_settings(cluster) == before
        killed = run.send(signal.SIGKILL)
    assert killed.status == -signal.SIGKILL
    remaining = throttle_settings(cluster)
    assert remaining["topic", topic].keys() == {LEADER_LIST, FOLLOWER_LIST}
    assert remaining["broker", "0"]["leader.replication.throttled.rate"] == "60000"
    assert any(
        key.startswith("rackward.throttle.60000.before.") for key in remaining["broker", "0"]
    )

    # No other plan can be made while replicas are moved.
    other = rackward(cluster, "placement", "plan", "-r", "2", "--topics", topic, status=2)
    assert "6 partitions of" in one_line(other)
    assert "being reassigned" in other.err

    shown = rackward(cluster, "topics", "describe", topic)
    assert "replication is throttled: 60.0 kB/s in each direction, for some replicas" in shown.out
    assert "set by a run of rackward" in shown.out
    assert "If it was killed" in one_line(rackward(cluster, *command, status=2))

    other_folder = tmp_path / "other_folder"
    other_folder.mkdir()
    (other_folder / "copy.json").write_text((tmp_path / "plan.json").read_text())
    again = ("placement", "apply", "copy.json", "--adopt-throttle", "--yes", "--json")
    done = rackward(cluster, *again, cwd=other_folder)
    started = done.events[1]
    assert started["event"] == "started"
    assert started["in_progress"] > 0
    assert started["pending"] == 0
    assert {"event": "throttle_removed", "leftover": True}.items() <= done.events[2].items()
    assert done.events[-1]["ok"]
    assert done.events[-1]["throttle_in_force"] is None
    assert rows(cluster, topic) == [tuple(each["after"]) for each in planned["partitions"]]
    assert throttle_settings(cluster) == {}
    assert content(cluster, topic, 6) == written


def test_a_run_beside_another_leaves_its_throttle_in_force(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    """Both move partitions of one topic; that of the second run is empty."""
    create_topic(cluster, topic, SINGLE)
    fill(cluster, topic, 1, 150)
    command = ("placement", "apply", "--yes", "--json", "--reassignment-json-file")
    for number, row in ((0, (0, 1)), (5, (5, 1))):
        text = to_kafka_json({TopicPartition(topic, number): row})
        (tmp_path / f"{number}.json").write_text(text)
    with running(cluster, *command, tmp_path / "0.json", "--throttle", SLOW) as first:
        wait_for_progress(first)
        before = throttle_settings(cluster)
        assert before["topic", topic] == {LEADER_LIST: "00:0", FOLLOWER_LIST: "00:1"}
        options = ("--additional", "--throttle", "1MB")
        assert rackward(cluster, *command, tmp_path / "5.json", *options).events[-1]["ok"]
        assert throttle_settings(cluster) == before
        assert first.send(signal.SIGINT).status == 130
    assert throttle_settings(cluster) == {}


def test_a_throttle_of_another_tool_is_shown_and_can_be_removed(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(cluster, topic, SINGLE)
    every: dict[str, str | None] = {LEADER_LIST: "*", FOLLOWER_LIST: "*"}
    set_configs(cluster, ConfigResourceType.TOPIC, topic, every)
    rates: dict[str, str | None] = dict.fromkeys(RATES, "500000")
    set_configs(cluster, ConfigResourceType.BROKER, "1", rates)
    before = throttle_settings(cluster)
    in_force = (
        "500 kB/s in each direction on broker 1, for all replicas of 1 topic "
        f"({topic}), not set by rackward"
    )
    checked = rackward(cluster, "placement", "check", "--topics", topic, "--json", status=1).json
    (finding,) = [each for each in checked["findings"] if each["kind"] == "replication throttle"]
    assert finding["severity"] == "warning"
    assert in_force in finding["message"]
    plan(cluster, topic, tmp_path / "plan.json", "-r", "2")
    done = rackward(cluster, "placement", "apply", tmp_path / "plan.json", "--yes")
    assert done.out.count(f"Replication throttle in force: {in_force}") == 2
    assert "all replicas in sync." in done.out
    assert "no throttle left" not in done.out
    assert throttle_settings(cluster) == before

    shown = rackward(cluster, "placement", "throttle", "--remove", "--dry-run", "--json").json
    assert (shown["in_force"], shown["removed"]) == (in_force, False)
    assert throttle_settings(cluster) == before
    assert rackward(cluster, "placement", "throttle", "--remove", "--yes").out.endswith(
        "Removed.\n"
    )
    wait_until(lambda: throttle_settings(cluster) == {}, TEST_TIMEOUT, "no throttle is left")
    assert "No replication throttle" in rackward(cluster, "placement", "throttle").out


@pytest.fixture
def throttled_already(cluster: Cluster, topic: str) -> Iterator[Settings]:
    """Set a throttle of another client: a broker's own rate, and an entry in the topic's list."""
    create_topic(cluster, topic, TRIPLE)
    rate: dict[str, str | None] = {"follower.replication.throttled.rate": "50000"}
    set_configs(cluster, ConfigResourceType.TOPIC, topic, {LEADER_LIST: "0:0"})
    set_configs(cluster, ConfigResourceType.BROKER, "1", rate)
    yield throttle_settings(cluster)
    set_configs(cluster, ConfigResourceType.TOPIC, topic, {LEADER_LIST: None})
    set_configs(cluster, ConfigResourceType.BROKER, "1", dict.fromkeys(rate))


def test_ctrl_c_removes_the_throttle_and_cancel_restores_layout(
    cluster: Cluster, topic: str, throttled_already: Settings, tmp_path: Path
) -> None:
    written = fill(cluster, topic, 6, 150)
    path = tmp_path / "plan.json"
    planned = plan(cluster, topic, path, "--drain", "0,2", "--throttle", SLOW)
    command = ("placement", "apply", path, "--yes", "--json")
    with running(cluster, *command) as run:
        wait_for_progress(run)
        stopped = run.send(signal.SIGINT)
    assert stopped.status == 130
    names = [event["event"] for event in stopped.events]
    assert names[-2:] == ["throttle_removed", "left_in_progress"]
    assert names.count("broker_throttle_found") == 1
    assert throttle_settings(cluster) == throttled_already
    # The cluster completes the reassignment by itself, and a second run finds it completed.
    wait_until(lambda: no_reassignments(cluster), TEST_TIMEOUT, "all replicas are moved")
    rackward(cluster, *command)
    moved = rows(cluster, topic)
    assert {each["partition"]: tuple(each["after"]) for each in planned["partitions"]}.items() <= (
        dict(enumerate(moved)).items()
    )

    planned = plan(cluster, topic, path, "--drain", "3,5", "--throttle", SLOW)
    with running(cluster, *command) as run:
        wait_for_progress(run)
        run.send(signal.SIGKILL)
    assert throttle_settings(cluster) != throttled_already
    shown = rackward(cluster, "placement", "cancel", "--dry-run", path)
    assert "A throttle that rackward set is in force" in shown.out
    done = rackward(cluster, "placement", "cancel", path, "--yes", "--json")
    assert done.events[-1]["ok"]
    assert throttle_settings(cluster) == throttled_already
    assert no_reassignments(cluster)
    # In the former order, except for completed partitions. Kafka's own cancellation changes it.
    restored = [each["partition"] for each in done.events[0]["partitions"]]
    assert restored
    now = rows(cluster, topic)
    for each in planned["partitions"]:
        number = each["partition"]
        assert now[number] == (moved[number] if number in restored else tuple(each["after"]))
    assert content(cluster, topic, 6) == written


def set_configs(
    cluster: Cluster, kind: ConfigResourceType, name: str, values: dict[str, str | None]
) -> None:
    """Set, or (None) delete, settings of another client."""
    changes = {
        key: (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, value)
        for key, value in values.items()
    }
    resource = ConfigResource(kind, name, changes)
    result = with_admin(
        cluster, lambda admin: admin.alter_configs([resource], raise_on_unknown=False)
    )
    assert result[kind.name.lower()][name] == "OK"
    wait_until(
        lambda: all(
            throttle_settings(cluster).get((kind.name.lower(), name), {}).get(key) == value
            for key, value in values.items()
        ),
        TEST_TIMEOUT,
        f"every broker has {values}",
    )


@pytest.mark.slow
def test_broker_dies_and_topic_is_deleted_during_moves(
    cluster: Cluster, topic: str, unique_name: UniqueName, tmp_path: Path
) -> None:
    deleted = unique_name("deleted")
    create_topics(cluster, {topic: [[0], [1], [2]], deleted: [[0], [1]]})
    written = fill(cluster, topic, 3, 150)
    fill(cluster, deleted, 2, 150)
    moved = {TopicPartition(topic, n): row for n, row in enumerate([(0, 5), (1, 3), (2, 3)])}
    lost = {TopicPartition(deleted, n): (n, 4) for n in range(2)}
    (tmp_path / "target.json").write_text(to_kafka_json(moved | lost))
    command = (
        *("placement", "apply", "--yes", "--reassignment-json-file", tmp_path / "target.json"),
        *("--json", "--stall-timeout", "25"),
    )
    try:
        with running(cluster, *command, "--throttle", "150kB") as run:
            wait_for_progress(run)
            cluster.kill_broker(5)
            delete_topic(cluster, deleted)
            done = run.end()
    finally:
        cluster.start_broker(5)
    assert done.status == 1
    waiting = next(event for event in done.events if event["event"] == "waiting_for_brokers")
    assert (waiting["partitions"], waiting["brokers"]) == (1, [5])
    failed = {(e["topic"], e["partition"]): e["reason"] for e in done.events[-1]["failed"]}
    assert failed == {
        (deleted, 0): "the topic was deleted",
        (deleted, 1): "the topic was deleted",
        (topic, 0): "waiting: broker 5 is down",
    }
    assert done.events[-1]["completed"] == 2
    assert done.events[-1]["in_progress"] == [[topic, 0]]
    assert throttle_settings(cluster) == {}

    # The broker runs again. Without the deleted topic, the run is resumed.
    refused = rackward(cluster, *command, status=2)
    assert f"the cluster has no partition {deleted}-0: remove it" in one_line(refused)
    (tmp_path / "target.json").write_text(to_kafka_json(moved))
    rackward(cluster, *command)
    assert rows(cluster, topic) == list(moved.values())
    assert content(cluster, topic, 3) == written
