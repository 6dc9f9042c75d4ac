"""Leaders that move to what members own: `leaders plan`, and groups of other clients.

Predictions are compared with `groups explain` and with a count without rackward."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from integration.cli.conftest import MakeTopic
from integration.support.clients import KafkaPython, MakeClient, PartitionId, partitions_of
from integration.support.collecting import librdkafka, new_protocol
from integration.support.command_line import one_line, rackward
from integration.support.groups import ConsumerGroup
from integration.support.program_clients import RANGE, Java
from integration.support.racks import off_rack, wait_for_leaders, wait_for_members
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

MEMBERS = {"a1": "a", "b1": "b", "c1": "c"}
PARTITIONS = 12
LEADERS = [0, 0, 1, 2, 1, 2, 2, 0, 1, 1, 2, 0]
"""Broker of each leader: four in each rack, not in step with any assignment."""

Owned = Mapping[str, frozenset[PartitionId]]


@pytest.fixture
def cluster(three_brokers: Cluster) -> Cluster:
    """Brokers 0, 1 and 2 in racks a, b and c."""
    return three_brokers


@pytest.fixture
def topic(cluster: Cluster, make_topic: MakeTopic) -> str:
    """A topic with a replica per rack."""
    rows = [[leader, (leader + 1) % 3, (leader + 2) % 3] for leader in LEADERS]
    return make_topic(cluster, "current", rows)


def start(group: ConsumerGroup, topic: str, names: Iterable[str] = MEMBERS) -> Owned:
    for name in names:
        group.start(name, MEMBERS[name])
    return group.settle(partitions_of(topic, PARTITIONS), hold=2.0)


def explained(cluster: Cluster, group: ConsumerGroup) -> Any:
    return rackward(cluster, "groups", "explain", group.id, "--json").json


def local(cluster: Cluster, owned: Owned) -> int:
    return PARTITIONS - off_rack(cluster, owned, MEMBERS)


@pytest.mark.parametrize(
    ("client", "assignor"),
    [
        pytest.param(new_protocol, "uniform", id="new-protocol", marks=pytest.mark.new_protocol),
        pytest.param(librdkafka, "range", id="confluent-range"),
        pytest.param(Java(RANGE), "range", id="java-range", marks=pytest.mark.slow),
    ],
)
def test_leaders_move_to_members_of_groups_ignoring_them(
    cluster: Cluster, topic: str, tmp_path: Path, client: MakeClient, assignor: str
) -> None:
    path = tmp_path / "leaders.json"
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        owned = start(group, topic)
        before = explained(cluster, group)
        assert before["protocol"] == assignor
        assert before["local"] == local(cluster, owned)
        assert before["local"] < PARTITIONS

        planned = rackward(cluster, "leaders", "plan", group.id, "-o", path, "--json")
        (locality,) = planned.json["localities"]
        assert (locality["before"], locality["after"]) == (before["local"], PARTITIONS)
        # Exactly those that are not local move.
        assert planned.json["leader_changes"] == PARTITIONS - before["local"]
        assert json.loads(path.read_text())["options"]["proved_most_local"]
        # What this group was promised before: an assignment by the racks of leaders.
        reassigned = rackward(
            *(cluster, "leaders", "plan", group.id, "--assignment", "rackward", "--json")
        )
        assert reassigned.json["localities"][0]["before"] == PARTITIONS

        applied = rackward(cluster, "leaders", "apply", path, "--yes").out
        assert "groups rebalance" not in applied, "a rebalance would not help this group"
        after = explained(cluster, group)
        assert after["local"] == local(cluster, owned) == PARTITIONS
        assert after["findings"] == []
        again = rackward(cluster, "leaders", "plan", group.id)
        assert "Nothing to change." in again.out
        refused = rackward(cluster, "groups", "rebalance", group.id, "--yes", status=2)
        assert f"rackward leaders plan {group.id}" in one_line(refused)


@pytest.mark.new_protocol
def test_the_placement_that_a_plan_names_makes_the_rest_local(
    cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """All replicas are in racks a and b, and a member in rack c reads a third of the topic."""
    rows = [[leader % 2, 1 - leader % 2] for leader in LEADERS]
    topic = make_topic(cluster, "two-racks", rows)
    with ConsumerGroup(cluster, topics=[topic], client=new_protocol) as group:
        owned = start(group, topic)
        in_c = sorted(number for _, number in owned["c1"])
        arguments = (cluster, "leaders", "plan", group.id)
        planned = rackward(*arguments, "--json").json
        assert planned["unmet"] == [
            {
                "group": group.id,
                "reason": "no-replica-in-rack",
                "rack": "c",
                "partitions": {topic: in_c},
            }
        ]
        assert planned["localities"][0]["after"] == PARTITIONS - len(in_c)
        (note,) = [line for line in rackward(*arguments).out.splitlines() if "not local" in line]
        command = shlex.split(note.split("to add one: ")[1].removesuffix("."))
        plan = tmp_path / "placement.json"
        rackward(cluster, *command[1:], "-o", plan)
        rackward(cluster, "placement", "apply", plan, "--yes")
        # The brokers assign a group of the new protocol again when racks of replicas change.
        wait_until(
            lambda: rackward(cluster, "groups", "explain", group.id, status=None).status == 0,
            TEST_TIMEOUT,
            "the group is stable after the placement",
        )
        owned = group.settle(partitions_of(topic, PARTITIONS), hold=2.0)
        path = tmp_path / "leaders.json"
        done = rackward(*arguments, "-o", path, "--json").json
        assert (done["localities"][0]["after"], done["unmet"]) == (PARTITIONS, [])
        rackward(cluster, "leaders", "apply", path, "--yes")
        assert explained(cluster, group)["local"] == local(cluster, owned) == PARTITIONS


@pytest.mark.parametrize(
    ("strategy", "rounds"),
    [
        # Cooperative: one round to revoke, one to assign.
        (LeaderRackAwareCooperativeStickyAssignor, 2),
        (LeaderRackAwareRangeAssignor, 1),
    ],
)
def test_a_rebalance_on_request(
    cluster: Cluster, topic: str, tmp_path: Path, strategy: Any, rounds: int
) -> None:
    """A group of rackward's assignors that does not watch leaders itself."""
    path = tmp_path / "leaders.json"
    client = KafkaPython(lambda rack: [strategy(rack=rack, refresh=None)])
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        owned = start(group, topic)
        assert local(cluster, owned) == PARTITIONS
        # All leaders go one rack further, as after a change by another program.
        view = cluster.view([topic])
        cluster.move_leaders({tp: row[1] for tp, row in view.replicas.items()})
        cluster.await_metadata()
        assert local(cluster, owned) == 0
        wait_for_members(cluster, topic, group)
        generation = group.generation
        dry = rackward(cluster, "groups", "rebalance", group.id, "--dry-run").out
        assert f"{PARTITIONS} of {PARTITIONS} partitions off-rack, 0 at best" in dry
        several = rackward(
            cluster, "groups", "rebalance", f"{group.id}*", "--dry-run", "--json"
        ).json
        assert [row["group"] for row in several["groups"]] == [group.id]
        assert group.generation == generation

        done = rackward(cluster, "groups", "rebalance", group.id, "--yes", "--json").json
        assert (done["off_rack_before"], done["off_rack_after"]) == (PARTITIONS, 0)
        owned = group.settle(partitions_of(topic, PARTITIONS), after=generation)
        assert local(cluster, owned) == PARTITIONS
        assert group.generation == generation + rounds
        assert len(explained(cluster, group)["members"]) == len(MEMBERS)

        # Two members in rack a: leaders move, and the last line says how the group follows.
        group.stop("c1")
        group.start("a2", "a")
        group.settle(partitions_of(topic, PARTITIONS), after=group.generation)
        rackward(cluster, "leaders", "plan", group.id, "-o", path)
        applied = rackward(cluster, "leaders", "apply", path, "--yes").out
        assert applied.rstrip().endswith(f"rackward groups rebalance {group.id}")
        wait_for_leaders(cluster, topic, {"a": 8, "b": 4})
        wait_for_members(cluster, topic, group)
        done = rackward(cluster, "groups", "rebalance", group.id, "--yes", "--json").json
        assert done["off_rack_after"] == done["optimum"] == 0
