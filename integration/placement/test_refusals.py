"""Plans that are rejected. On local clusters only."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from kafka import TopicPartition as KafkaTopicPartition

from integration.support.command_line import one_line, rackward, running
from integration.support.topics import (
    SLOW,
    create_topic,
    fill,
    no_reassignments,
    plan,
    rows,
    wait_for_progress,
    with_admin,
)
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


def test_plans_are_rejected_in_one_line(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    create_topic(cluster, topic, [[0], [1]])
    path = tmp_path / "plan.json"
    plan(cluster, topic, path, "-r", "2")
    text = path.read_text()

    def error_of(edited: str, *arguments: object) -> str:
        path.write_text(edited)
        return one_line(
            rackward(cluster, "placement", "apply", path, "--yes", *arguments, status=2)
        )

    planned = json.loads(text)
    cases = {
        text[:-40]: "is not valid: Input data was truncated",
        text.replace('"after": [0,', '"after": [77,'): "-0 is to be on broker 77",
        text.replace('"after"', '"afer"', 1): "unknown field `afer` - at `$.partitions[0]`",
        text.replace('"rackward_plan": 1', '"rackward_plan": 9'): "`$.rackward_plan`",
        text.replace(planned["cluster_id"], "another"): "was made for the cluster another",
        text.replace(planned["topic_ids"][topic], "another"): "was deleted and created again",
        text.replace(topic, f"{topic}x"): f"topic {topic}x was deleted",
    }
    for edited, problem in cases.items():
        assert problem in error_of(edited)
    assert "the plan is read from stdin" in one_line(
        rackward(cluster, "placement", "apply", "-", stdin=text, status=2)
    )
    assert "stdin is not a terminal" in one_line(
        rackward(cluster, "placement", "apply", path, status=2)
    )
    unreachable = rackward("127.0.0.1:1", "placement", "apply", path, "--yes", status=2)
    assert one_line(unreachable)

    # First another client has reassigned a partition; then another run is in progress.
    other = min(set(range(6)) - set(planned["partitions"][1]["after"]))
    with_admin(
        cluster,
        lambda a: a.alter_partition_reassignments({KafkaTopicPartition(topic, 1): [1, other]}),
    )
    # The replica list contains adding replicas immediately, before they are copied.
    wait_until(lambda: no_reassignments(cluster), TEST_TIMEOUT, "the replica is moved")
    assert rows(cluster, topic)[1] == (1, other)
    assert f"{topic}-1 is on brokers 1, {other}, and was on broker 1" in error_of(text)
    empty = json.dumps({**planned, "partitions": []})
    fill(cluster, topic, 2, 150)
    plan(cluster, topic, path, "-r", "3")
    with running(cluster, "placement", "apply", path, "--yes", "--json", "--throttle", SLOW) as run:
        wait_for_progress(run)
        run.send(signal.SIGKILL)
    assert "not of this plan" in error_of(empty)
    done = rackward(cluster, "placement", "cancel", "--yes", "--json")
    assert done.events[-1]["ok"]
    before, now = [(0,), (1, other)], rows(cluster, topic)
    restored = [each["partition"] for each in done.events[0]["partitions"]]
    assert restored
    assert [now[number] for number in restored] == [before[number] for number in restored]
