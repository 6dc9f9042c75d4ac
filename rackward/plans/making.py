"""A plan out of moves and the cluster that they were made for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from placement_core import ClusterView, TopicPartition
from placement_core.leaders import Locality
from placement_core.moves import Move
from rackward.admin import ClusterState
from rackward.plans.model import Asked, Load, Pace, Plan, PlanKind, PlannedMove, RacksFrom


def make_plan(
    kind: PlanKind,
    moves: Iterable[Move],
    state: ClusterState,
    view: ClusterView,
    *,
    made: str,
    asked: Asked,
    racks_from: RacksFrom,
    sizes: Mapping[TopicPartition, int],
    pace: Pace,
    localities: Iterable[Locality] = (),
) -> Plan:
    """The plan. ``view`` is what it was planned on; ``sizes`` are bytes on leaders, as far as they
    are known; ``made`` is when, as ISO 8601 in UTC."""
    moves = sorted(moves, key=lambda move: move.partition)
    after = {**view.replicas, **{move.partition: move.after for move in moves}}
    return Plan(
        kind=kind,
        cluster_id=state.cluster_id,
        made=made,
        asked=asked,
        racks_from=racks_from,
        brokers=view.racks(),
        topic_ids={
            topic: state.topic_ids[topic] for topic in sorted({m.partition.topic for m in moves})
        },
        moves=tuple(
            PlannedMove(move, view.leaders.get(move.partition), sizes.get(move.partition))
            for move in moves
        ),
        before=_loads(view, view.replicas),
        after=_loads(view, after),
        pace=pace,
        localities=tuple(localities),
    )


def after_view(view: ClusterView, moves: Iterable[Move]) -> ClusterView:
    """The view when all moves are made; who leads then, the cluster decides."""
    replicas = {**view.replicas, **{move.partition: move.after for move in moves}}
    return replace(view, replicas=replicas, leaders={})


def _loads(
    view: ClusterView, replicas: Mapping[TopicPartition, tuple[int, ...]]
) -> dict[int, Load]:
    holds: Counter[int] = Counter()
    leads: Counter[int] = Counter()
    for row in replicas.values():
        holds.update(row)
        leads.update(row[:1])
    return {
        broker: Load(holds[broker], leads[broker]) for broker in sorted({*view.racks(), *holds})
    }
