"""Leader layouts: from the racks of consumers to the order of replicas that lets them read locally.

Objectives, in this order:

1. the minimum of bytes across racks: what balanced assignments of all ``ConsumerDemand`` values and
   the present owners of all ``CurrentAssignment`` values read from another rack, and what all
   ``WriterDemand`` values write to another rack;
2. the minimum sum of squared preferred leaders per broker, over the whole cluster;
3. the fewest changes of preferred leader. Replicas behind the leader keep their order.

With a ``CurrentAssignment``, the third objective comes before the second: such a group gains from
moved leaders only what the first objective counts, so nothing else moves. Leaders per broker are
then bounded instead: with ``max_imbalance``, no broker gets more preferred leaders than the mean
times 1 + ``max_imbalance``, rounded up, or than it has now if that is more.

Algorithm. Topics that the same demands read form a class (:class:`TopicClass`); all topics that no
demand reads are one class, whatever their current assignments. Within a class, all three objectives
are optimal together, given the leaders of all other classes
(:mod:`placement_core.leaders.problem` has the costs, :mod:`placement_core.leaders.search` the
search). Classes are improved in turn, in order of their first topic, those without demands last,
until no class alone can be improved. If classes share a demand and something still crosses racks,
this is done once more from the leaders that are best for what each class shares with no other, and
the better result is taken. With one class, that is the optimum. With several, the first
objective is still optimal as long as no demand has topics in more than one of them, and no broker
is at its limit. The layout contains what is proved, and how far from the best one it can be at
most (:mod:`placement_core.leaders.bound`).

Worked example: 36 partitions, RF 3, on racks a, b and c of two brokers each, 12 leaders in each
rack. Two consumers in a and one in b read 24 partitions in a and 12 in b. The layout moves the 12
leaders of rack c to a: 12 changes, and leaders per broker are 12 12, 6 6, 0 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from placement_core.cluster import ClusterView, TopicPartition, moves_between
from placement_core.errors import InvalidOptionError
from placement_core.flow import IntArray, level_loads
from placement_core.leaders.bound import Relaxation
from placement_core.leaders.byte_limit import byte_excess, keep_byte_limit
from placement_core.leaders.model import (
    BytesAcross,
    ConsumerDemand,
    CurrentAssignment,
    LeaderLayout,
    Locality,
    WriterDemand,
)
from placement_core.leaders.problem import (
    LeaderCosts,
    LeaderProblem,
    Quotas,
    RankScales,
    leader_limits,
)
from placement_core.leaders.search import LeaderChoice, best_leaders, set_initial_leaders
from placement_core.leaders.unmet import local_reads, unmet_reads
from placement_core.racks import DEFAULT_MAX_SHARE, nearest_groups, parse_rack

MAX_PASSES = 10
"""The maximum number of passes over the classes; each one that changes anything is better."""

NEGLIGIBLE_GAP = 1e-9
"""A smaller gap is one of float arithmetic."""

DEFAULT_MAX_IMBALANCE = 1.0
"""``max_imbalance`` for a ``CurrentAssignment``: a broker leads at most twice the mean."""


def components(topics_of_groups: Sequence[Iterable[Hashable]]) -> list[int]:
    """Return a number per group: groups that share topics, directly or through others, have the
    same, which is the index of the first of them. Their leaders have to be laid out together."""
    first: list[int] = []  # A group before it that shares topics with it, or itself.

    def root(group: int) -> int:
        while first[group] != group:
            first[group] = group = first[first[group]]
        return group

    reader: dict[Hashable, int] = {}
    for group, topics in enumerate(topics_of_groups):
        first.append(group)
        for topic in topics:
            one, other = root(group), root(reader.setdefault(topic, group))
            first[max(one, other)] = min(one, other)
    return [root(group) for group in range(len(first))]


def plan_leaders(
    view: ClusterView,
    demands: Sequence[ConsumerDemand] = (),
    *,
    assignments: Sequence[CurrentAssignment] = (),
    writers: Sequence[WriterDemand] = (),
    topics: Collection[str] | None = None,
    levels: int | None = None,
    max_imbalance: float | None = None,
    max_byte_imbalance: float | None = None,
    only_gains: bool = False,
    other_leaders: Mapping[int, int] | None = None,
) -> LeaderLayout:
    """Return the order of replicas with the best leaders for ``demands``, ``assignments`` and
    ``writers``.

    Objectives and exactness are in :mod:`placement_core.leaders.plan`. Leaders are chosen from the
    replicas on brokers of ``view``; a partition without such a replica stays as it is.

    topics
        The topics whose leaders may change; others only count. Default: all.
    levels
        Racks that are equal in so many of their widest levels count as one. Default: all levels.
    max_imbalance
        By what share of the mean a broker may lead more partitions than the mean. Default: any.
    max_byte_imbalance
        By what share of the mean the leaders on a broker may serve more bytes than the mean: what
        is written to them and read from them. Ranks before locality; ``heaviest_broker`` of the
        result tells whether it is kept (:mod:`placement_core.leaders.byte_limit`). Default: any.
    only_gains
        Leave all leaders of a class of topics as they are, if moving them makes nothing local.
    other_leaders
        Broker id to the number of preferred leaders of topics that ``view`` does not have. With
        these, the layout of some topics is that of the whole cluster with only them in ``topics``.

    Topics of a demand that ``view`` does not have are ignored. Raises InvalidOptionError for
    ``topics`` that the cluster does not have, for ``levels`` below 1, for a negative
    ``max_imbalance`` or ``max_byte_imbalance``, and if two readers or two writers have the same
    name.
    """
    limits_given = {"max_imbalance": max_imbalance, "max_byte_imbalance": max_byte_imbalance}
    for name, share in limits_given.items():
        if share is not None and not 0 <= share < float("inf"):
            raise InvalidOptionError(
                f"{name} is {share!r}: give a share of the mean, 0 or more, such as 1.0"
            )
    problem = LeaderProblem.of(view, demands, assignments, writers, topics, levels)
    classes = _topic_classes(problem, changes_first=bool(assignments))
    per_broker = problem.preferred_leaders(problem.fixed)
    for broker, count in (other_leaders or {}).items():
        if broker in problem.broker_index:
            per_broker[problem.broker_index[broker]] += count
    per_rack = problem.fixed_leaders()
    base = per_broker.copy()
    for topic_class in classes:
        _count(problem, topic_class, per_broker, per_rack, 1)
    limit, limits = leader_limits(per_broker, max_imbalance)
    present = [topic_class.choice.chosen.copy() for topic_class in classes]
    proved = _improve(problem, classes, per_broker, per_rack, limits)
    if _overlapping(classes) and (cost := _cost(problem, classes, per_rack)):
        # Leaders of several classes meet a common quota in many ways, and passes change one class
        # at a time: begin again with what concerns one class alone.
        kept = [topic_class.choice.chosen.copy() for topic_class in classes]
        _improve(problem, classes, per_broker, per_rack, limits, own_quotas=True)
        proved_again = _improve(problem, classes, per_broker, per_rack, limits)
        if _cost(problem, classes, per_rack) < cost:
            proved = proved_again
        else:
            for topic_class, chosen in zip(classes, kept, strict=True):
                _count(problem, topic_class, per_broker, per_rack, -1)
                topic_class.choice.choose(chosen)
                _count(problem, topic_class, per_broker, per_rack, 1)
    # A broker at its limit keeps one class from what another uses.
    independent = len(classes) < 2 or limits is None or not (per_broker >= limits).any()
    if only_gains:
        for topic_class, before in zip(classes, present, strict=True):
            _revert_if_no_gain(problem, topic_class, before, per_broker, per_rack)
    cost = _cost(problem, classes, per_rack)
    room = None if limits is None else limits - base
    relaxed = relaxation(problem, classes, room)
    byte_room: IntArray | None = None
    if max_byte_imbalance is not None:
        for topic_class in classes:
            _count(problem, topic_class, per_broker, per_rack, -1)
        byte_room, relaxed = _limit_bytes(problem, classes, relaxed, max_byte_imbalance)
        proved &= byte_room is None
        for topic_class in classes:
            _count(problem, topic_class, per_broker, per_rack, 1)
        cost = _cost(problem, classes, per_rack)
    exact = proved and independent and not _overlapping(classes)
    gap = 0.0
    if cost and not exact:
        gap = max(0.0, cost - relaxed.lower_bound(cost)) / max(1, problem.total_weight)
    order = _order(problem, classes)
    localities = [
        Locality(demand.name, quotas.partitions, quotas.local(before), quotas.local(after))
        for demand, quotas, before, after in zip(
            demands, problem.quotas, problem.current_leaders(), per_rack, strict=False
        )
        if quotas
    ]
    current, leaders = view.leaders_or_preferred(), _leaders_after(view, order)
    consumed = [
        BytesAcross(
            quotas.name,
            quotas.size * quotas.partitions,
            quotas.size * quotas.off_rack(before),
            quotas.size * quotas.off_rack(after),
        )
        for quotas, before, after in zip(
            problem.quotas[: len(demands)], problem.current_leaders(), per_rack, strict=False
        )
        if quotas
    ]
    for assignment in assignments:
        reads = sum(
            max(1, len(assignment.readers(partition)))
            for partition in view.replicas
            if partition.topic in assignment.topics
        )
        if reads:
            now = local_reads(view, assignment, current, levels)
            then = local_reads(view, assignment, leaders, levels)
            localities.append(
                Locality(assignment.name, reads, sum(now.values()), sum(then.values()))
            )
            read = view.replicas.keys() & {*assignment.racks, *assignment.shared}
            total = sum(map(assignment.weight, read))
            across = [
                total
                - sum(
                    assignment.weight(partition) * count / len(assignment.readers(partition))
                    for partition, count in local.items()
                )
                for local in (now, then)
            ]
            consumed.append(BytesAcross(assignment.name, total, *across))
    return LeaderLayout(
        order=order,
        moves=moves_between({p: view.replicas[p] for p in order}, order),
        localities=tuple(localities),
        locality_proved=cost == 0 or exact,
        balance_proved=proved
        and independent
        and (len(classes) < 2 or int(np.ptp(per_broker)) <= 1)
        and not only_gains,
        unmet=unmet_reads(
            view,
            assignments,
            leaders,
            movable=frozenset(order),
            full=_full_brokers(problem, per_broker, limits),
            fits=lambda partition, broker: (
                byte_room is None
                or problem.served(partition) <= byte_room[problem.broker_index[broker]]
            ),
            levels=levels,
        ),
        leader_limit=limit,
        gap=0.0 if gap < NEGLIGIBLE_GAP else gap,
        heaviest_broker=_over_mean(*_served(problem, classes)),
        consumed=tuple(consumed),
        produced=_produced(view, writers, (current, leaders), levels),
    )


def _improve(
    problem: LeaderProblem,
    classes: Sequence[TopicClass],
    per_broker: IntArray,
    per_rack: Sequence[IntArray],
    limits: IntArray | None,
    *,
    own_quotas: bool = False,
) -> bool:
    """Improve the classes in turn; return whether it is proved that no class alone can be.

    With ``own_quotas``, once, and only by the quotas that a class shares with no other.
    """
    positions = Counter(n for topic_class in classes for n in topic_class.demands)
    for _ in range(1 if own_quotas else MAX_PASSES):
        changed = False
        for topic_class in classes:
            own = [n for n in topic_class.demands if positions[n] == 1]
            if own_quotas and not own:
                continue
            _count(problem, topic_class, per_broker, per_rack, -1)
            quotas = _quotas_without(problem, own if own_quotas else topic_class.demands, per_rack)
            changed |= topic_class.improve(
                problem.rack_of, problem.rack_slots, per_broker, limits, quotas
            )
            _count(problem, topic_class, per_broker, per_rack, 1)
        if not changed or len(classes) == 1:
            return all(topic_class.proved for topic_class in classes)
    return False


def _quotas_without(
    problem: LeaderProblem, demands: Sequence[int], per_rack: Sequence[IntArray]
) -> list[Quotas]:
    """Return the quotas of ``demands``; ``per_rack`` has all other leaders."""
    return [
        quotas.with_other_leaders(per_rack[n]) for n in demands if (quotas := problem.quotas[n])
    ]


def _revert_if_no_gain(
    problem: LeaderProblem,
    topic_class: TopicClass,
    before: IntArray,
    per_broker: IntArray,
    per_rack: Sequence[IntArray],
) -> None:
    """Restore the leaders ``before`` of a class if as much is local with them."""
    _count(problem, topic_class, per_broker, per_rack, -1)
    quotas = _quotas_without(problem, topic_class.demands, per_rack)
    after = topic_class.choice.chosen
    off_rack = []
    for chosen in (before, after):
        topic_class.choice.choose(chosen)
        counts = np.zeros_like(per_broker)
        counts[topic_class.brokers] = topic_class.choice.loads
        leaders = problem.per_rack(counts)
        off_rack.append(
            topic_class.choice.total_off_rack()
            + sum(each.weight * each.off_rack(leaders) for each in quotas)
        )
    if off_rack[0] <= off_rack[1]:
        topic_class.choice.choose(before)
    _count(problem, topic_class, per_broker, per_rack, 1)


def _served(problem: LeaderProblem, classes: Sequence[TopicClass]) -> tuple[IntArray, ...]:
    """Return what leaders serve: those of fixed partitions per broker, and those of ``classes``
    per partition; and the leaders of these."""
    fixed = np.zeros(len(problem.broker_index), np.int64)
    for partition in problem.fixed:
        leader = problem.broker_index.get(next(iter(problem.view.replicas[partition]), -1))
        if leader is not None:
            fixed[leader] += problem.served(partition)
    size = [problem.served(partition) for each in classes for partition in each.partitions]
    chosen = [each.brokers[each.choice.chosen] for each in classes]
    none = np.zeros(0, np.int64)
    return fixed, np.array(size, np.int64), np.concatenate([none, *chosen])


def _over_mean(fixed: IntArray, size: IntArray, chosen: IntArray) -> float:
    """Return the most that a broker serves, over the mean."""
    np.add.at(fixed, chosen, size)
    return int(fixed.max()) * len(fixed) / int(fixed.sum()) if fixed.any() else 0.0


def _limit_bytes(
    problem: LeaderProblem,
    classes: Sequence[TopicClass],
    relaxed: Relaxation,
    max_byte_imbalance: float,
) -> tuple[IntArray | None, Relaxation]:
    """Keep the limit of what leaders on a broker serve.

    Returns what each broker may serve beside its leaders (None if no leader had to move), and
    ``relaxed`` with the limit, if it is kept.
    """
    fixed, size, chosen = _served(problem, classes)
    if not len(fixed) or not len(size):
        return None, relaxed
    total = int(fixed.sum()) + int(size.sum())
    limit = math.floor(Fraction(total, len(fixed)) * (1 + Fraction(str(max_byte_imbalance))))
    room = limit - fixed
    after = keep_byte_limit(relaxed, chosen, size, room)
    start = 0
    for each in classes:
        of_class = after[start : start + len(each.partitions)]
        each.choice.choose(np.searchsorted(each.brokers, of_class))
        start += len(each.partitions)
    left = -byte_excess(after, size, room)
    if (left >= 0).all():
        relaxed = replace(relaxed, served=(size, room))
    return (left if (after != chosen).any() else None), relaxed


def _leaders_after(
    view: ClusterView, order: Mapping[TopicPartition, tuple[int, ...]]
) -> dict[TopicPartition, int]:
    """Return the leaders that brokers will elect: chosen ones, and present ones of the others."""
    return {**view.leaders_or_preferred(), **{tp: row[0] for tp, row in order.items()}}


def _full_brokers(
    problem: LeaderProblem, per_broker: IntArray, limits: IntArray | None
) -> frozenset[int]:
    """Return the ids of the brokers that have as many leaders as they may have."""
    if limits is None:
        return frozenset()
    ids = list(problem.broker_index)
    return frozenset(ids[n] for n in np.flatnonzero(per_broker >= limits).tolist())


@dataclass(slots=True)
class TopicClass:
    """Partitions that the same demands read, and their leaders.

    ``brokers`` are the numbers, in the whole cluster, of the brokers that hold a replica: those
    that ``choice`` counts. ``demands`` are the positions of the demands. ``proved`` is whether the
    leaders are proved optimal, given those of the other classes.
    """

    partitions: Sequence[TopicPartition]
    brokers: IntArray
    choice: LeaderChoice
    demands: tuple[int, ...]
    changes_first: bool
    started: bool = False
    proved: bool = False

    @classmethod
    def of(
        cls,
        problem: LeaderProblem,
        partitions: Sequence[TopicPartition],
        demands: tuple[int, ...],
        *,
        changes_first: bool,
    ) -> TopicClass:
        """Return the class with its present leaders.

        Each partition needs at least one replica on a live broker.
        """
        rows = [problem.view.replicas[partition] for partition in partitions]
        options = np.full((len(rows), max(map(len, rows))), -1)
        off_rack = np.zeros_like(options)
        for row, (partition, brokers) in enumerate(zip(partitions, rows, strict=True)):
            fixed = problem.fixed_bytes.get(partition, {})
            total = sum(fixed.values())
            for slot, broker in enumerate(brokers):
                number = problem.broker_index.get(broker, -1)
                options[row, slot] = number
                if fixed and number >= 0:
                    off_rack[row, slot] = total - fixed.get(int(problem.rack_of[number]), 0)
        used = np.unique(options[options >= 0])
        number_of = np.full(int(used[-1]) + 2, -1)
        number_of[used] = np.arange(len(used))
        options = number_of[options]
        choice = LeaderChoice.of(options, options[:, 0], len(used), off_rack)
        return cls(partitions, used, choice, demands, changes_first)

    def improve(
        self,
        rack_of: IntArray,
        rack_slots: int,
        other_leaders: IntArray,
        limits: IntArray | None,
        demands: list[Quotas],
    ) -> bool:
        """Choose the best leaders, given all other ones; return whether any leader changed.

        ``rack_of``, ``other_leaders`` and ``limits`` are per broker of the whole cluster;
        ``demands`` are those of this class.
        """
        before = self.choice.chosen.copy()
        base = other_leaders[self.brokers]
        scales = RankScales.of(
            len(self.brokers),
            int(base.max()) + len(self.partitions),
            changes_first=self.changes_first,
        )
        limit = None if limits is None else limits[self.brokers]
        self.choice.set_scales(scales)
        costs = LeaderCosts(rack_of[self.brokers], base, scales, rack_slots, limit=limit)
        if not self.started:
            self.started = True
            if self.changes_first:
                self.choice.choose_cheapest()
            if demands:
                set_initial_leaders(self.choice, costs, demands)
            elif not self.changes_first:
                level_loads(self.choice, base)
            if limit is not None and not self.choice.relieve(limit - base):
                self.choice.choose(before)
        self.proved = best_leaders(self.choice, costs, demands)
        return bool((self.choice.chosen != before).any())


def _topic_classes(problem: LeaderProblem, *, changes_first: bool) -> list[TopicClass]:
    """Return the movable partitions by demands, those that no demand reads last."""
    by_demands: dict[tuple[int, ...], list[TopicPartition]] = {}
    for partition in problem.movable:
        by_demands.setdefault(problem.demands_of[partition.topic], []).append(partition)
    if unread := by_demands.pop((), None):
        by_demands[()] = unread
    return [
        TopicClass.of(problem, partitions, demands, changes_first=changes_first)
        for demands, partitions in by_demands.items()
    ]


def _count(
    problem: LeaderProblem,
    topic_class: TopicClass,
    per_broker: IntArray,
    per_rack: Sequence[IntArray],
    sign: int,
) -> None:
    """Add (``sign`` 1) or subtract (-1) the leaders of a class, in both arrays.

    ``per_rack`` has an array per demand, of which those of the class change.
    """
    counts = np.zeros_like(per_broker)
    counts[topic_class.brokers] = topic_class.choice.loads
    per_broker += sign * counts
    for n in topic_class.demands:
        per_rack[n][:] += sign * problem.per_rack(counts)


def _overlapping(classes: Sequence[TopicClass]) -> bool:
    """Return whether a demand has topics in more than one class."""
    positions = [n for topic_class in classes for n in topic_class.demands]
    return len(set(positions)) < len(positions)


def _order(
    problem: LeaderProblem, classes: Sequence[TopicClass]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of each movable partition, the chosen leader first."""
    ids = list(problem.broker_index)
    order = {}
    for topic_class in classes:
        chosen = topic_class.choice.chosen.tolist()
        for partition, number in zip(topic_class.partitions, chosen, strict=True):
            leader = ids[int(topic_class.brokers[number])]
            behind = (b for b in problem.view.replicas[partition] if b != leader)
            order[partition] = (leader, *behind)
    return dict(sorted(order.items()))


def _cost(
    problem: LeaderProblem, classes: Sequence[TopicClass], per_rack: Sequence[IntArray]
) -> int:
    """Return the integer weight across racks, without that of partitions that have no choice."""
    return sum(each.choice.total_off_rack() for each in classes) + sum(
        quotas.weight * quotas.off_rack(leaders)
        for quotas, leaders in zip(problem.quotas, per_rack, strict=True)
        if quotas
    )


def relaxation(
    problem: LeaderProblem, classes: Sequence[TopicClass], room: IntArray | None
) -> Relaxation:
    """Return the problem for its bound."""
    slots = max((each.choice.options.shape[1] for each in classes), default=1)
    rows = sum(len(each.partitions) for each in classes)
    brokers, own_cost = np.full((rows, slots), -1), np.zeros((rows, slots), np.int64)
    class_of = np.repeat(np.arange(len(classes)), [len(each.partitions) for each in classes])
    reads = np.zeros((len(classes), len(problem.quotas)), bool)
    for n, each in enumerate(classes):
        width = each.choice.options.shape[1]
        options = each.choice.options
        brokers[class_of == n, :width] = np.where(options >= 0, each.brokers[options], -1)
        own_cost[class_of == n, :width] = each.choice.off_rack
        reads[n, list(each.demands)] = True
    counted = [n for n, quotas in enumerate(problem.quotas) if quotas]
    fixed = problem.fixed_leaders()
    return Relaxation(
        brokers,
        own_cost,
        problem.rack_of,
        problem.rack_slots,
        reads[:, counted],
        class_of,
        [q.with_other_leaders(f) for q, f in zip(problem.quotas, fixed, strict=True) if q],
        room,
    )


def _produced(
    view: ClusterView,
    writers: Sequence[WriterDemand],
    now_and_then: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]],
    levels: int | None,
) -> tuple[BytesAcross, ...]:
    """Return what each writer writes across racks, with the current and the chosen leaders."""
    racks = view.racks()
    partitions: dict[str, list[TopicPartition]] = {}
    for partition in sorted(view.replicas):
        partitions.setdefault(partition.topic, []).append(partition)
    found = []
    for writer in writers:
        rows = writer.by_partition(partitions)
        across = [0.0, 0.0]
        for of_topic in partitions.values():
            written = {tp: rows[tp] for tp in of_topic if tp in rows}
            for n, leaders in enumerate(now_and_then):
                led_in = {tp: racks.get(leaders.get(tp, -1)) for tp in of_topic}
                across[n] += _written_across(written, led_in, levels, writer.rack_aware)
        total = sum(sum(row.values()) for row in rows.values())
        found.append(BytesAcross(writer.name, total, *across))
    return tuple(found)


def _written_across(
    written: Mapping[TopicPartition, Mapping[str | None, float]],
    led_in: Mapping[TopicPartition, str | None],
    levels: int | None,
    rack_aware: bool,
) -> float:
    """Return what is written across racks to the partitions of a topic, led in ``led_in``.

    ``written`` is per partition and rack. Rack-aware producers choose the partitions themselves.
    """
    paths = {tp.partition: parse_rack(rack) for tp, rack in led_in.items()}
    by_rack: dict[str | None, float] = {}
    across = 0.0
    for tp, row in written.items():
        for rack, amount in row.items():
            own, path = parse_rack(rack), paths[tp.partition]
            if rack_aware and own is not None:
                by_rack[rack] = by_rack.get(rack, 0.0) + amount
            elif own is None or path is None or own[:levels] != path[:levels]:
                across += amount
    names = {tp.partition: rack for tp, rack in led_in.items()}
    for rack, amount in by_rack.items():
        own = parse_rack(rack) or ()
        for group, share in nearest_groups(own, names, DEFAULT_MAX_SHARE):
            others = sum((paths[n] or ())[:levels] != own[:levels] for n in group)
            across += amount * share * others / len(group)
    return across
