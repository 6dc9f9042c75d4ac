"""Topics with fewer live brokers than replicas: requests, pending replicas, descriptions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_core import TopicPartition
from placement_core.audit import Kind
from placement_core.placers import PlacementError
from placement_core.placers.under_replicated import ReplicationTarget
from rackward.cli.describe import description_of
from rackward.cli.options import PlacingOptions
from rackward.kafka import ClusterState
from rackward.topics.creator import pending_replicas
from rackward.topics.health import partition_health
from rackward.topics.pending_replicas import layout_digest
from rackward.topics.planner import plan_additional_partitions, plan_new_topics
from tests.rackward.cli.test_describe import render
from tests.support.simulated_cluster import cluster_state

RACKS = ["a", "b", "c"]
PLACEMENT = PlacingOptions(seed=1).parse()
TARGETS = {TopicPartition("t", number): ReplicationTarget(3) for number in range(2)}


def with_down(topics: dict[str, list[tuple[int, ...]]], down: list[int]) -> ClusterState:
    """Return a state with the brokers 0, 1, 2 in the racks a, b, c, some of them down."""
    state = cluster_state(topics, RACKS, down=down)
    assert {broker.id for broker in state.fenced} == set(down)
    return state


def test_a_new_topic_is_requested_without_placeholders() -> None:
    before = with_down({}, [2])
    plan = plan_new_topics(before, ["t"], PLACEMENT, 2, 3, {}, min_insync_replicas=2)
    (new,) = plan.new
    assert all(row[2] == -1 and set(row[:2]) == {0, 1} for row in new.replicas)
    assert new.requested == tuple(row[:2] for row in new.replicas)
    assert sum(map(len, plan.after.replicas.values())) == 4
    (pending,) = pending_replicas(plan.new, before)
    assert (pending.topic, pending.topic_id, pending.replication_factor) == ("t", None, 3)
    assert (pending.partitions, pending.offline_replicas) == ((0, 1), frozenset())
    assert pending.layout == layout_digest(dict(enumerate(new.requested)))


def test_nothing_is_pending_with_enough_brokers() -> None:
    before = with_down({}, [])
    plan = plan_new_topics(before, ["t"], PLACEMENT, 3, 3, {}, min_insync_replicas=2)
    assert plan == plan_new_topics(before, ["t"], PLACEMENT, 3, 3, {})
    assert pending_replicas(plan.new, before) == ()


def test_too_few_brokers_are_an_error_by_default() -> None:
    with pytest.raises(PlacementError, match="replication factor 3 on 2 brokers"):
        plan_new_topics(with_down({}, [2]), ["t"], PLACEMENT, 2, 3, {})


def test_fewer_brokers_than_min_isr_are_an_error() -> None:
    with pytest.raises(PlacementError, match=r"topic t: .*2 in-sync replicas are needed to write"):
        plan_new_topics(with_down({}, [1, 2]), ["t"], PLACEMENT, 2, 3, {}, min_insync_replicas=2)


def test_additional_partitions_are_requested_on_down_brokers() -> None:
    before = with_down({"t": [(0, 1, 2), (1, 2, 0)]}, [2])
    plan = plan_additional_partitions(before, ["t"], PLACEMENT, 4, {"t": 2})
    (new,) = plan.new
    assert all(row[2] == -1 for row in new.replicas)
    assert all(row[2] == 2 for row in new.requested)
    (pending,) = pending_replicas(plan.new, before)
    assert (pending.partitions, pending.offline_replicas) == ((2, 3), frozenset({2}))
    assert pending.topic_id == before.topic_ids["t"]


def test_additional_partitions_need_enough_known_brokers() -> None:
    before = with_down({"t": [(0, 1, 2)]}, [2])
    without_fenced = replace(before, fenced=())
    with pytest.raises(PlacementError, match="Kafka accepts no shorter ones"):
        plan_additional_partitions(without_fenced, ["t"], PLACEMENT, 2, {"t": 1})


def test_additional_partitions_get_the_pending_factor() -> None:
    """Kafka requires two replicas, like those of existing partitions; three brokers are live."""
    before = with_down({"t": [(0, 1), (1, 0)]}, [])
    plan = plan_additional_partitions(before, ["t"], PLACEMENT, 3, {"t": 2}, TARGETS)
    (new,) = plan.new
    assert len(new.replicas[0]) == 3
    assert new.requested == (new.replicas[0][:2],)
    (pending,) = pending_replicas(plan.new, before)
    assert (pending.partitions, pending.replication_factor) == ((2,), 3)


def test_adding_partitions_to_under_replicated_topic_is_refused() -> None:
    """New partitions would get two replicas, and the controller would not add the third."""
    before = with_down({"t": [(0, 1)]}, [])
    targets = {TopicPartition("t", 0): ReplicationTarget(3)}
    with pytest.raises(
        PlacementError, match="t has 2 replicas, and 3 once rackward controller has added"
    ):
        plan_additional_partitions(before, ["t"], PLACEMENT, 2, None, targets)


def test_descriptions_show_placeholders() -> None:
    short = with_down({"t": [(0, 1), (1, 0)], "u": [(0, 1)]}, [2])
    health = partition_health(short, {}, TARGETS)
    assert health.notes == dict.fromkeys(TARGETS, (Kind.PLACEHOLDERS,))
    description = description_of(short, health, {}, ("t", "u"), (), TARGETS)
    shown = render(description, named=True, width=200)
    assert "0:a 1:b -1" in shown
    assert "2 live brokers in racks a, b, but 3 are needed: start 1 more" in shown
    lists = {
        (topic.name, partition.partition): partition.replicas
        for topic in description.topics
        for partition in topic.partitions
    }
    assert lists == {("t", 0): (0, 1, -1), ("t", 1): (1, 0, -1), ("u", 0): (0, 1)}
