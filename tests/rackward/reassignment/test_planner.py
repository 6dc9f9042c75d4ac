from __future__ import annotations

from dataclasses import replace

import pytest

from placement_core import Broker, InvalidOptionError, TopicPartition
from placement_core.cluster import Move
from placement_core.locators import MetadataLocator
from placement_core.placers import MultiLevelPlacer, RackAlternatingPlacer, SimplePlacer
from rackward.admin import ClusterState, Ongoing
from rackward.reassignment import Load, Pace, PlanKind, RacksFrom, from_text, to_text
from rackward.reassignment.plan import after_view, make_plan
from rackward.reassignment.planner import PlacementRequest, check_request, moves_for, view_for
from tests.support.cluster_states import state as cluster

T = frozenset({"t"})


def moves(state: ClusterState, request: PlacementRequest) -> tuple[Move, ...]:
    check_request(request, state)
    return moves_for(request, view_for(state, MetadataLocator()))


def rows(found: tuple[Move, ...]) -> list[tuple[int, ...]]:
    return [move.after for move in found]


def test_by_default_faults_are_repaired_and_nothing_else() -> None:
    # Uneven, and one partition has both replicas in one rack.
    state = cluster({"t": [(0, 2), (0, 2), (0, 1)]})
    found = moves(state, PlacementRequest(T))
    assert [move.partition.partition for move in found] == [2]
    assert len(found[0].adding) == 1
    evened = moves(state, PlacementRequest(T, even=True))
    assert sum(len(move.adding) for move in evened) > 1


def test_other_topics_are_left_alone() -> None:
    state = cluster({"t": [(0, 2)], "u": [(0, 1)]})
    assert moves(state, PlacementRequest(T, replication_factor=3)) == moves(
        cluster({"t": [(0, 2)]}), PlacementRequest(T, replication_factor=3)
    )


def test_leaders_that_can_stay_do_unless_evenness_is_asked_for() -> None:
    state = cluster({"t": [(0, 2, 4)] * 6})
    raised = moves(state, PlacementRequest(T, replication_factor=4))
    assert [row[0] for row in rows(raised)] == [0] * 6
    # One partition stays as it is.
    evened = rows(moves(state, PlacementRequest(T, even=True)))
    assert sorted(row[0] for row in evened) == [1, 2, 3, 4, 5]
    # Those that must go are spread over who leads least.
    drained = moves(state, PlacementRequest(T, drain=frozenset({0})))
    assert sorted(row[0] for row in rows(drained)) == [1, 1, 2, 2, 4, 4]


def test_a_broker_that_is_down_is_drained_only_if_it_is_named() -> None:
    state = cluster({"t": [(0, 2), (1, 5)]}, down=[5])
    with pytest.raises(
        InvalidOptionError, match=r"broker 5 is down and holds 1 replica .*--drain 5"
    ):
        moves(state, PlacementRequest(T))
    (move,) = moves(state, PlacementRequest(T, drain=frozenset({5})))
    assert move.before == (1, 5)
    assert 5 not in move.after
    # It is nobody's concern where it holds nothing of these topics.
    aside = cluster({"t": [(0, 2)], "u": [(1, 5)]}, down=[5])
    assert moves(aside, PlacementRequest(T)) == ()


def test_brokers_to_drain_must_be_known() -> None:
    with pytest.raises(InvalidOptionError, match="--drain 9: the cluster has no such broker"):
        moves(cluster({"t": [(0, 2)]}), PlacementRequest(T, drain=frozenset({9})))
    fenced = replace(cluster({"t": [(0, 2)]}), fenced=(Broker(9),))
    assert moves(fenced, PlacementRequest(T, drain=frozenset({9}))) == ()


def test_topics_that_are_being_reassigned_are_not_planned() -> None:
    ongoing = {TopicPartition("t", 0): Ongoing((0, 2, 4), (4,), ())}
    state = cluster({"t": [(0, 2, 4), (1, 3)], "u": [(0, 2)]}, ongoing=ongoing)
    with pytest.raises(InvalidOptionError, match="1 partition of t is being reassigned"):
        moves(state, PlacementRequest(T))
    # Of other topics it counts as done.
    assert view_for(state, MetadataLocator()).replicas[TopicPartition("t", 0)] == (0, 2, 4)
    check_request(PlacementRequest(frozenset({"u"})), state)


def test_a_placer_places_what_is_missing_and_keeps_the_rest() -> None:
    state = cluster({"t": [(0,), (3,), (5,)]})
    placer = RackAlternatingPlacer(start_index=0, shift=0)
    request = PlacementRequest(T, replication_factor=3, placer=placer, fallback=SimplePlacer(0, 0))
    found = moves(state, request)
    assert [row[0] for row in rows(found)] == [0, 3, 5]
    assert all({broker // 2 for broker in row} == {0, 1, 2} for row in rows(found))
    lowered = moves(
        cluster({"t": [(0, 2, 4)]}), PlacementRequest(T, replication_factor=1, placer=placer)
    )
    assert rows(lowered) == [(0,)]


def test_a_placer_fills_in_for_brokers_that_are_drained() -> None:
    state = cluster({"t": [(0, 2, 4), (2, 4, 0), (4, 0, 2)]})
    placer = MultiLevelPlacer(seed=1)
    found = moves(state, PlacementRequest(T, drain=frozenset({4}), placer=placer))
    assert all(4 not in row and len(row) == 3 for row in rows(found))
    # What stays keeps its order; a leader that is drained is followed by the next.
    assert [row[0] for row in rows(found)] == [0, 2, 0]


def test_anew_places_as_if_the_topic_were_new() -> None:
    state = cluster({"t": [(0, 1, 2)] * 6})
    placer = RackAlternatingPlacer(start_index=0, shift=0)
    found = moves(state, PlacementRequest(T, placer=placer, anew=True))
    assert rows(found)[:2] == [(0, 2, 4), (2, 4, 1)]


def test_a_plan_of_moves_survives_its_file() -> None:
    state = cluster({"t": [(0,), (3,)], "u": [(1, 5)]})
    view = view_for(state, MetadataLocator())
    found = moves_for(PlacementRequest(T, replication_factor=2), view)
    made = make_plan(
        PlanKind.PLACEMENT,
        reversed(found),
        state,
        view,
        made="2026-11-21T13:40:00Z",
        asked={"replication_factor": 2},
        racks_from=RacksFrom.METADATA,
        sizes={TopicPartition("t", 0): 7},
        pace=Pace(),
    )
    assert made.topic_ids.keys() == {"t"}
    assert made.before[0] == Load(1, 1)
    assert sum(load.replicas for load in made.after.values()) == 6
    assert made.bytes_to_copy is None
    assert from_text("p", to_text(made)) == made
    after = after_view(view, found)
    assert after.replicas == {**view.replicas, **made.target}
