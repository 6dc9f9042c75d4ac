"""From a layout to the nearest one that keeps the rules: fewest replicas copied."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.exchange import SquaredLoads, even_out, settle
from placement_core.leaders.choice import LeaderChoice
from placement_core.matching import IntArray
from placement_core.moves import Move, moves_between
from placement_core.rack_shares import RackTree
from placement_core.reassignment.replica_sets import ReplicaSets
from placement_core.reassignment.request import Request, read_request
from placement_core.reassignment.start import first_choice


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A target, and what it takes to get there.

    target
        The replica list of every partition in question, changed or not.
    moves
        The partitions whose list changes, in order of topic and partition.
    copies
        Replicas to copy: the fewest that lead to any target of these rules.
    leader_changes
        Partitions whose preferred leader changes.
    """

    target: Mapping[TopicPartition, tuple[int, ...]]
    moves: tuple[Move, ...]
    copies: int
    leader_changes: int


def plan_reassignment(
    view: ClusterView,
    *,
    replication_factor: int | Mapping[str, int] | None = None,
    drain: Collection[int] = (),
    topics: Collection[str] | None = None,
    even: bool = True,
    ignore_racks: bool = False,
) -> Reassignment:
    """The nearest layout without faults. By rank:

    1. every partition has its replication factor in distinct brokers of ``view.brokers`` that
       are not in ``drain``, and keeps the rack rules (each rack at most one replica while there
       are as many racks; else at least one, and as even as the racks' brokers permit; with
       levels, the widest first): :mod:`~placement_core.rack_shares`;
    2. the least sum of squared replicas per broker that rule 1 permits: floor or ceiling, where
       racks are equal;
    3. the fewest replicas that have to be copied to brokers that do not hold them;
    4. for these replica sets, the least sum of squared preferred leaders per broker;
    5. then the fewest changes of preferred leader; of the replicas that do not lead, those that
       stay come first, in their present order.

    Ranks 1 to 3 are exact together, and so are 4 and 5 for the replica sets found: see
    :mod:`placement_core.exchange`.

    ``replication_factor``: for all topics, or per topic; left out: the length of the present
    list. ``topics``: those that may change; others only count where loads are added up.
    ``even=False`` ranks copies before loads: it repairs faults and moves nothing else. And
    preferred leaders that may stay keep their replicas, also where that is less even: what is
    taken away, from a topic whose replication factor falls, is taken from the others.
    ``ignore_racks`` treats all brokers as one rack; it is needed where only some of them have
    one. A broker that appears in replica lists but not in ``view.brokers`` is gone, and loses
    its replicas as in a drain.

    Raises InvalidOptionError where no such layout exists.
    """
    request = read_request(view, replication_factor, drain, topics, ignore_racks)
    if not request.partitions:
        return Reassignment({}, (), 0, 0)
    tree = RackTree.of(request.racks)
    factors, share = np.unique(request.replicas, return_inverse=True)
    bounds = [tree.shares(factor) for factor in factors.tolist()]
    least, most = (np.stack(rows) for rows in zip(*bounds, strict=True))
    first = np.full_like(request.leader, -1) if even else request.leader
    start = first_choice(
        tree, request.held, request.replicas, share, (least, most), request.base, first
    )
    pinned = np.where((start == first[:, None]).any(axis=1), first, -1)
    sets = ReplicaSets(tree, start, request.held, share, least, most, pinned)
    _settle_replicas(sets, request.base, even)
    leaders = LeaderChoice.of(sets.chosen, request.leader, len(request.brokers))
    even_out(leaders, request.base_leaders)
    settle(leaders, SquaredLoads(request.base_leaders, len(request.brokers) + 2))
    target = _target(request, sets.chosen, leaders.chosen)
    moves = moves_between({p: view.replicas[p] for p in target}, target)
    return Reassignment(
        target=target,
        moves=moves,
        copies=int(sets.copied().sum()),
        leader_changes=sum(move.before[:1] != move.after[:1] for move in moves),
    )


def _settle_replicas(sets: ReplicaSets, base: IntArray, even: bool) -> None:
    """Rank loads and copies: a cycle visits each broker once, and its squares add up to less
    than twice the largest load that it can lead to."""
    if even:
        even_out(sets, base)
        settle(sets, SquaredLoads(base, len(base) + 2))
        return
    sets.unit = 4 * (int((base + sets.loads).max()) + len(sets.chosen)) + 2
    settle(sets, SquaredLoads(base, 1))


def _target(
    request: Request, chosen: IntArray, leader: IntArray
) -> dict[TopicPartition, tuple[int, ...]]:
    """Replica lists: the leader, then those that stay in their order, then the new ones."""
    held = request.held
    place = np.full(chosen.shape, held.shape[1])
    for slot in range(held.shape[1] - 1, -1, -1):
        place[(chosen == held[:, slot, None]) & (chosen >= 0)] = slot
    place[chosen == leader[:, None]] = -1
    place[chosen < 0] = held.shape[1] + 1
    broker = np.lexsort((chosen, place), axis=1)
    ordered = np.take_along_axis(chosen, broker, axis=1)
    ids = np.append(np.array(request.brokers, np.int64), -1)[ordered].tolist()
    return {
        partition: tuple(row[:count])
        for partition, row, count in zip(
            request.partitions, ids, request.replicas.tolist(), strict=True
        )
    }
