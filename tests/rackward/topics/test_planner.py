"""What creating topics and adding partitions would do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placement_core import InvalidOptionError, RackwardError, TopicPartition
from placement_core.errors import LocatorError
from placement_core.placers import PlacementError
from rackward.admin import RefusedError
from rackward.admin.topics import NewPartitions
from rackward.cli.options import read_placing
from rackward.cli.render.topics import plan_json, replicas_text
from rackward.topics.planner import Load, TopicsPlan, plan_more, plan_new, shape_of
from tests.support.cluster_states import RACKS, state

PRESENT = state({"old": [(0, 2), (2, 4), (4, 0)]})


def test_new_topics_are_placed_by_rack_and_seed() -> None:
    placing = read_placing(seed=3)
    plan = plan_new(PRESENT, ["x", "y"], placing, 6, 3, {"retention.ms": "1"})
    assert [wanted.topic for wanted in plan.wanted] == ["x", "y"]
    for wanted in plan.wanted:
        assert wanted.first == 0
        assert wanted.configs == {"retention.ms": "1"}
        assert all({RACKS[broker] for broker in row} == {"a", "b", "c"} for row in wanted.rows)
        assert sorted(row[0] for row in wanted.rows) == [0, 1, 2, 3, 4, 5]
    assert plan == plan_new(PRESENT, ["x", "y"], placing, 6, 3, {"retention.ms": "1"})
    assert len(plan.before.replicas) == 3
    assert len(plan.after.replicas) == 15
    carried = plan.totals
    assert carried.brokers[0] == ("a", Load(1, 3, 2, 8))
    assert carried.racks["b"] == Load(1, 5, 2, 14)


def test_more_partitions_continue_and_keep_the_replication_factor() -> None:
    first = plan_new(PRESENT, ["t"], read_placing(seed=1), 12, 3, {})
    there = state({"t": first.wanted[0].rows})
    more = plan_more(there, ["t"], read_placing(seed=99), 18)
    (wanted,) = more.wanted
    whole = plan_new(PRESENT, ["t"], read_placing(seed=1), 18, 3, {})
    assert wanted == NewPartitions("t", whole.wanted[0].rows[12:], 12)
    assert wanted.layout.keys() == {TopicPartition("t", number) for number in range(12, 18)}


def test_racks_are_those_of_the_locator_or_none() -> None:
    partial = state({}, [None, "a", None])
    with pytest.raises(PlacementError, match=r"topic x: placer rack-alternating: brokers 0, 2 wi"):
        plan_new(partial, ["x"], read_placing(), 3, 2, {})
    ignoring = plan_new(partial, ["x"], read_placing(ignore_racks=True), 3, 2, {})
    assert len(ignoring.wanted[0].rows) == 3
    told = read_placing(rack_locator="static", rack_locator_properties="0=a,1=a,2=b")
    plan = plan_new(partial, ["x"], told, 4, 2, {})
    assert all(2 in row for row in plan.wanted[0].rows)
    assert plan.after.racks() == {0: "a", 1: "a", 2: "b"}
    short = read_placing(rack_locator="static", rack_locator_properties="0=a")
    with pytest.raises(LocatorError, match="no rack for 1, 2"):
        plan_new(partial, ["x"], short, 4, 2, {})


def new(*names: str, factor: int = 2) -> TopicsPlan:
    return plan_new(PRESENT, names, read_placing(), 3, factor, {})


def more(*names: str) -> TopicsPlan:
    return plan_more(PRESENT, names, read_placing(), 3)


@pytest.mark.parametrize(
    ("plan", "kind", "told"),
    [
        (lambda: new("old"), InvalidOptionError, "topic old exists already, with 3 partitions"),
        (lambda: new("x", "x"), InvalidOptionError, "the topic x is named twice"),
        (lambda: new("x", factor=7), PlacementError, "topic x: replication factor 7 on 6 brokers"),
        (lambda: more("old"), InvalidOptionError, "old has 3 partitions already: ask for more"),
        (lambda: more("absent"), RefusedError, "the cluster has no topic absent that"),
        (lambda: more("b", "a"), RefusedError, "the cluster has no topics a, b that"),
    ],
)
def test_what_cannot_be_is_said_of_the_topic(
    plan: Callable[[], TopicsPlan], kind: type[RackwardError], told: str
) -> None:
    with pytest.raises(kind, match=told):
        plan()


def test_the_shape_of_another_topic() -> None:
    assert shape_of(PRESENT, "old") == (3, 2)


def test_a_plan_as_json() -> None:
    plan = plan_new(state({}), ["x"], read_placing(placement="simple", seed=2), 2, 1, {"a": "b"})
    told = plan_json(plan, read_placing(placement="simple", seed=2))
    assert (told["placement"], told["seed"]) == ("simple", 2)
    (topic,) = told["topics"]
    assert topic == {
        "name": "x",
        "first_partition": 0,
        "partitions": 2,
        "replication_factor": 1,
        "configs": {"a": "b"},
        "replicas": {str(n): list(row) for n, row in enumerate(plan.wanted[0].rows)},
    }
    assert [each["id"] for each in told["brokers"]] == [0, 1, 2, 3, 4, 5]
    assert sum(each["leaders_after"] for each in told["racks"]) == 2


def test_replicas_in_words() -> None:
    assert replicas_text((0, 2), {0: "a", 1: "b", 2: None}) == "0:a 2:-"
    assert replicas_text((0, 2), {0: None, 2: None}) == "0 2"
    assert replicas_text((0, 2), {0: "a-very-long-rack", 2: "b"}) == "0 2"
