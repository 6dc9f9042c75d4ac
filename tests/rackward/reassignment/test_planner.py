"""Planning of reassignments: repairs, drained brokers, placers, moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placement_core import Broker, InvalidOptionError, TopicPartition
from placement_core.cluster import Move
from placement_core.locators import MetadataLocator
from placement_core.placers import MultiLevelPlacer, RackAlternatingPlacer, SimplePlacer
from rackward.kafka import ClusterState, Reassignment
from rackward.reassignment import BatchLimits, PlanKind, PlannedChange, RackSource
from rackward.reassignment.plan import build_plan, format_plan, parse_plan
from rackward.reassignment.planner import (
    ReassignmentRequest,
    check_not_reassigning,
    check_request,
    plan_moves,
    planning_view,
    rackless_notes,
)
from tests.support.simulated_cluster import cluster_state

T = frozenset({"t"})


def plan(state: ClusterState, **request: Any) -> tuple[Move, ...]:
    """Return the moves of topic t for a ReassignmentRequest with these fields."""
    full_request = ReassignmentRequest(T, **request)
    check_request(full_request, state)
    return plan_moves(full_request, planning_view(state, MetadataLocator()))


def replicas_after(moves: tuple[Move, ...]) -> list[tuple[int, ...]]:
    return [move.after for move in moves]


def first_replicas(moves: tuple[Move, ...]) -> list[int]:
    return [move.after[0] for move in moves]


def test_by_default_only_broken_rack_rules_are_repaired() -> None:
    # Uneven, and one partition has both replicas in one rack.
    state = cluster_state({"t": [(0, 2), (0, 2), (0, 1)]})
    (move,) = plan(state)
    assert move.partition.partition == 2
    assert len(move.adding) == 1
    assert sum(len(each.adding) for each in plan(state, even=True)) > 1


def test_other_topics_do_not_change() -> None:
    state = cluster_state({"t": [(0, 2)], "u": [(0, 1)]})
    without_u = cluster_state({"t": [(0, 2)]})
    assert plan(state, replication_factor=3) == plan(without_u, replication_factor=3)


def test_leaders_do_not_change_without_need_unless_even() -> None:
    state = cluster_state({"t": [(0, 2, 4)] * 6})
    assert first_replicas(plan(state, replication_factor=4)) == [0] * 6
    # One partition does not change.
    assert sorted(first_replicas(plan(state, even=True))) == [1, 2, 3, 4, 5]
    # The successors of broker 0 are those with the fewest leaders.
    drained = plan(state, drain=frozenset({0}))
    assert sorted(first_replicas(drained)) == [1, 1, 2, 2, 4, 4]


def test_a_broker_that_is_down_has_to_be_drained_by_name() -> None:
    state = cluster_state({"t": [(0, 2), (1, 5)]}, down=[5])
    with pytest.raises(InvalidOptionError, match=r"broker 5 is down and has 1 replica .*--drain 5"):
        plan(state)
    (move,) = plan(state, drain=frozenset({5}))
    assert move.before == (1, 5)
    assert 5 not in move.after
    # Unless it has no replicas of these topics.
    assert plan(cluster_state({"t": [(0, 2)], "u": [(1, 5)]}, down=[5])) == ()


def test_brokers_to_drain_have_to_be_known() -> None:
    state = cluster_state({"t": [(0, 2)]})
    with pytest.raises(InvalidOptionError, match="--drain 9: no such broker; the cluster has 0, 1"):
        plan(state, drain=frozenset({9}))
    assert plan(replace(state, fenced=(Broker(9),)), drain=frozenset({9})) == ()


def test_topics_that_are_being_reassigned_cannot_be_planned() -> None:
    reassignments = {TopicPartition("t", 0): Reassignment((0, 2, 4), (4,), ())}
    state = cluster_state({"t": [(0, 2, 4), (1, 3)], "u": [(0, 2)]}, reassignments=reassignments)
    with pytest.raises(InvalidOptionError, match="1 partition of t is being reassigned"):
        plan(state)
    # For other topics they count as completed.
    view = planning_view(state, MetadataLocator())
    assert view.replicas[TopicPartition("t", 0)] == (0, 2, 4)
    check_not_reassigning({"u"}, state)


def test_a_placer_adds_missing_replicas_and_keeps_the_others() -> None:
    placer = RackAlternatingPlacer(start_index=0, shift=0)
    moves = plan(
        cluster_state({"t": [(0,), (3,), (5,)]}),
        replication_factor=3,
        placer=placer,
        fallback=SimplePlacer(0, 0),
    )
    assert first_replicas(moves) == [0, 3, 5]
    assert all({broker // 2 for broker in row} == {0, 1, 2} for row in replicas_after(moves))
    lowered = plan(cluster_state({"t": [(0, 2, 4)]}), replication_factor=1, placer=placer)
    assert replicas_after(lowered) == [(0,)]


def test_a_placer_replaces_drained_brokers() -> None:
    state = cluster_state({"t": [(0, 2, 4), (2, 4, 0), (4, 0, 2)]})
    moves = plan(state, drain=frozenset({4}), placer=MultiLevelPlacer(seed=1))
    assert all(4 not in row and len(row) == 3 for row in replicas_after(moves))
    # Remaining replicas keep their order; the second replica succeeds a drained leader.
    assert first_replicas(moves) == [0, 2, 0]


def test_from_scratch_ignores_the_present_replicas() -> None:
    placer = RackAlternatingPlacer(start_index=0, shift=0)
    moves = plan(cluster_state({"t": [(0, 1, 2)] * 6}), placer=placer, from_scratch=True)
    assert replicas_after(moves)[:2] == [(0, 2, 4), (2, 4, 1)]


def test_a_plan_of_moves() -> None:
    state = cluster_state({"t": [(0,), (3,)], "u": [(1, 5)]})
    view = planning_view(state, MetadataLocator())
    moves = plan_moves(ReassignmentRequest(T, replication_factor=2), view)
    built = build_plan(
        PlanKind.PLACEMENT,
        reversed(moves),
        state,
        view,
        created_at="2026-11-21T13:40:00Z",
        options={"replication_factor": 2},
        rack_source=RackSource.METADATA,
        sizes={TopicPartition("t", 0): 7},
        limits=BatchLimits(),
    )
    assert built.moves == moves
    assert built.topic_ids.keys() == {"t"}
    assert built.sizes == {TopicPartition("t", 0): 7}
    assert parse_plan("p", format_plan(built)) == built
    assert PlannedChange(view, moves, {}).after.replicas == {**view.replicas, **built.target}


def test_a_note_about_brokers_without_a_rack() -> None:
    state = cluster_state({"t": [(0, 2), (1, 5)]})
    brokers = (*(each for each in state.view.brokers if each.id != 5), Broker(5))
    view = replace(state.view, brokers=brokers)
    (note,) = rackless_notes(ReassignmentRequest(T), view)
    assert "broker 5 has no rack" in note
    assert "the 1 partition with a replica there is not changed" in note
    for request in (
        ReassignmentRequest(T, ignore_racks=True),
        ReassignmentRequest(T, drain=frozenset({5})),
    ):
        assert rackless_notes(request, view) == []
