"""From what is asked of a placement to the moves that it takes: pure but for the locator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from placement_core import ClusterView, InvalidOptionError, PlacementSpec, TopicPartition
from placement_core.cluster import Move, moves_between
from placement_core.locators import RackLocator, locate
from placement_core.placers import ReplicaPlacer, SimplePlacer, place
from placement_core.reassignment import plan_reassignment
from rackward.admin import ClusterState

Replicas = Mapping[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """What a placement shall be.

    topics
        Those that may change.
    replication_factor
        None: as it is, topic by topic.
    drain
        Brokers that shall hold nothing; those that are down may be among them.
    even
        Also even out what brokers carry, at the cost of further copies, and whom they lead;
        without it, leaders that can stay do.
    placer
        Who places missing replicas; None: the nearest layout that keeps the rack rules.
    anew
        With a placer: place whole topics as if they were new.
    """

    topics: frozenset[str]
    replication_factor: int | None = None
    drain: frozenset[int] = frozenset()
    even: bool = False
    ignore_racks: bool = False
    placer: ReplicaPlacer | None = None
    fallback: SimplePlacer | None = None
    anew: bool = False


def view_for(state: ClusterState, locator: RackLocator) -> ClusterView:
    """The cluster as planning sees it: racks from the locator, and partitions that are being
    reassigned as they will be. Raises what :func:`placement_core.locators.locate` raises."""
    coming = {place: each.target for place, each in state.ongoing.items()}
    return locate(locator, replace(state.view, replicas={**state.view.replicas, **coming}))


def check_request(
    request: PlacementRequest, state: ClusterState, *, leaders_only: bool = False
) -> None:
    """Raise InvalidOptionError where it cannot be planned now: topics that are being reassigned,
    brokers to drain that are not known, brokers that are down and hold what may change."""
    busy = sorted({place.topic for place in state.ongoing} & request.topics)
    if busy:
        count = sum(place.topic in request.topics for place in state.ongoing)
        raise InvalidOptionError(
            f"{count} partition{'s' if count > 1 else ''} of {_some(busy)} "
            f"{'are' if count > 1 else 'is'} being reassigned: wait for that, cancel it with "
            "rackward placement cancel, or leave the topics out with --exclude"
        )
    if leaders_only:
        return
    live = set(state.view.racks())
    chosen = {p: row for p, row in state.view.replicas.items() if p.topic in request.topics}
    down = {broker for row in chosen.values() for broker in row} - live
    known = live | {broker.id for broker in state.fenced} | down
    if unknown := sorted(request.drain - known):
        raise InvalidOptionError(
            f"--drain {unknown[0]}: the cluster has no such broker; it has {_some(sorted(known))}"
        )
    if away := sorted(down - request.drain):
        held = sum(broker in row for row in chosen.values() for broker in away)
        many = len(away) > 1
        raise InvalidOptionError(
            f"broker{'s' if many else ''} {_some(away)} {'are' if many else 'is'} down and "
            f"{'hold' if many else 'holds'} {held} replica{'s' if held > 1 else ''} of these "
            f"topics: start {'them' if many else 'it'} again, or move what "
            f"{'they hold' if many else 'it holds'} with --drain {','.join(map(str, away))}"
        )


def moves_for(request: PlacementRequest, view: ClusterView) -> tuple[Move, ...]:
    """The moves, in order. Raises InvalidOptionError where there is no such layout, and what
    placers raise."""
    drain = request.drain & set(view.racks())
    if request.placer is not None:
        target = _placed(request, view, drain)
        return moves_between({p: view.replicas[p] for p in target}, target)
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
    return moves if request.even else keep_leaders(moves, view)


def keep_leaders(moves: Iterable[Move], view: ClusterView) -> tuple[Move, ...]:
    """The same replicas, and every preferred leader that can stay does: nobody asked for others,
    and they may well be where a leader layout has put them.

    Where the leader goes, of the replicas that are there to choose from the one on the broker
    that leads least is put first, partition by partition.
    """
    leads = Counter(row[0] for row in view.replicas.values() if row)
    kept: list[Move] = []
    for move in moves:
        if move.before[0] in move.after:
            first = move.before[0]
        else:
            leads[move.before[0]] -= 1
            first = min(move.after, key=lambda broker: (leads[broker], move.after.index(broker)))
            leads[first] += 1
        after = (first, *(broker for broker in move.after if broker != first))
        if after != move.before and not (move.order_only and first == move.before[0]):
            kept.append(Move(move.partition, move.before, after))
    return tuple(kept)


def _placed(request: PlacementRequest, view: ClusterView, drain: frozenset[int]) -> Replicas:
    """Each topic as the placer has it: what may stay stays (unless ``anew``), the rest is its."""
    staying = set(view.racks()) - drain
    target: dict[TopicPartition, tuple[int, ...]] = {}
    for topic, rows in sorted(_by_topic(view.replicas, request.topics).items()):
        factor = request.replication_factor or max(map(len, rows))
        kept = [tuple(broker for broker in row if broker in staying)[:factor] for row in rows]
        spec = PlacementSpec(
            partitions=len(rows),
            replication_factor=factor,
            topic=topic,
            present=() if request.anew else tuple(kept),
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


def _by_topic(replicas: Replicas, topics: Collection[str]) -> dict[str, list[tuple[int, ...]]]:
    found: dict[str, list[tuple[int, ...]]] = {}
    for partition, row in sorted(replicas.items()):
        if partition.topic in topics:
            found.setdefault(partition.topic, []).append(row)
    return found


def _some(names: Iterable[object]) -> str:
    found = list(map(str, names))
    return ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
