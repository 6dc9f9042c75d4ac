"""From a layout to the nearest one that keeps the rules: fewest replicas copied."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement_core.cluster import ClusterView, Move, TopicPartition, moves_between
from placement_core.errors import InvalidOptionError
from placement_core.flow import IntArray, SquaredLoads, even_out, settle
from placement_core.leaders.search import LeaderChoice
from placement_core.rack_bounds import RackTree
from placement_core.racks import RackPath, parse_rack
from placement_core.reassignment.replica_sets import ReplicaSets

# ---- What is asked of a reassignment, checked and in arrays.

NO_RACK: RackPath = ("",)


@dataclass(frozen=True, slots=True)
class Request:
    """Brokers are numbers in the order of ``brokers`` (their ids, ascending).

    held
        ``[partition, slot]``: present replicas on brokers that may keep them, in their order;
        -1 elsewhere.
    leader
        Per partition, its first replica; -1 where that broker may not stay.
    replicas
        Per partition, the replication factor wanted.
    base, base_leaders
        Per broker, replicas and preferred leaders of the partitions not in question.
    """

    brokers: tuple[int, ...]
    racks: tuple[RackPath, ...]
    partitions: tuple[TopicPartition, ...]
    held: IntArray
    leader: IntArray
    replicas: IntArray
    base: IntArray
    base_leaders: IntArray


def read_request(
    view: ClusterView,
    replication_factor: int | Mapping[str, int] | None,
    drain: Collection[int],
    topics: Collection[str] | None,
    ignore_racks: bool,
) -> Request:
    """Check what was asked. Raises InvalidOptionError; arguments as for ``plan_reassignment``."""
    racks = view.racks()
    if unknown := sorted(set(drain) - set(racks)):
        raise InvalidOptionError(
            f"cannot drain {_names(unknown)}: the cluster has {_names(sorted(racks))}"
        )
    staying = {broker: rack for broker, rack in sorted(racks.items()) if broker not in drain}
    if not staying:
        raise InvalidOptionError("no broker would stay: drain fewer brokers")
    paths = _paths(staying, ignore_racks)
    known = {partition.topic for partition in view.replicas}
    chosen = known if topics is None else set(topics)
    if missing := sorted(chosen - known):
        raise InvalidOptionError(f"the cluster has no topic {', '.join(missing)}: check the names")
    partitions = tuple(sorted(p for p in view.replicas if p.topic in chosen))
    number = {broker: n for n, broker in enumerate(staying)}
    lists = [view.replicas[partition] for partition in partitions]
    factors = _factors(partitions, lists, replication_factor, known, len(staying))
    held = np.full((len(lists), max(map(len, lists), default=1)), -1)
    for row, replicas in enumerate(lists):
        for slot, broker in enumerate(replicas):
            held[row, slot] = number.get(broker, -1)
    base, base_leaders = np.zeros(len(staying), np.int64), np.zeros(len(staying), np.int64)
    if len(partitions) < len(view.replicas):
        for partition, replicas in view.replicas.items():
            if partition.topic in chosen:
                continue
            for slot, broker in enumerate(replicas):
                if broker in number:
                    base[number[broker]] += 1
                    base_leaders[number[broker]] += slot == 0
    return Request(
        brokers=tuple(staying),
        racks=paths,
        partitions=partitions,
        held=held,
        leader=held[:, 0],
        replicas=factors,
        base=base,
        base_leaders=base_leaders,
    )


def _paths(racks: Mapping[int, str | None], ignore_racks: bool) -> tuple[RackPath, ...]:
    paths = [None if ignore_racks else parse_rack(rack) for rack in racks.values()]
    without = [broker for broker, path in zip(racks, paths, strict=True) if path is None]
    if without and len(without) < len(paths):
        raise InvalidOptionError(
            f"{_names(without)} without a rack, others with: give every broker a rack, or "
            "ignore racks"
        )
    return tuple(path or NO_RACK for path in paths)


def _factors(
    partitions: Sequence[TopicPartition],
    lists: Sequence[tuple[int, ...]],
    wanted: int | Mapping[str, int] | None,
    known: Collection[str],
    brokers: int,
) -> IntArray:
    if isinstance(wanted, Mapping) and (missing := sorted(set(wanted) - set(known))):
        raise InvalidOptionError(
            f"a replication factor for {', '.join(missing)}, which the cluster does not have: "
            "check the names"
        )
    factors = np.zeros(len(partitions), np.int64)
    for row, (partition, replicas) in enumerate(zip(partitions, lists, strict=True)):
        factor: object = wanted
        if isinstance(wanted, Mapping):
            factor = wanted.get(partition.topic)
        factor = len(replicas) if factor is None else factor
        where = f"{partition.topic}-{partition.partition}"
        if len(set(replicas)) < len(replicas):
            raise InvalidOptionError(f"{where} names a broker twice: {list(replicas)}")
        if not isinstance(factor, int) or isinstance(factor, bool) or factor < 1:
            raise InvalidOptionError(
                f"the replication factor of {where} is {factor!r}: give a whole number from 1"
            )
        if factor > brokers:
            raise InvalidOptionError(
                f"{where} cannot have {factor} replicas on {brokers} "
                f"broker{'s' if brokers > 1 else ''}: lower the factor, or drain fewer brokers"
            )
        factors[row] = factor
    return factors


def _names(brokers: Sequence[int]) -> str:
    """``broker 1`` or ``brokers 1, 2, 3``; of many, the first ten."""
    some = ", ".join(map(str, brokers[:10])) + (", ..." if len(brokers) > 10 else "")
    return f"broker{'' if len(brokers) == 1 else 's'} {some}"


# ---- Where the search for a target starts: all that can stay stays, the rest where load is least.


def first_choice(
    tree: RackTree,
    held: IntArray,
    replicas: IntArray,
    share: IntArray,
    bounds: tuple[IntArray, IntArray],
    base: IntArray,
    first: IntArray,
) -> IntArray:
    """Replica sets that meet the bounds with as few copies as loads left aside permit.

    Arguments as in :class:`~placement_core.reassignment.replica_sets.ReplicaSets`; ``base`` is
    what brokers carry besides. ``first`` is, per partition, a holder that stays wherever it can,
    -1 for none. Sets that can be extended to lawful ones form a matroid (the
    bounds are nested), so that taking holders one by one keeps as many as can be kept; the
    least loaded come first, since a partition that loses a replica should lose the one
    that its broker can least afford.
    """
    chosen = np.full((len(held), int(replicas.max(initial=0))), -1)
    counts = np.zeros((len(held), len(tree.parent)), np.int64)
    filled = np.zeros(len(held), np.int64)
    least, most = (bound[share] for bound in bounds)
    present = base + np.bincount(held[held >= 0], minlength=len(base))
    weight = np.where((held >= 0) & (held != first[:, None]), present[held], -1)
    ordered = np.take_along_axis(held, np.argsort(weight, axis=1, kind="stable"), axis=1)
    for broker in ordered.T:
        rows = np.flatnonzero((broker >= 0) & (filled < replicas))
        nodes = tree.nodes[tree.leaf[broker[rows]]]
        wider = counts[rows]
        wider[np.arange(len(rows))[:, None], nodes] += 1
        stays = tree.extendable(wider, least[rows], most[rows], replicas[rows])
        rows, wider = rows[stays], wider[stays]
        counts[rows] = wider
        chosen[rows, filled[rows]] = broker[rows]
        filled[rows] += 1
    loads = base + np.bincount(chosen[chosen >= 0], minlength=len(base))
    _fill(tree, chosen, counts, filled, (replicas, least, most), loads)
    return chosen


def _fill(
    tree: RackTree,
    chosen: IntArray,
    counts: IntArray,
    filled: IntArray,
    rules: tuple[IntArray, IntArray, IntArray],
    loads: IntArray,
) -> None:
    """Give every partition what it lacks, a few at a time, from the racks of least load."""
    replicas, least, most = rules
    in_rack = [np.flatnonzero(tree.leaf == rack) for rack in range(len(tree.nodes))]
    together = max(1, len(loads) // 3)
    waiting = np.flatnonzero(filled < replicas)
    while len(waiting):
        rows, waiting = waiting[:together], waiting[together:]
        mean = np.array([loads[brokers].mean() for brokers in in_rack])
        rack_of = np.full(len(rows), -1)
        for rack in np.argsort(mean, kind="stable")[::-1].tolist():
            wider = counts[rows]
            wider[:, tree.nodes[rack]] += 1
            fits = tree.extendable(wider, least[rows], most[rows], replicas[rows])
            rack_of[fits] = rack
        for rack in np.unique(rack_of).tolist():
            here = rows[rack_of == rack]
            for row in here.tolist():
                brokers = in_rack[rack][~np.isin(in_rack[rack], chosen[row])]
                broker = brokers[loads[brokers].argmin()]
                chosen[row, filled[row]] = broker
                loads[broker] += 1
            filled[here] += 1
            counts[here[:, None], tree.nodes[rack]] += 1
        waiting = np.concatenate((rows[filled[rows] < replicas[rows]], waiting))


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
       levels, the widest first): :mod:`~placement_core.rack_bounds`;
    2. the least sum of squared replicas per broker that rule 1 permits: floor or ceiling, where
       racks are equal;
    3. the fewest replicas that have to be copied to brokers that do not hold them;
    4. for these replica sets, the least sum of squared preferred leaders per broker;
    5. then the fewest changes of preferred leader; of the replicas that do not lead, those that
       stay come first, in their present order.

    Ranks 1 to 3 are exact together, and so are 4 and 5 for the replica sets found: see
    :mod:`placement_core.flow`.

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
