"""Plan the moves of ``placement plan``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from placement_core import ClusterView, InvalidOptionError, PlacementSpec, TopicPartition
from placement_core.cluster import Move, moves_between
from placement_core.locators import RackLocator, apply_locator
from placement_core.placers import ReplicaPlacer, SimplePlacer, place
from placement_core.reassignment.plan import plan_reassignment, rackless_brokers
from rackward.kafka import ClusterState
from rackward.units import format_brokers, format_count, format_list

Replicas = Mapping[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ReassignmentRequest:
    """The layout to plan for.

    topics
        The topics that may change.
    replication_factor
        None: that of each topic now.
    drain
        Brokers that shall have no replicas of these topics; they may be down.
    even
        Level replicas and leaders over the brokers, at the cost of more copies. Otherwise
        preferred leaders that can stay do.
    placer
        Places missing replicas; None: the layout within the rack rules with the fewest copies.
    from_scratch
        With a placer: place the topics as if they were new.
    """

    topics: frozenset[str]
    replication_factor: int | None = None
    drain: frozenset[int] = frozenset()
    even: bool = False
    ignore_racks: bool = False
    placer: ReplicaPlacer | None = None
    fallback: SimplePlacer | None = None
    from_scratch: bool = False


def planning_view(state: ClusterState, locator: RackLocator) -> ClusterView:
    """Return the cluster with the locator's racks, and with reassignments in progress completed.

    Raises what :func:`placement_core.locators.apply_locator` raises.
    """
    targets = {tp: each.target for tp, each in state.reassignments.items()}
    return apply_locator(locator, replace(state.view, replicas={**state.view.replicas, **targets}))


def check_not_reassigning(topics: Collection[str], state: ClusterState) -> None:
    """Raise InvalidOptionError if partitions of these topics are being reassigned."""
    busy = [tp for tp in state.reassignments if tp.topic in topics]
    if busy:
        raise InvalidOptionError(
            f"{format_count(len(busy), 'partition')} of "
            f"{format_list(sorted({tp.topic for tp in busy}))} "
            f"{'are' if len(busy) > 1 else 'is'} being reassigned: wait, cancel with rackward "
            "placement cancel, or exclude the topics with --exclude"
        )


def check_request(request: ReassignmentRequest, state: ClusterState) -> None:
    """Raise InvalidOptionError if the request cannot be planned now.

    That is if partitions are being reassigned, if a broker to drain is unknown, and if a broker
    that has replicas of the topics is down and not to be drained.
    """
    check_not_reassigning(request.topics, state)
    live = set(state.view.racks())
    rows = [row for tp, row in state.view.replicas.items() if tp.topic in request.topics]
    down = {broker for row in rows for broker in row} - live
    known = live | {broker.id for broker in state.fenced} | down
    if unknown := sorted(request.drain - known):
        raise InvalidOptionError(
            f"--drain {unknown[0]}: no such broker; the cluster has {format_list(sorted(known))}"
        )
    if missing := sorted(down - request.drain):
        replicas = sum(broker in row for row in rows for broker in missing)
        several = len(missing) > 1
        raise InvalidOptionError(
            f"{format_brokers(missing)} {'are' if several else 'is'} down and "
            f"{'have' if several else 'has'} {format_count(replicas, 'replica')} of these topics: "
            f"start {'them' if several else 'it'} again, or move the replicas with "
            f"--drain {','.join(map(str, missing))}"
        )


def plan_moves(request: ReassignmentRequest, view: ClusterView) -> tuple[Move, ...]:
    """Return the moves, sorted.

    Raises InvalidOptionError if there is no such layout, and what placers raise.
    """
    drain = request.drain & set(view.racks())
    if request.placer is not None:
        target = _place(request, view, drain)
        return moves_between({tp: view.replicas[tp] for tp in target}, target)
    factor: dict[str, int] | None = None
    if request.replication_factor is not None:
        factor = dict.fromkeys(sorted(request.topics), request.replication_factor)
    moves = plan_reassignment(
        view,
        replication_factor=factor,
        drain=drain,
        topics=request.topics,
        even=request.even,
        ignore_racks=request.ignore_racks,
    ).moves
    return moves if request.even else _keep_leaders(moves, view)


def rackless_notes(request: ReassignmentRequest, view: ClusterView) -> list[str]:
    """Return a sentence about brokers that are left out because only they have no rack, if any."""
    rackless = rackless_brokers(view, request.drain, ignore_racks=request.ignore_racks)
    if not rackless or request.placer is not None:
        return []
    kept = sum(
        tp.topic in request.topics and not rackless.isdisjoint(row)
        for tp, row in view.replicas.items()
    )
    several = len(rackless) > 1
    return [
        f"Note: {format_brokers(rackless)} {'have' if several else 'has'} no rack, and others "
        f"have one. {'They get' if several else 'It gets'} no replicas, and the "
        f"{format_count(kept, 'partition')} with a replica there {'are' if kept != 1 else 'is'} "
        "not changed: set broker.rack there, or give --drain or --ignore-racks."
    ]


def _keep_leaders(moves: Iterable[Move], view: ClusterView) -> tuple[Move, ...]:
    """Return moves to the same replicas that keep every preferred leader that can stay.

    Leveling leaders was not requested, and a leader layout may have chosen them. The successor of
    a leader that goes is the new replica on the broker with the fewest leaders.
    """
    leaders = Counter(row[0] for row in view.replicas.values() if row)
    reordered: list[Move] = []
    for move in moves:
        first = move.before[0]
        if first not in move.after:
            leaders[first] -= 1
            first = min(move.after, key=lambda broker: (leaders[broker], move.after.index(broker)))
            leaders[first] += 1
        after = (first, *(broker for broker in move.after if broker != first))
        if after != move.before and not (move.order_only and first == move.before[0]):
            reordered.append(Move(move.partition, move.before, after))
    return tuple(reordered)


def _place(request: ReassignmentRequest, view: ClusterView, drain: frozenset[int]) -> Replicas:
    """Return the placer's layout of each topic. Replicas that can stay do, if not from scratch."""
    staying = set(view.racks()) - drain
    rows_by_topic: dict[str, list[tuple[int, ...]]] = {}
    for tp, row in sorted(view.replicas.items()):
        if tp.topic in request.topics:
            rows_by_topic.setdefault(tp.topic, []).append(row)
    target: dict[TopicPartition, tuple[int, ...]] = {}
    for topic, rows in sorted(rows_by_topic.items()):
        factor = request.replication_factor or max(map(len, rows))
        present = [tuple(broker for broker in row if broker in staying)[:factor] for row in rows]
        spec = PlacementSpec(
            partitions=len(rows),
            replication_factor=factor,
            topic=topic,
            present=() if request.from_scratch else tuple(present),
            ignore_racks=request.ignore_racks,
        )
        layout = place(
            spec,
            view,
            request.placer,
            broker_ids=sorted(staying) if drain else None,
            fallback=request.fallback,
        )
        target.update(
            (TopicPartition(topic, number), tuple(row)) for number, row in enumerate(layout)
        )
    return target
