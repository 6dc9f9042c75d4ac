"""What `rackward groups explain` says of live groups, and that doing what it says mends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from integration.support.clients import Place
from integration.support.collecting import new_protocol
from integration.support.command_line import Done, rackward
from integration.support.confluent_clients import Confluent
from integration.support.groups import ConsumerGroup
from integration.support.racks import (
    off_rack,
    replicas_led_from,
    wait_for_leaders,
    wait_for_members,
)
from integration.support.topics import create_topic, delete_topic
from rackward.clusters import Cluster
from rackward.clusters.pytest_plugin import UniqueName

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

LEADERS = [*("a" * 10), "b", "c"]
MEMBERS = {"a1": "a", "b1": "b", "c1": "c"}


@pytest.fixture
def topic(cluster: Cluster, unique_name: UniqueName) -> Iterator[str]:
    """Twelve partitions, of which rack a leads ten."""
    name = create_topic(cluster, unique_name("lopsided"), replicas_led_from(LEADERS))
    yield name
    delete_topic(cluster, name)


def places(topic: str) -> set[Place]:
    return {(topic, partition) for partition in range(12)}


def aware(cluster: Cluster, topic: str) -> ConsumerGroup:
    return ConsumerGroup(
        cluster,
        topics=[topic],
        strategies=lambda rack: [LeaderRackAwareCooperativeStickyAssignor(rack=rack)],
    )


def explained(cluster: Cluster, group: ConsumerGroup, *options: str) -> Any:
    return rackward(cluster, "groups", "explain", group.id, "--json", *options).json


def refused(done: Done) -> str:
    assert done.out == ""
    assert done.err.startswith("rackward: ")
    assert done.err.count("\n") == 1
    return done.err


def test_a_rack_that_leads_too_much_is_named_and_moving_leaders_mends_it(
    cluster: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with aware(cluster, topic) as group:
        for name, rack in MEMBERS.items():
            group.start(name, rack)
        owned = group.settle(places(topic))
        assert off_rack(cluster, owned, MEMBERS) == 6

        screen = rackward(cluster, "groups", "explain", group.id).out
        assert max(map(len, screen.splitlines())) <= 80
        said = " ".join(screen.split())
        assert "Locality now 50.0 % 6 of 12 partitions off-rack" in said
        assert "At best 50.0 % 6 off-rack" in said
        assert f"rackward leaders plan --group {group.id} -o leaders.json" in said

        (finding,) = explained(cluster, group)["findings"]
        assert (finding["reason"], finding["rack"], finding["count"]) == (
            "too-many-leaders",
            "a",
            6,
        )
        assert (finding["led"], finding["members_there"], finding["load"]) == (10, 1, 4)
        strays = {p for name in ("b1", "c1") for _, p in owned[name] if LEADERS[p] == "a"}
        assert finding["partitions"] == {topic: sorted(strays)}
        move = finding["remedies"][0]
        assert (move["kind"], move["off_rack_after"]) == ("move-leaders", 0)
        assert {each["rack"]: len(each["partitions"][topic]) for each in move["moves"]} == {
            "b": 3,
            "c": 3,
        }

        # The group's leader says the same of itself, without asking a broker.
        made = [
            assignment
            for member in group.members.values()
            for strategy in member.consumer.config["partition_assignment_strategy"]
            if (assignment := strategy.last_assignment()) is not None
        ]
        last = max(made, key=lambda assignment: assignment.generation)
        assert (last.group, last.generation) == (group.id, group.generation)
        assert (last.off_rack, last.optimum, last.partitions) == (6, 6, 12)
        (own,) = last.explain().findings
        assert own.partitions == {topic: tuple(sorted(strays))}

        plan = tmp_path / "leaders.json"
        rackward(cluster, "leaders", "plan", "--group", group.id, "-o", plan)
        rackward(cluster, "leaders", "apply", plan, "--yes")
        wait_for_leaders(cluster, topic, {"a": 4, "b": 4, "c": 4})
        # The group's leader plans with what it has heard, which is two seconds old at most.
        wait_for_members(cluster, topic, group)
        generation = group.generation
        group.stop("c1")
        group.start("c1", "c")
        owned = group.settle(places(topic), after=generation)
        assert off_rack(cluster, owned, MEMBERS) == 0
        mended = explained(cluster, group)
        assert (mended["off_rack"], mended["optimum"], mended["findings"]) == (0, 0, [])


@pytest.mark.slow
def test_as_many_members_as_it_says_mend_it(cluster: Cluster, topic: str) -> None:
    with aware(cluster, topic) as group:
        for name, rack in {"b1": "b", "c1": "c"}.items():
            group.start(name, rack)
        group.settle(places(topic))
        (finding,) = explained(cluster, group)["findings"]
        assert (finding["reason"], finding["count"]) == ("no-member-in-rack", 10)
        start = finding["remedies"][0]
        assert (start["kind"], start["rack"], start["topics"]) == ("start-members", "a", [topic])

        racks = {"b1": "b", "c1": "c"}
        for number in range(start["count"]):
            group.start(f"a{number}", "a")
            racks[f"a{number}"] = "a"
        owned = group.settle(places(topic))
        assert off_rack(cluster, owned, racks) == start["off_rack_after"] == 0
        assert explained(cluster, group)["findings"] == []


def test_a_confluent_consumer_remembers_what_it_assigned(cluster: Cluster, topic: str) -> None:
    client = Confluent("leader-rack-aware-range")
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        member = group.start("b1", "b")
        group.settle(places(topic))
        last = member.consumer.last_assignment()
        assert (last.group, last.protocol) == (group.id, "leader-rack-aware-range")
        assert (last.off_rack, last.optimum, last.partitions) == (11, 11, 12)
        assert member.consumer.assignments() == (last,)
        led = {each["rack"]: each["count"] for each in explained(cluster, group)["findings"]}
        assert (
            led == {"a": 10, "c": 1} == {each.rack: each.count for each in last.explain().findings}
        )


def test_a_group_of_the_new_protocol_says_its_racks(cluster: Cluster, topic: str) -> None:
    # Kafka's own assignors look at replicas, which all racks have: which strays is chance.
    with ConsumerGroup(cluster, topics=[topic], client=new_protocol) as group:
        for name, rack in MEMBERS.items():
            group.start(name, rack)
        owned = group.settle(places(topic))
        found = explained(cluster, group)
        assert (found["type"], found["optimum"]) == ("consumer", 6)
        assert found["off_rack"] == off_rack(cluster, owned, MEMBERS)
        assert sum(each["count"] for each in found["findings"]) == found["off_rack"]
        better = any(each["reason"] == "not-optimal" for each in found["findings"])
        assert better == (found["off_rack"] > 6)


def test_groups_of_other_assignors_and_groups_that_cannot_be_explained(
    cluster: Cluster, topic: str
) -> None:
    foreign = ConsumerGroup(cluster, topics=[topic], strategies=lambda _: [RangePartitionAssignor])
    with foreign as group:
        group.start("m1")
        group.settle(places(topic))
        silent = explained(cluster, group)
        assert (silent["protocol"], silent["assignor"]) == ("range", "leader-rack-aware-range")
        assert [each["reason"] for each in silent["findings"]] == ["rackless-member"]
        assert silent["findings"][0]["count"] == 12
        mapped = explained(cluster, group, "--mapping", "127.0.0.0/8=b")
        assert {each["rack"]: each["reason"] for each in mapped["findings"]} == {
            "a": "no-member-in-rack",
            "c": "no-member-in-rack",
        }
        assert "see --mapping" in rackward(cluster, "groups", "explain", group.id).out
    empty = rackward(cluster, "groups", "explain", group.id, status=2)
    assert "has no members now" in refused(empty)
    absent = rackward(cluster, "groups", "explain", "absent", status=2)
    assert "there is no such group" in refused(absent)
