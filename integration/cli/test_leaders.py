"""``rackward leaders`` moves leaders to the racks of consumers while these read."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from integration.cli.conftest import MakeTopic
from integration.support.clients import KafkaPython, partitions_of
from integration.support.command_line import completed, one_line, rackward
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, loads, off_rack, replicas_led_from, wait_for_members
from placement_core import TopicPartition
from rackward.testing import Cluster
from tests.support.traffic_report import START, Sample, hourly_row

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

MEMBERS = {"a1": "a", "a2": "a", "b1": "b"}
"""Two members in rack a, one in b, none in c."""


@pytest.fixture
def topic(cluster: Cluster, make_topic: MakeTopic) -> str:
    """Each rack leads twelve partitions."""
    return make_topic(cluster, "led", replicas_led_from(evenly(36)))


@pytest.mark.parametrize(
    "strategy",
    [
        LeaderRackAwareCooperativeStickyAssignor,
        pytest.param(LeaderRackAwareRangeAssignor, marks=pytest.mark.slow),
    ],
)
def test_after_a_rebalance_everything_is_local(
    cluster: Cluster, topic: str, tmp_path: Path, strategy: Any
) -> None:
    path = tmp_path / "leaders.json"
    client = KafkaPython(lambda rack: [strategy(rack=rack)])
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        for name, rack in MEMBERS.items():
            group.start(name, rack)
        owned = group.settle(partitions_of(topic, 36))
        # a reads 24, b 12. Each rack leads 12; no member is in c.
        assert off_rack(cluster, owned, MEMBERS) == 12
        before = cluster.view([topic])

        done = rackward(cluster, "leaders", "plan", group.id, "-o", path, "--json")
        assert [(each["before"], each["after"]) for each in done.json["localities"]] == [(24, 36)]
        # The 12 of rack c, and others, because leaders per broker are even over all topics.
        assert done.json["copies"] == 0
        assert done.json["leader_changes"] >= 12
        dry = rackward(cluster, "leaders", "apply", path, "--dry-run")
        assert "nothing was changed" in dry.out
        assert cluster.view([topic]) == before
        rackward(cluster, "leaders", "apply", path, "--yes")

        cluster.await_metadata()
        after = cluster.view([topic])
        assert {p: set(row) for p, row in after.replicas.items()} == {
            p: set(row) for p, row in before.replicas.items()
        }
        assert all(after.leader(p) == row[0] for p, row in after.replicas.items())
        assert Counter(after.leader_racks()[topic]) == {"a": 24, "b": 12}

        # The group's leader assigns with the leaders in its metadata.
        wait_for_members(cluster, topic, group)
        generation = group.generation
        group.stop("a2")
        group.start("a2", "a")
        owned = group.settle(partitions_of(topic, 36), after=generation)
        assert loads(owned) == [12, 12, 12]
        assert off_rack(cluster, owned, MEMBERS) == 0
        again = rackward(cluster, "leaders", "plan", group.id)
        assert "Nothing to change." in again.out
    # A second run has nothing left to do.
    done = rackward(cluster, "leaders", "apply", path, "--yes", "--json")
    assert done.events[-1]["ok"]
    assert done.events[1]["pending"] == 0
    # Back to the replica lists, and the leaders, from before.
    refused = rackward(cluster, "placement", "cancel", path, "--yes", status=2)
    assert "is a plan of kind leaders: use rackward leaders cancel" in one_line(refused)
    for pending in (done.events[1]["completed"], 0):
        back = rackward(cluster, "leaders", "cancel", path, "--yes", "--json")
        assert (back.events[1]["pending"], back.events[-1]["ok"]) == (pending, True)
    cluster.await_metadata()
    assert cluster.view([topic]) == before


def test_readers_option_and_members_without_a_rack(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    by_hand = tmp_path / "by-hand.json"
    rackward(
        *(cluster, "leaders", "plan", "--readers", "a=2,b=1", "--topics", topic, "-o", by_hand)
    )
    # Members of the client's own assignor send no rack; here all are on one host.
    with ConsumerGroup(cluster, topics=[topic]) as group:
        group.start("m1")
        group.settle(partitions_of(topic, 36))
        arguments = ("leaders", "plan", group.id, "--json")
        rackless = rackward(cluster, *arguments)
        assert "1 member of these groups without a rack" in rackless.err
        assert rackless.json["localities"][0]["after"] == 0
        mapped = rackward(cluster, *arguments, "--mapping", "127.0.0.0/8=b")
        assert mapped.json["localities"][0]["after"] == 36
        pattern = rackward(cluster, "leaders", "plan", f"{group.id[:-1]}*", "--json")
        assert pattern.json["localities"] == rackless.json["localities"]
        assert group.id in completed(cluster, f"rackward leaders plan {group.id[:-1]}")
        assert topic in completed(cluster, f"rackward topics describe {topic[:-1]}")
        assert f"x,{topic}" in completed(
            cluster, f"rackward placement plan --topics x,{topic[:-1]}"
        )

        # A plan of leaders must not copy data, and placement apply rejects it.
        text = by_hand.read_text()
        planned = json.loads(text)
        other = next(b for b in range(6) if b not in planned["partitions"][0]["before"])
        planned["partitions"][0]["after"][2] = other
        by_hand.write_text(json.dumps(planned))
        refused = rackward(cluster, "leaders", "apply", by_hand, "--yes", status=2)
        assert "a plan of leaders has to keep the brokers of before" in one_line(refused)
        by_hand.write_text(text)
        refused = rackward(cluster, "placement", "apply", by_hand, "--yes", status=2)
        assert "is a plan of kind leaders" in one_line(refused)
    empty = rackward(cluster, "leaders", "plan", group.id, status=2)
    assert "no subscribed members" in one_line(empty)
    unknown = rackward(cluster, "leaders", "plan", "absent", status=2)
    assert "group absent does not exist" in one_line(unknown)

    # The order of replicas has changed since the plan was written.
    tp = TopicPartition(topic, planned["partitions"][0]["partition"])
    cluster.move_leaders({tp: planned["partitions"][0]["before"][1]})
    refused = rackward(cluster, "leaders", "apply", by_hand, "--yes", status=2)
    assert f"{topic}-{tp.partition} is on brokers" in one_line(refused)


def test_leaders_follow_measured_writers(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    """Three quarters are written in a, a quarter in b; nothing in c, where consumers are few."""
    produced: dict[str, Any] = {"kind": "produce", "group": None, "topic": topic}
    sample = Sample()
    sample.rows["hourly"] = [
        hourly_row(START, size, rack, "a", **produced, source="measured")
        for rack, size in (("a", 750), ("b", 250))
    ]
    sample.rows["hourly"].append(hourly_row(START, 250, "c", "a", **produced, source="assumed"))
    folder, path = sample.write(tmp_path, ["hourly"]), tmp_path / "plan.json"
    readers = ("--readers", "a=3,b=1", "--topics", topic, "--partitioner", "rack-aware")
    planned = rackward(
        *(cluster, "leaders", "plan", *readers, "--writers-from", folder, "--json", "-o", path)
    )
    assert "measured in 1 hour for 80.0% of what was written to 1 topic" in " ".join(
        planned.err.split()
    )
    assert [(each["name"], each["after"]) for each in planned.json["produced"]] == [
        ("measured", 0.0)
    ]
    options = json.loads(path.read_text())["options"]
    assert options["measured_writers"] == [f"{topic}:a=0.75,b=0.25"]
    rackward(cluster, "leaders", "apply", path, "--yes")
    cluster.await_metadata()
    assert Counter(cluster.view([topic]).leader_racks()[topic]) == {"a": 27, "b": 9}
