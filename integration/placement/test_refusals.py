"""Plans that must not be carried out. On processes alone, as in test_placement_cli."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from kafka import TopicPartition as Place

from integration.support.command_line import rackward, running
from integration.support.topics import (
    SLOW,
    create_topic,
    fill,
    midway,
    nothing_moves,
    one_line,
    plan,
    rows,
    with_admin,
)
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


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
    # What is to come shows in the list at once, and is still on its way then.
    wait_until(lambda: nothing_moves(cluster), PATIENCE, "it is moved")
    assert rows(cluster, topic)[1] == (1, other)
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
