"""Plans of new topics and additional partitions."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from placement_core import InvalidOptionError, RackwardError, TopicPartition
from placement_core.cluster import BrokerLoad, RackLoad
from placement_core.errors import LocatorError
from placement_core.placers import PlacementError
from rackward.cli.options import PlacingOptions
from rackward.cli.output import format_json
from rackward.cli.plan_output import replicas_text
from rackward.cli.topics import planned_topics
from rackward.kafka import RefusedError
from rackward.kafka.topics import NewPartitions
from rackward.topics.planner import (
    TopicsPlan,
    plan_additional_partitions,
    plan_new_topics,
    topic_shape,
)
from tests.support.simulated_cluster import RACKS, cluster_state

STATE = cluster_state({"old": [(0, 2), (2, 4), (4, 0)]})


def test_new_topics_are_placed_by_rack_and_seed() -> None:
    placing = PlacingOptions(seed=3).parse()
    plan = plan_new_topics(STATE, ["x", "y"], placing, 6, 3, {"retention.ms": "1"})
    assert [new.topic for new in plan.new] == ["x", "y"]
    for new in plan.new:
        assert new.first_partition == 0
        assert new.configs == {"retention.ms": "1"}
        assert all({RACKS[broker] for broker in row} == {"a", "b", "c"} for row in new.replicas)
        assert sorted(row[0] for row in new.replicas) == [0, 1, 2, 3, 4, 5]
    assert plan == plan_new_topics(STATE, ["x", "y"], placing, 6, 3, {"retention.ms": "1"})
    assert len(plan.before.replicas) == 3
    assert len(plan.after.replicas) == 15
    load = plan.load
    assert load.brokers[0] == BrokerLoad(0, "a", 1, 3, 2, 8)
    assert load.racks[1] == RackLoad("b", 1, 5, 2, 14)


def test_additional_partitions_continue_the_layout() -> None:
    first = plan_new_topics(STATE, ["t"], PlacingOptions(seed=1).parse(), 12, 3, {})
    there = cluster_state({"t": first.new[0].replicas})
    more = plan_additional_partitions(there, ["t"], PlacingOptions(seed=99).parse(), 18)
    (partitions,) = more.new
    whole = plan_new_topics(STATE, ["t"], PlacingOptions(seed=1).parse(), 18, 3, {})
    assert partitions == NewPartitions("t", whole.new[0].replicas[12:], 12)
    assert partitions.layout.keys() == {TopicPartition("t", number) for number in range(12, 18)}


def test_racks_come_from_the_locator() -> None:
    partial = cluster_state({}, [None, "a", None])
    with pytest.raises(PlacementError, match=r"topic x: placer rack-alternating: brokers 0, 2 wi"):
        plan_new_topics(partial, ["x"], PlacingOptions().parse(), 3, 2, {})
    ignoring = plan_new_topics(partial, ["x"], PlacingOptions(ignore_racks=True).parse(), 3, 2, {})
    assert len(ignoring.new[0].replicas) == 3
    document = PlacingOptions("static", "0=a,1=a,2=b").parse()
    plan = plan_new_topics(partial, ["x"], document, 4, 2, {})
    assert all(2 in row for row in plan.new[0].replicas)
    assert plan.after.racks() == {0: "a", 1: "a", 2: "b"}
    short = PlacingOptions("static", "0=a").parse()
    with pytest.raises(LocatorError, match="no rack for 1, 2"):
        plan_new_topics(partial, ["x"], short, 4, 2, {})


def new(*names: str, factor: int = 2) -> TopicsPlan:
    return plan_new_topics(STATE, names, PlacingOptions().parse(), 3, factor, {})


def more(*names: str) -> TopicsPlan:
    return plan_additional_partitions(STATE, names, PlacingOptions().parse(), 3)


@pytest.mark.parametrize(
    ("plan", "kind", "message"),
    [
        (lambda: new("old"), InvalidOptionError, "topic old already exists, with 3 partitions"),
        (lambda: new("x", "x"), InvalidOptionError, "topic x is repeated"),
        (lambda: new("x", factor=7), PlacementError, "topic x: replication factor 7 on 6 brokers"),
        (lambda: more("old"), InvalidOptionError, "old already has 3 partitions: give a total of "),
        (lambda: more("absent"), RefusedError, "unknown topic absent: check"),
        (lambda: more("b", "a"), RefusedError, "unknown topics a, b: check"),
    ],
)
def test_errors_name_the_topic(
    plan: Callable[[], TopicsPlan], kind: type[RackwardError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        plan()


def test_topic_shape() -> None:
    assert topic_shape(STATE, "old") == (3, 2)


def test_json_of_a_plan() -> None:
    placing = PlacingOptions(placement="simple", seed=2).parse()
    plan = plan_new_topics(cluster_state({}), ["x"], placing, 2, 1, {"a": "b"})
    values = planned_topics(plan, placing), plan.load
    document = json.loads(format_json("topics create", *values))
    assert (document["placement"], document["seed"]) == ("simple", 2)
    (topic,) = document["topics"]
    assert topic == {
        "name": "x",
        "first_partition": 0,
        "partitions": 2,
        "replication_factor": 1,
        "configs": {"a": "b"},
        "replicas": {str(n): list(row) for n, row in enumerate(plan.new[0].replicas)},
    }
    assert [broker["id"] for broker in document["brokers"]] == [0, 1, 2, 3, 4, 5]
    assert sum(rack["leaders_after"] for rack in document["racks"]) == 2


def test_replicas_text() -> None:
    assert replicas_text((0, 2), {0: "a", 1: "b", 2: None}) == "0:a 2:-"
    assert replicas_text((0, 2), {0: None, 2: None}) == "0 2"
    assert replicas_text((0, 1, -1, -2), {0: "a", 1: None}) == "0:a 1:- -1 -2"
    assert replicas_text((0, 2), {0: "a-very-long-rack", 2: "b"}) == "0 2"
