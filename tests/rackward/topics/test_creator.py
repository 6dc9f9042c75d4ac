"""Topics on fewer brokers than replicas: what is asked for, promised and shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_core import TopicPartition
from placement_core.audit import Kind, Severity, audit
from placement_core.placers import PlacementError
from placement_core.under_replication import Wanted
from rackward.admin import ClusterState
from rackward.cli.options import read_placing
from rackward.cli.render.topics import Description, describe_json, plan_json, replicas_text
from rackward.controller.pending_replicas import layout_digest
from rackward.topics.creator import intents_of
from rackward.topics.health import Note, health_of
from rackward.topics.planner import plan_more, plan_new
from tests.rackward.cli.test_topics_describe import screen
from tests.support.cluster_states import state

RACKS = ["a", "b", "c"]
PLACING = read_placing(seed=1)


def with_down(topics: dict[str, list[tuple[int, ...]]], down: list[int]) -> ClusterState:
    """Brokers 0, 1, 2 in racks a, b, c, some down, as the live cluster tells."""
    found = state(topics, RACKS, down=down)
    assert {each.id for each in found.fenced} == set(down)
    return found


def test_a_new_topic_is_asked_for_without_its_placeholders() -> None:
    before = with_down({}, [2])
    plan = plan_new(before, ["t"], PLACING, 2, 3, {}, min_insync_replicas=2)
    (wanted,) = plan.wanted
    assert all(row[2] == -1 and set(row[:2]) == {0, 1} for row in wanted.rows)
    assert wanted.asked == tuple(row[:2] for row in wanted.rows)
    assert sum(map(len, plan.after.replicas.values())) == 4
    (promise,) = intents_of(plan.wanted, before)
    assert (promise.topic, promise.topic_id, promise.replication_factor) == ("t", None, 3)
    assert (promise.open, promise.stand_ins) == ((0, 1), frozenset())
    assert promise.layout == layout_digest(dict(enumerate(wanted.asked)))
    assert plan_json(plan, PLACING)["topics"][0]["replication_factor"] == 3


def test_with_brokers_enough_nothing_is_promised() -> None:
    before = with_down({}, [])
    plan = plan_new(before, ["t"], PLACING, 3, 3, {}, min_insync_replicas=2)
    assert plan == plan_new(before, ["t"], PLACING, 3, 3, {})
    assert intents_of(plan.wanted, before) == ()


def test_without_leave_it_is_refused() -> None:
    with pytest.raises(PlacementError, match="replication factor 3 on 2 brokers"):
        plan_new(with_down({}, [2]), ["t"], PLACING, 2, 3, {})


def test_too_few_to_write_are_refused_with_the_topics_name() -> None:
    with pytest.raises(PlacementError, match=r"topic t: .*2 replicas in sync are needed to write"):
        plan_new(with_down({}, [1, 2]), ["t"], PLACING, 2, 3, {}, min_insync_replicas=2)


def test_a_broker_that_is_down_stands_in_for_new_partitions_of_an_old_topic() -> None:
    before = with_down({"t": [(0, 1, 2), (1, 2, 0)]}, [2])
    plan = plan_more(before, ["t"], PLACING, 4, {"t": 2})
    (wanted,) = plan.wanted
    assert all(row[2] == -1 for row in wanted.rows)
    assert all(row[2] == 2 for row in wanted.asked)
    (promise,) = intents_of(plan.wanted, before)
    assert (promise.open, promise.stand_ins) == ((2, 3), frozenset({2}))
    assert promise.topic_id == before.topic_ids["t"]


def test_no_broker_to_stand_in_is_refused() -> None:
    before = with_down({"t": [(0, 1, 2)]}, [2])
    forgotten = replace(before, fenced=())
    with pytest.raises(PlacementError, match="Kafka takes no shorter ones"):
        plan_more(forgotten, ["t"], PLACING, 2, {"t": 1})


def test_an_under_replicated_topic_grows_to_what_it_was_promised() -> None:
    """Its lists have two replicas, so new ones must have two, though three brokers are live."""
    before = with_down({"t": [(0, 1), (1, 0)]}, [])
    wanted = {TopicPartition("t", 0): Wanted(3), TopicPartition("t", 1): Wanted(3)}
    plan = plan_more(before, ["t"], PLACING, 3, {"t": 2}, wanted)
    (made,) = plan.wanted
    assert len(made.rows[0]) == 3
    assert made.asked == (made.rows[0][:2],)
    (promise,) = intents_of(plan.wanted, before)
    assert (promise.open, promise.replication_factor) == ((2,), 3)


def test_an_under_replicated_topic_does_not_grow_by_mistake() -> None:
    """New partitions would have the two replicas of the others, and nobody would add the third."""
    before = with_down({"t": [(0, 1)]}, [])
    wanted = {TopicPartition("t", 0): Wanted(3)}
    with pytest.raises(PlacementError, match="t has 2 replicas for now and shall have 3: wait"):
        plan_more(before, ["t"], PLACING, 2, None, wanted)


def test_placeholders_have_no_rack() -> None:
    assert replicas_text((0, 1, -1, -2), {0: "a", 1: None}) == "0:a 1:- -1 -2"


SHORT = with_down({"t": [(0, 1), (1, 0)], "u": [(0, 1)]}, [2])
WANTED = {TopicPartition("t", 0): Wanted(3), TopicPartition("t", 1): Wanted(3)}


def test_descriptions_show_placeholders_and_what_they_wait_for() -> None:
    health = health_of(SHORT, {}, WANTED)
    assert health.notes == dict.fromkeys(WANTED, (Note.PLACEHOLDERS,))
    found = Description(SHORT, health, {}, ("t", "u"), False, (), WANTED)
    shown = screen(found, named=True, width=200)
    assert "0:a 1:b -1" in shown
    assert "there are 2 live brokers in racks a, b, and 3 are needed: start 1 more" in shown
    lists = {
        (each["name"], one["partition"]): one["replicas"]
        for each in describe_json(found)["topics"]
        for one in each["partitions"]
    }
    assert lists == {("t", 0): [0, 1, -1], ("t", 1): [1, 0, -1], ("u", 0): [0, 1]}


def test_an_audit_says_what_placeholders_wait_for() -> None:
    view = replace(SHORT.view, leaders=SHORT.view.leaders)
    (finding,) = [
        each for each in audit(view, wanted=WANTED).findings if each.kind is Kind.PLACEHOLDERS
    ]
    assert (finding.severity, finding.subject) == (Severity.WARNING, "t")
    assert finding.partitions == tuple(WANTED)
    assert "2 partitions (0, 1) with placeholders for 1 replica each" in finding.message


def test_placeholders_that_could_be_filled_ask_for_the_controller() -> None:
    whole = with_down({"t": [(0, 1)]}, [])
    wanted = {TopicPartition("t", 0): Wanted(3)}
    (finding,) = [
        each for each in audit(whole.view, wanted=wanted).findings if each.kind is Kind.PLACEHOLDERS
    ]
    assert "there are brokers enough: see that rackward controller runs" in finding.message
