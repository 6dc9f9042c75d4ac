"""Reassignment plans: the nearest layout that satisfies all rules, with the fewest replicas copied.

Objectives, in this order:

1. Every partition has its replication factor, on distinct brokers that stay, and satisfies the rack
   rules (:mod:`placement_core.racks`): each rack at most one replica while there are as many
   racks; else at least one, and as even as the racks' brokers permit; with levels, the widest
   first.
2. The minimum sum of squared replicas per broker that 1 permits: floor or ceiling of the mean, if
   racks are equal in size.
3. The fewest replicas that have to be copied to brokers that do not hold them.
4. For these replica sets, the minimum sum of squared preferred leaders per broker.
5. The fewest changes of preferred leader.

Of the replicas that do not lead, those that stay come first, in their present order.

Algorithm. :func:`initial_sets` returns replica sets that satisfy 1 and keep as many replicas as
possible. They are improved by cycle canceling (:mod:`placement_core.flow.cycle_canceling`) over the
graph of :class:`~placement_core.reassignment.replica_sets.ReplicaSets`, in which the squared loads
outweigh all copies. Leaders are then chosen from the sets in the same way. So 1 to 3 are optimal
together, and so are 4 and 5 for the replica sets that were found.

Worked example: brokers 0, 1, 2 without racks hold t-0 to t-5, RF 1, as 0 0 0 0 1 1. The minimum of
squared loads is 2 2 2; two replicas have to be copied, from broker 0 to broker 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from placement_core.cluster import ClusterView, Move, TopicPartition, moves_between
from placement_core.errors import InvalidOptionError, format_brokers
from placement_core.flow import IntArray, SquaredLoads, cancel_negative_cycles, level_loads
from placement_core.leaders.search import LeaderChoice
from placement_core.racks import RackPath, parse_rack
from placement_core.reassignment.replica_sets import ReplicaSets

NO_RACK: RackPath = ("",)
"""The rack of every broker if racks are ignored or none is known."""

MAX_NAMED = 10
"""The maximum number of broker ids in an error."""


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A target layout and the moves to it.

    target
        The replica list of every partition of the plan's topics, changed or not.
    moves
        The partitions whose list changes, by topic and partition.
    copies
        The number of replicas to copy: the minimum for the objectives of the plan.
    leader_changes
        The number of partitions whose preferred leader changes.
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
    """Return the nearest layout that satisfies the rules, by the objectives of this module.

    replication_factor
        For all topics, or per topic. Default: the length of each partition's present list.
    drain
        Brokers that lose all replicas. A broker in replica lists that ``view.brokers`` does not
        have loses its replicas as well.
    topics
        The topics that may change; others only count in the loads of brokers. Default: all.
    even
        If False, copies rank before loads: faults are repaired and nothing else moves. Preferred
        leaders that may stay keep their replicas, even if loads are less even for it. If a
        replication factor falls, other replicas are removed.
    ignore_racks
        Treat all brokers as one rack. Otherwise, if only some of them have a rack, the others get
        no replicas, and partitions with a replica there are not changed: see `rackless_brokers`.

    Raises InvalidOptionError if no such layout exists or an option is out of range.
    """
    problem = read_problem(view, replication_factor, drain, topics, ignore_racks)
    if not problem.partitions:
        return Reassignment({}, (), 0, 0)
    sets = initial_sets(problem, keep_leaders=not even)
    _improve(sets, problem.base, even)
    leaders = LeaderChoice.of(sets.chosen, problem.leader, len(problem.brokers))
    level_loads(leaders, problem.base_leaders)
    cancel_negative_cycles(leaders, SquaredLoads(problem.base_leaders, len(problem.brokers) + 2))
    target = _target(problem, sets.chosen, leaders.chosen)
    moves = moves_between({p: view.replicas[p] for p in target}, target)
    return Reassignment(
        target=target,
        moves=moves,
        copies=int(sets.copied().sum()),
        leader_changes=sum(move.before[:1] != move.after[:1] for move in moves),
    )


@dataclass(frozen=True, slots=True)
class ReassignmentProblem:
    """The validated arguments in arrays. Brokers are numbers in the order of ``brokers``.

    brokers, racks
        The ids of the brokers that stay, in ascending order, and their racks.
    held
        ``[partition, slot]``: present replicas on brokers that stay, in their order; else -1.
    leader
        Per partition, its first replica; -1 if that broker does not stay.
    replicas
        Per partition, the replication factor of the target.
    base, base_leaders
        Per broker, replicas and preferred leaders of all other partitions.
    """

    brokers: tuple[int, ...]
    racks: tuple[RackPath, ...]
    partitions: tuple[TopicPartition, ...]
    held: IntArray
    leader: IntArray
    replicas: IntArray
    base: IntArray
    base_leaders: IntArray


def read_problem(
    view: ClusterView,
    replication_factor: int | Mapping[str, int] | None,
    drain: Collection[int],
    topics: Collection[str] | None,
    ignore_racks: bool,
) -> ReassignmentProblem:
    """Validate the arguments of ``plan_reassignment``. Raises InvalidOptionError."""
    racks = view.racks()
    if unknown := set(drain) - set(racks):
        raise InvalidOptionError(
            f"cannot drain {format_brokers(unknown, MAX_NAMED)}: the cluster has "
            f"{format_brokers(racks, MAX_NAMED)}"
        )
    staying = {broker: rack for broker, rack in sorted(racks.items()) if broker not in drain}
    if not staying:
        raise InvalidOptionError("no broker would stay: drain fewer brokers")
    rackless = rackless_brokers(view, drain, ignore_racks=ignore_racks)
    staying = {broker: rack for broker, rack in staying.items() if broker not in rackless}
    paths = tuple(
        NO_RACK if ignore_racks else parse_rack(rack) or NO_RACK for rack in staying.values()
    )
    known = {partition.topic for partition in view.replicas}
    chosen = known if topics is None else set(topics)
    if missing := sorted(chosen - known):
        raise InvalidOptionError(f"the cluster has no topic {', '.join(missing)}: check the names")
    partitions = tuple(sorted(p for p in view.replicas if p.topic in chosen))
    number = {broker: n for n, broker in enumerate(staying)}
    rows = [view.replicas[partition] for partition in partitions]
    replicas = _replication_factors(partitions, rows, replication_factor, known)
    if rackless:
        changed = _without_rackless(partitions, rows, replicas, rackless, set(staying))
        partitions = tuple(partitions[n] for n in changed)
        rows, replicas = [rows[n] for n in changed], replicas[changed]
    _require_brokers(partitions, replicas, len(staying))
    held = np.full((len(rows), max(map(len, rows), default=1)), -1)
    for row, brokers in enumerate(rows):
        for slot, broker in enumerate(brokers):
            held[row, slot] = number.get(broker, -1)
    planned = set(partitions)
    others = [row for partition, row in view.replicas.items() if partition not in planned]

    def loads(brokers: Iterable[int]) -> IntArray:
        staying_numbers = [number[broker] for broker in brokers if broker in number]
        return np.bincount(staying_numbers, minlength=len(number))

    return ReassignmentProblem(
        brokers=tuple(staying),
        racks=paths,
        partitions=partitions,
        held=held,
        leader=held[:, 0],
        replicas=replicas,
        base=loads(chain.from_iterable(others)),
        base_leaders=loads(row[0] for row in others if row),
    )


def rackless_brokers(
    view: ClusterView, drain: Collection[int] = (), *, ignore_racks: bool = False
) -> frozenset[int]:
    """Return the brokers that stay and have no rack; none if no other has one, or racks are
    ignored.

    No layout with a replica on such a broker can be known to satisfy the rack rules.
    """
    staying = {broker: rack for broker, rack in view.racks().items() if broker not in drain}
    without = frozenset(broker for broker, rack in staying.items() if parse_rack(rack) is None)
    return without if not ignore_racks and len(without) < len(staying) else frozenset()


def _replication_factors(
    partitions: Sequence[TopicPartition],
    rows: Sequence[tuple[int, ...]],
    requested: int | Mapping[str, int] | None,
    known: Collection[str],
) -> IntArray:
    """Return the replication factor of each partition's target."""
    if isinstance(requested, Mapping) and (missing := sorted(set(requested) - set(known))):
        raise InvalidOptionError(
            f"a replication factor for {', '.join(missing)}, which the cluster does not have: "
            "check the names"
        )
    factors = np.zeros(len(partitions), np.int64)
    for row, (partition, replicas) in enumerate(zip(partitions, rows, strict=True)):
        factor: object = requested
        if isinstance(requested, Mapping):
            factor = requested.get(partition.topic)
        factor = len(replicas) if factor is None else factor
        name = f"{partition.topic}-{partition.partition}"
        if len(set(replicas)) < len(replicas):
            raise InvalidOptionError(f"{name} names a broker twice: {list(replicas)}")
        if not isinstance(factor, int) or isinstance(factor, bool) or factor < 1:
            raise InvalidOptionError(
                f"the replication factor of {name} is {factor!r}: give a whole number from 1"
            )
        factors[row] = factor
    return factors


def _without_rackless(
    partitions: Sequence[TopicPartition],
    rows: Sequence[tuple[int, ...]],
    replicas: IntArray,
    rackless: frozenset[int],
    staying: set[int],
) -> list[int]:
    """Return the positions of the partitions without a replica on a broker of ``rackless``.

    Raises InvalidOptionError if one of the others would have to change.
    """
    changed = []
    for position, row in enumerate(rows):
        if not (without := rackless.intersection(row)):
            changed.append(position)
        elif replicas[position] != len(row) or not (rackless | staying).issuperset(row):
            topic, number = partitions[position]
            raise InvalidOptionError(
                f"{topic}-{number} cannot be changed, because it has a replica on "
                f"{format_brokers(without)} without a rack, while others have one: set "
                "broker.rack there, drain it too (--drain), leave the topic out (--exclude), or "
                "ignore racks (--ignore-racks)"
            )
    return changed


def _require_brokers(
    partitions: Sequence[TopicPartition], replicas: IntArray, brokers: int
) -> None:
    """Raise InvalidOptionError, which names the topics, if there are fewer brokers than replicas.

    ``brokers`` is the number of those that may hold replicas.
    """
    blocked = [partitions[n] for n in np.flatnonzero(replicas > brokers).tolist()]
    if not blocked:
        return
    first, topics = blocked[0], list(dict.fromkeys(each.topic for each in blocked))
    named = ",".join(topics[:MAX_NAMED]) + (",..." if len(topics) > MAX_NAMED else "")
    raise InvalidOptionError(
        f"{first.topic}-{first.partition} cannot have {replicas.max()} replicas on {brokers} "
        f"broker{'s' if brokers > 1 else ''}: lower the factor, drain fewer brokers, or leave "
        f"out the topics with so many replicas (--exclude {named})"
    )


def initial_sets(problem: ReassignmentProblem, keep_leaders: bool) -> ReplicaSets:
    """Return sets within the bounds that keep as many replicas as possible.

    Sets that can be extended to sets within the bounds form a matroid, since the bounds are nested.
    So adding holders one by one keeps as many as possible. Those on the least loaded brokers come
    first: if a partition loses a replica, it should be the one on its most loaded broker.

    With ``keep_leaders``, the preferred leader comes before all, and is pinned if it is in its set.
    """
    held = problem.held
    sets = ReplicaSets.of(problem.racks, held, problem.replicas)
    first = problem.leader if keep_leaders else np.full_like(problem.leader, -1)
    present = problem.base + np.bincount(held[held >= 0], minlength=len(problem.base))
    load = np.where((held >= 0) & (held != first[:, None]), present[held], -1)
    ordered = np.take_along_axis(held, np.argsort(load, axis=1, kind="stable"), axis=1)
    for holders in ordered.T:
        rows = np.flatnonzero((holders >= 0) & sets.is_short())
        rows = rows[sets.can_add(rows, sets.tree.rack_of[holders[rows]])]
        sets.add(rows, holders[rows])
    _fill(sets, problem.base)
    sets.pinned = np.where((sets.chosen == first[:, None]).any(axis=1), first, -1)
    return sets


def _fill(sets: ReplicaSets, base: IntArray) -> None:
    """Add the missing replicas, some partitions at a time, in the least loaded racks."""
    tree, loads = sets.tree, base + sets.loads
    in_rack = [np.flatnonzero(tree.rack_of == rack) for rack in range(len(tree.nodes))]
    at_once = max(1, len(loads) // 3)
    pending = np.flatnonzero(sets.is_short())
    while len(pending):
        rows, pending = pending[:at_once], pending[at_once:]
        mean = np.array([loads[brokers].mean() for brokers in in_rack])
        rack_of = np.full(len(rows), -1)
        for rack in np.argsort(mean, kind="stable")[::-1].tolist():
            rack_of[sets.can_add(rows, np.full(len(rows), rack))] = rack
        for rack in np.unique(rack_of).tolist():
            of_rack = rows[rack_of == rack]
            added = np.empty_like(of_rack)
            for n, row in enumerate(of_rack.tolist()):
                brokers = in_rack[rack][~np.isin(in_rack[rack], sets.chosen[row])]
                added[n] = brokers[loads[brokers].argmin()]
                loads[added[n]] += 1
            sets.add(of_rack, added)
        pending = np.concatenate((rows[sets.is_short(rows)], pending))


def _improve(sets: ReplicaSets, base: IntArray, even: bool) -> None:
    """Optimise loads and copies, in the order that ``even`` gives them.

    The scales make the higher rank outweigh the lower one: a cycle adds at most one copy per
    broker, and changes the squared loads by less than four times the highest possible load.
    """
    if even:
        level_loads(sets, base)
        cancel_negative_cycles(sets, SquaredLoads(base, len(base) + 2))
        return
    sets.cost_scale = 4 * (int((base + sets.loads).max()) + len(sets.chosen)) + 2
    cancel_negative_cycles(sets, SquaredLoads(base, 1))


def _target(
    problem: ReassignmentProblem, chosen: IntArray, leader: IntArray
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return replica lists: the leader, the replicas that stay in their order, the new ones."""
    held = problem.held
    position = np.full(chosen.shape, held.shape[1])
    for slot in range(held.shape[1] - 1, -1, -1):
        position[(chosen == held[:, slot, None]) & (chosen >= 0)] = slot
    position[chosen == leader[:, None]] = -1
    position[chosen < 0] = held.shape[1] + 1
    ordered = np.take_along_axis(chosen, np.lexsort((chosen, position), axis=1), axis=1)
    ids = np.append(np.array(problem.brokers, np.int64), -1)[ordered].tolist()
    return {
        partition: tuple(row[:count])
        for partition, row, count in zip(
            problem.partitions, ids, problem.replicas.tolist(), strict=True
        )
    }
