"""`rackward groups explain` on live groups: its reasons, and that its remedies help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integration.cli.conftest import MakeTopic
from integration.support.clients import partitions_of
from integration.support.command_line import rackward
from integration.support.confluent import Confluent
from integration.support.groups import ConsumerGroup
from integration.support.racks import (
    off_rack,
    replicas_led_from,
    wait_for_leaders,
    wait_for_members,
)
from rackward.testing import Cluster

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

LEADERS = [*("a" * 10), "b", "c"]
MEMBERS = {"a1": "a", "b1": "b", "c1": "c"}


@pytest.fixture
def topic(cluster: Cluster, make_topic: MakeTopic) -> str:
    """Twelve partitions, of which rack a leads ten."""
    return make_topic(cluster, "lopsided", replicas_led_from(LEADERS))


def explain(cluster: Cluster, group: ConsumerGroup, *options: str) -> Any:
    return rackward(cluster, "groups", "explain", group.id, "--json", *options).json


def test_moving_leaders_resolves_too_many_leaders_in_a_rack(
    cluster: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with ConsumerGroup(cluster, topics=[topic]) as group:
        for name, rack in MEMBERS.items():
            group.start(name, rack)
        owned = group.settle(partitions_of(topic, 12))
        assert off_rack(cluster, owned, MEMBERS) == 6

        screen = rackward(cluster, "groups", "explain", group.id).out
        assert max(map(len, screen.splitlines())) <= 80
        text = " ".join(screen.split())
        assert "Locality now 50.0 % 6 of 12 partitions off-rack" in text
        assert "At best 50.0 % 6 off-rack" in text
        assert f"rackward leaders plan {group.id} -o leaders.json" in text

        (finding,) = explain(cluster, group)["findings"]
        assert (finding["reason"], finding["rack"], finding["count"]) == (
            "too-many-leaders",
            "a",
            6,
        )
        assert (finding["led"], finding["members_there"], finding["load"]) == (10, 1, 4)
        off_rack_partitions = {
            p for name in ("b1", "c1") for _, p in owned[name] if LEADERS[p] == "a"
        }
        assert finding["partitions"] == {topic: sorted(off_rack_partitions)}
        move = finding["remedies"][0]
        assert (move["kind"], move["off_rack_after"]) == ("move-leaders", 0)
        assert {each["rack"]: len(each["partitions"][topic]) for each in move["moves"]} == {
            "b": 3,
            "c": 3,
        }

        # The group's leader has the same explanation, without requests to brokers.
        assignments = [
            assignment
            for member in group.members.values()
            for strategy in member.consumer.config["partition_assignment_strategy"]
            if (assignment := strategy.last_assignment()) is not None
        ]
        last = max(assignments, key=lambda assignment: assignment.generation)
        assert (last.group, last.generation) == (group.id, group.generation)
        assert (last.off_rack, last.optimum, last.partitions) == (6, 6, 12)
        (own,) = last.explain().findings
        assert own.partitions == {topic: tuple(sorted(off_rack_partitions))}

        plan = tmp_path / "leaders.json"
        rackward(cluster, "leaders", "plan", group.id, "-o", plan)
        rackward(cluster, "leaders", "apply", plan, "--yes")
        wait_for_leaders(cluster, topic, {"a": 4, "b": 4, "c": 4})
        # The group's leader assigns with metadata of at most two seconds ago.
        wait_for_members(cluster, topic, group)
        generation = group.generation
        group.stop("c1")
        group.start("c1", "c")
        owned = group.settle(partitions_of(topic, 12), after=generation)
        assert off_rack(cluster, owned, MEMBERS) == 0
        after = explain(cluster, group)
        assert (after["off_rack"], after["optimum"], after["findings"]) == (0, 0, [])


def test_assignment_history_of_a_confluent_consumer(cluster: Cluster, topic: str) -> None:
    client = Confluent("leader-rack-aware-range")
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        member = group.start("b1", "b")
        group.settle(partitions_of(topic, 12))
        last = member.consumer.last_assignment()
        assert (last.group, last.protocol) == (group.id, "leader-rack-aware-range")
        assert (last.off_rack, last.optimum, last.partitions) == (11, 11, 12)
        assert member.consumer.assignments() == (last,)
        led = {each["rack"]: each["count"] for each in explain(cluster, group)["findings"]}
        assert (
            led == {"a": 10, "c": 1} == {each.rack: each.count for each in last.explain().findings}
        )
