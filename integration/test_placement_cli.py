"""Replicas moved by the real command on a real cluster, interrupted in every way.

On processes alone: containers would add nothing to requests to the controller, and much time.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition as Place
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from integration.command_line import Done, Running, rackward, running
from integration.records import Content, content, fill
from integration.throttle_settings import Settings, throttle_settings
from integration.topics import create_topic, create_topics, delete_topic, wait_until, with_admin
from placement_core import TopicPartition
from rackward.clusters import Cluster
from rackward.clusters.pytest_plugin import UniqueName

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

SINGLE = [[broker] for broker in range(6)]
TRIPLE = [[0, 2, 4], [1, 3, 5], [2, 4, 1], [3, 5, 0], [4, 0, 3], [5, 1, 2]]
LEADER_LIST = "leader.replication.throttled.replicas"
SLOW = "60kB"
"""A throttle under which 3 MB are on their way for longer than a test needs."""


@pytest.fixture
def topic(cluster: Cluster, unique_name: UniqueName) -> Iterator[str]:
    """A topic's name; the topic is deleted, and no throttle left behind."""
    name = unique_name("moved")
    yield name
    with_admin(cluster, lambda admin: admin.delete_topics([name], raise_errors=False))
    assert throttle_settings(cluster) == {}


def rows(cluster: Cluster, topic: str) -> list[tuple[int, ...]]:
    """The topic's replica lists, in order of partition."""
    return [row for _, row in sorted(cluster.view([topic]).replicas.items())]


def in_three_racks(row: tuple[int, ...]) -> bool:
    return len(row) == 3 and {broker // 2 for broker in row} == {0, 1, 2}


def plan(cluster: Cluster, topic: str, path: Path, *arguments: object) -> dict[str, Any]:
    """Write a plan for the topic; returns what the file holds."""
    rackward(cluster, "placement", "plan", "--topics", topic, "-o", path, *arguments)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def midway(command: Running) -> None:
    """Return when bytes are being copied, as the command itself says."""
    event = command.until(lambda line: '"progressed"' in line)
    assert json.loads(event)["copied"] < json.loads(event)["bytes"]


def one_line(done: Done) -> str:
    """The one line that a refusal is."""
    assert done.out == ""
    assert done.err.startswith("rackward: ")
    assert done.err.count("\n") == 1
    return done.err


def test_the_replication_factor_is_raised_and_lowered(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(cluster, topic, SINGLE)
    written = fill(cluster, topic, 6, 20)
    path = tmp_path / "up.json"
    planned = plan(cluster, topic, path, "-r", "3", "--throttle", "40MB", "--batch-count", "4")
    assert planned["expected"] == {"copies": 12, "bytes": 2 * size(planned), "leader_changes": 0}
    assert size(planned) > written_bytes(written)
    dry = rackward(cluster, "placement", "apply", path, "--dry-run")
    assert "nothing was changed" in dry.out
    assert rows(cluster, topic) == [tuple(row) for row in SINGLE]
    done = rackward(cluster, "placement", "apply", path, "--yes", "--json")
    assert [event["event"] for event in done.events if event["event"] != "progressed"] == [
        "planned",
        "begun",
        "throttled",
        "batch_begun",
        "batch_begun",
        "throttle_lifted",
        "finished",
    ]
    last = [event for event in done.events if event["event"] == "progressed"][-1]
    assert (last["placed"], last["partitions"]) == (6, 6)
    assert last["copied"] == last["bytes"] == planned["expected"]["bytes"]
    raised = rows(cluster, topic)
    assert raised == [tuple(each["after"]) for each in planned["partitions"]]
    assert all(in_three_racks(row) for row in raised)
    assert [row[0] for row in raised] == [row[0] for row in SINGLE]
    assert set(Counter(broker for row in raised for broker in row).values()) == {3}
    assert throttle_settings(cluster) == {}
    assert content(cluster, topic, 6) == written

    # Over a pipe, in Kafka's own words; and again, when there is nothing left to do.
    plan(cluster, topic, tmp_path / "down.json", "-r", "1", "--format", "kafka")
    for left in (6, 0):
        text = (tmp_path / "down.json").read_text()
        arguments = ("placement", "apply", "--reassignment-json-file", "-", "--yes", "--json")
        done = rackward(cluster, *arguments, stdin=text)
        assert done.events[1]["to_do"] == left
        assert done.events[-1]["ok"]
    assert rows(cluster, topic) == [(row[0],) for row in raised]
    assert content(cluster, topic, 6) == written


def size(planned: dict[str, Any]) -> int:
    return sum(each["bytes"] for each in planned["partitions"])


def written_bytes(written: Content) -> int:
    return sum(written.counts) * 20_000


def test_a_killed_run_is_taken_up_from_elsewhere(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(cluster, topic, SINGLE)
    written = fill(cluster, topic, 6, 150)
    planned = plan(cluster, topic, tmp_path / "plan.json", "-r", "3")
    command = ("placement", "apply", tmp_path / "plan.json", "--yes", "--json")
    with running(cluster, *command, "--throttle", SLOW) as run:
        midway(run)
        killed = run.send(signal.SIGKILL)
    assert killed.status == -signal.SIGKILL
    left = throttle_settings(cluster)
    assert left["topic", topic].keys() == {LEADER_LIST, "follower.replication.throttled.replicas"}
    assert left["broker", "0"]["leader.replication.throttled.rate"] == "60000"
    assert any(key.startswith("rackward.throttle.60000.before.") for key in left["broker", "0"])

    # What is not the plan's own is refused, and so is a second plan meanwhile.
    other = rackward(cluster, "placement", "plan", "-r", "2", "--topics", topic, status=2)
    assert "6 partitions of" in one_line(other)
    assert "being reassigned" in other.err

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "copy.json").write_text((tmp_path / "plan.json").read_text())
    done = rackward(cluster, "placement", "apply", "copy.json", "--yes", "--json", cwd=elsewhere)
    begun = done.events[1]
    assert begun["event"] == "begun"
    assert begun["under_way"] > 0
    assert begun["to_do"] == 0
    assert {"event": "throttle_lifted", "leftover": True}.items() <= done.events[2].items()
    assert done.events[-1]["ok"]
    assert rows(cluster, topic) == [tuple(each["after"]) for each in planned["partitions"]]
    assert throttle_settings(cluster) == {}
    assert content(cluster, topic, 6) == written


@pytest.fixture
def throttled_already(cluster: Cluster, topic: str) -> Iterator[Settings]:
    """A throttle of somebody else's: a broker's own rate, an entry of the topic's list."""
    create_topic(cluster, topic, TRIPLE)
    rate: dict[str, str | None] = {"follower.replication.throttled.rate": "50000"}
    set_configs(cluster, ConfigResourceType.TOPIC, topic, {LEADER_LIST: "0:0"})
    set_configs(cluster, ConfigResourceType.BROKER, "1", rate)
    yield throttle_settings(cluster)
    set_configs(cluster, ConfigResourceType.TOPIC, topic, {LEADER_LIST: None})
    set_configs(cluster, ConfigResourceType.BROKER, "1", dict.fromkeys(rate))


def test_ctrl_c_gives_the_throttle_back_and_cancel_the_layout_as_they_were(
    cluster: Cluster, topic: str, throttled_already: Settings, tmp_path: Path
) -> None:
    written = fill(cluster, topic, 6, 150)
    path = tmp_path / "plan.json"
    planned = plan(cluster, topic, path, "--drain", "0,2", "--throttle", SLOW)
    command = ("placement", "apply", path, "--yes", "--json")
    with running(cluster, *command) as run:
        midway(run)
        stopped = run.send(signal.SIGINT)
    assert stopped.status == 130
    names = [event["event"] for event in stopped.events]
    assert names[-2:] == ["throttle_lifted", "left_under_way"]
    assert names.count("own_throttle") == 1
    assert throttle_settings(cluster) == throttled_already
    # The cluster goes on by itself, and a second run finds it so.
    rackward(cluster, *command)
    moved = rows(cluster, topic)
    assert {each["partition"]: tuple(each["after"]) for each in planned["partitions"]}.items() <= (
        dict(enumerate(moved)).items()
    )

    planned = plan(cluster, topic, path, "--drain", "3,5", "--throttle", SLOW)
    with running(cluster, *command) as run:
        midway(run)
        run.send(signal.SIGKILL)
    assert throttle_settings(cluster) != throttled_already
    shown = rackward(cluster, "placement", "cancel", "--dry-run", path)
    assert "A throttle that rackward set is in force" in shown.out
    done = rackward(cluster, "placement", "cancel", path, "--yes", "--json")
    assert done.events[-1]["ok"]
    assert throttle_settings(cluster) == throttled_already
    assert with_admin(cluster, lambda admin: admin.list_partition_reassignments()) == {}
    # To the very order, but for what had arrived: Kafka by itself leaves another.
    back = [each["partition"] for each in done.events[0]["partitions"]]
    assert back
    now = rows(cluster, topic)
    for each in planned["partitions"]:
        number = each["partition"]
        assert now[number] == (moved[number] if number in back else tuple(each["after"]))
    assert content(cluster, topic, 6) == written


def set_configs(
    cluster: Cluster, kind: ConfigResourceType, name: str, values: dict[str, str | None]
) -> None:
    """Set, or (None) delete, what belongs to somebody else."""
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
        10,
        f"{values} is known",
    )


def test_a_broker_is_drained_and_filled_again(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    create_topic(cluster, topic, TRIPLE * 2)
    written = fill(cluster, topic, 12, 5)
    path = tmp_path / "plan.json"
    planned = plan(cluster, topic, path, "--drain", "5", "--batch-bytes", "200kB")
    rackward(cluster, "placement", "apply", path, "--yes")
    drained = rows(cluster, topic)
    assert not any(5 in row for row in drained)
    assert all(in_three_racks(row) for row in drained)
    # No more copies than broker 5 had replicas.
    assert planned["expected"]["copies"] == 6
    # As if it were new: all carry alike again.
    planned = plan(cluster, topic, path, "--even")
    rackward(cluster, "placement", "apply", path, "--yes")
    evened = rows(cluster, topic)
    assert set(Counter(broker for row in evened for broker in row).values()) == {6}
    assert set(Counter(row[0] for row in evened).values()) == {2}
    assert all(in_three_racks(row) for row in evened)
    view = cluster.view([topic])
    assert [view.leaders[TopicPartition(topic, p)] for p in range(12)] == [r[0] for r in evened]
    assert planned["expected"]["copies"] == 6
    assert content(cluster, topic, 12) == written
    again = rackward(cluster, "placement", "plan", "--topics", topic, "--even")
    assert "Nothing is to be changed." in again.out


def test_a_broker_dies_and_a_topic_is_deleted_while_replicas_move(
    cluster: Cluster, topic: str, unique_name: UniqueName, tmp_path: Path
) -> None:
    doomed = unique_name("doomed")
    create_topics(cluster, {topic: [[0], [1], [2]], doomed: [[0], [1]]})
    written = fill(cluster, topic, 3, 150)
    fill(cluster, doomed, 2, 150)
    target = {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": 0, "replicas": [0, 5]},
            {"topic": topic, "partition": 1, "replicas": [1, 3]},
            {"topic": topic, "partition": 2, "replicas": [2, 3]},
            {"topic": doomed, "partition": 0, "replicas": [0, 4]},
            {"topic": doomed, "partition": 1, "replicas": [1, 4]},
        ],
    }
    (tmp_path / "target.json").write_text(json.dumps(target))
    command = (
        *("placement", "apply", "--yes", "--reassignment-json-file", tmp_path / "target.json"),
        *("--json", "--stall-timeout", "25"),
    )
    try:
        with running(cluster, *command, "--throttle", "150kB") as run:
            midway(run)
            cluster.kill_broker(5)
            delete_topic(cluster, doomed)
            done = run.end()
    finally:
        cluster.start_broker(5)
    assert done.status == 1
    waiting = next(event for event in done.events if event["event"] == "waiting")
    assert (waiting["partitions"], waiting["brokers"]) == (1, [5])
    failed = {(e["topic"], e["partition"]): e["reason"] for e in done.events[-1]["failed"]}
    assert failed == {
        (doomed, 0): "the topic was deleted",
        (doomed, 1): "the topic was deleted",
        (topic, 0): "broker 5 is down; it waits for that",
    }
    assert done.events[-1]["placed"] == 2
    assert done.events[-1]["under_way"] == [[topic, 0]]
    assert throttle_settings(cluster) == {}

    # The broker is back; without the lines of the topic that is gone, it is taken up.
    refused = rackward(cluster, *command, status=2)
    assert f"the cluster has no partition {doomed}-0: take it out" in one_line(refused)
    target["partitions"] = target["partitions"][:3]  # type: ignore[index]
    (tmp_path / "target.json").write_text(json.dumps(target))
    rackward(cluster, *command)
    assert rows(cluster, topic) == [(0, 5), (1, 3), (2, 3)]
    assert content(cluster, topic, 3) == written


def test_what_must_not_be_carried_out_is_refused_in_one_line(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    create_topic(cluster, topic, [[0], [1]])
    path = tmp_path / "plan.json"
    plan(cluster, topic, path, "-r", "2")
    text = path.read_text()

    def refused(edited: str, *arguments: object) -> str:
        path.write_text(edited)
        return one_line(
            rackward(cluster, "placement", "apply", path, "--yes", *arguments, status=2)
        )

    planned = json.loads(text)
    cases = {
        text[:-40]: "is not JSON",
        text.replace('"after": [0,', '"after": [77,'): "partitions[0].after names broker 77",
        text.replace('"after"', '"afer"', 1): "partitions[0].after is missing",
        text.replace('"rackward_plan": 1', '"rackward_plan": 9'): "rackward_plan is 9",
        text.replace(planned["cluster"], "another"): "was made for the cluster another",
        text.replace(planned["topics"][0]["id"], "another"): "was deleted and made anew",
        text.replace(topic, f"{topic}x"): f"the topic {topic}x is gone",
    }
    for edited, problem in cases.items():
        assert problem in refused(edited)
    assert "the plan comes over standard input" in one_line(
        rackward(cluster, "placement", "apply", "-", stdin=text, status=2)
    )
    assert "nobody is there to be asked" in one_line(
        rackward(cluster, "placement", "apply", path, status=2)
    )
    gone = rackward("127.0.0.1:1", "placement", "apply", path, "--yes", status=2)
    assert one_line(gone)

    # Moved since by somebody else, elsewhere; and then others are at it.
    other = min(set(range(6)) - set(planned["partitions"][1]["after"]))
    with_admin(cluster, lambda a: a.alter_partition_reassignments({Place(topic, 1): [1, other]}))
    wait_until(lambda: rows(cluster, topic)[1] == (1, other), 20, "it is moved")
    assert f"{topic}-1 is on brokers 1, {other}, and was on 1" in refused(text)
    empty = json.dumps({**planned, "partitions": []})
    fill(cluster, topic, 2, 150)
    plan(cluster, topic, path, "-r", "3")
    with running(cluster, "placement", "apply", path, "--yes", "--json", "--throttle", SLOW) as run:
        midway(run)
        run.send(signal.SIGKILL)
    assert "not of this plan" in refused(empty)
    done = rackward(cluster, "placement", "cancel", "--yes", "--json")
    assert done.events[-1]["ok"]
    before, now = [(0,), (1, other)], rows(cluster, topic)
    back = [each["partition"] for each in done.events[0]["partitions"]]
    assert back
    assert [now[number] for number in back] == [before[number] for number in back]


def test_check_finds_what_is_wrong_and_says_so_by_its_status(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, [[0, 1], [2, 3]])
    done = rackward(cluster, "placement", "check", "--topics", topic, "--json", status=1)
    assert done.json["figures"]["against_rack_rules"] == 2
    assert {finding["severity"] for finding in done.json["findings"]} >= {"warning"}
    lenient = ("placement", "check", "--topics", topic, "--fail-on", "critical")
    assert "not spread over racks" in rackward(cluster, *lenient).out
    assert "no such topic" in one_line(
        rackward(cluster, "placement", "check", "--topics", "absent", status=2)
    )
