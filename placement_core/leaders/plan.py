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
from itertools import islice

import numpy as np

from placement_core.cluster import ClusterView, TopicPartition, by_topic, moves_between
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
from placement_core.leaders.problem import LeaderCosts, LeaderProblem, RankScales
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
    for name, share in (
        ("max_imbalance", max_imbalance),
        ("max_byte_imbalance", max_byte_imbalance),
    ):
        if share is not None and not 0 <= share < float("inf"):
            raise InvalidOptionError(
                f"{name} is {share!r}: give a share of the mean, 0 or more, such as 1.0"
            )
    problem = LeaderProblem.of(view, demands, assignments, writers, topics, levels)
    search = Search.of(problem, other_leaders or {}, changes_first=bool(assignments))
    per_broker, per_quotas, classes = search.per_broker, search.per_quotas, search.classes
    limit = None
    if max_imbalance is not None and len(per_broker):
        mean = int(per_broker.sum()) / len(per_broker)
        limit = math.ceil(round(mean * (1 + max_imbalance), 6))
        # A broker that has more may keep these.
        search.limits = np.maximum(per_broker, limit)
    present = search.chosen()
    proved = search.improve()
    if search.is_overlapping and (cost := search.cost()):
        # Leaders of several classes meet a common quota in many ways, and passes change one class
        # at a time: begin again with what concerns one class alone.
        kept = search.chosen()
        search.improve(own_quotas=True)
        proved_again = search.improve()
        if search.cost() < cost:
            proved = proved_again
        else:
            search.choose(kept)
    # A broker at its limit keeps one class from what another uses.
    independent = len(classes) < 2 or not search.full_brokers()
    if only_gains:
        search.revert_without_gain(present)
    relaxed = search.relaxation()
    byte_room = None
    if max_byte_imbalance is not None:
        byte_room, relaxed = search.limit_bytes(relaxed, max_byte_imbalance)
        proved &= byte_room is None
    cost = search.cost()
    exact = proved and independent and not search.is_overlapping
    gap = 0.0
    if cost and not exact:
        gap = max(0.0, cost - relaxed.lower_bound(cost)) / max(1, problem.total_weight)
    order = search.order()
    # Brokers will elect the chosen leaders, and keep the present ones of other partitions.
    current = view.leaders_or_preferred()
    leaders = {**current, **{tp: row[0] for tp, row in order.items()}}
    localities, consumed = _reads(
        view, problem, assignments, per_quotas, (current, leaders), levels
    )
    return LeaderLayout(
        order=order,
        moves=moves_between({p: view.replicas[p] for p in order}, order),
        localities=localities,
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
            full=search.full_brokers(),
            fits=lambda partition, broker: (
                byte_room is None
                or problem.served(partition) <= byte_room[problem.broker_index[broker]]
            ),
            levels=levels,
        ),
        leader_limit=limit,
        gap=0.0 if gap < NEGLIGIBLE_GAP else gap,
        heaviest_broker=search.heaviest_broker(),
        consumed=consumed,
        produced=_produced(view, writers, (current, leaders), levels),
    )


@dataclass(slots=True)
class TopicClass:
    """Partitions that the same demands read, and their leaders.

    ``brokers`` are the numbers, in the whole cluster, of the brokers that hold a replica: those
    that ``choice`` counts. ``quotas`` are the positions of the quotas that count its partitions.
    ``proved`` is whether the leaders are proved optimal, given those of the other classes.
    """

    partitions: Sequence[TopicPartition]
    brokers: IntArray
    choice: LeaderChoice
    quotas: tuple[int, ...]
    started: bool = False
    proved: bool = False

    @classmethod
    def of(
        cls,
        problem: LeaderProblem,
        partitions: Sequence[TopicPartition],
        quotas: tuple[int, ...],
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
        return cls(partitions, used, choice, quotas)


@dataclass(slots=True)
class Search:
    """The classes with their leaders, and the leaders of all partitions in numbers.

    Those that no quotas count are one class, the last. ``base`` and ``per_broker`` are leaders per
    broker: those of partitions without a choice, and all. ``per_quotas`` are the leaders that each
    quotas count, per rack. ``limits`` are the maximum leaders per broker; None: any number.
    """

    problem: LeaderProblem
    classes: Sequence[TopicClass]
    base: IntArray
    per_broker: IntArray
    per_quotas: Sequence[IntArray]
    changes_first: bool
    limits: IntArray | None = None

    @classmethod
    def of(
        cls, problem: LeaderProblem, other_leaders: Mapping[int, int], *, changes_first: bool
    ) -> Search:
        """Return the present leaders; ``other_leaders`` as for :func:`plan_leaders`."""
        by_quotas: dict[tuple[int, ...], list[TopicPartition]] = {}
        for partition in problem.movable:
            by_quotas.setdefault(problem.quotas_of[partition.topic], []).append(partition)
        if not_counted := by_quotas.pop((), None):
            by_quotas[()] = not_counted
        base = np.zeros(len(problem.broker_index), np.int64)
        for broker, count in [*Counter(problem.fixed.values()).items(), *other_leaders.items()]:
            if broker in problem.broker_index:
                base[problem.broker_index[broker]] += count
        classes = [
            TopicClass.of(problem, partitions, quotas) for quotas, partitions in by_quotas.items()
        ]
        per_quotas = problem.leaders_of_quotas(problem.fixed)
        search = cls(problem, classes, base, base.copy(), per_quotas, changes_first)
        for topic_class in classes:
            search._count(topic_class, 1)
        return search

    def _count(self, topic_class: TopicClass, sign: int) -> None:
        """Add (``sign`` 1) or subtract (-1) the leaders of a class."""
        counts = np.zeros_like(self.per_broker)
        counts[topic_class.brokers] = topic_class.choice.loads
        self.per_broker += sign * counts
        for n in topic_class.quotas:
            self.per_quotas[n][:] += sign * self.problem.per_rack(counts)

    @property
    def is_overlapping(self) -> bool:
        """Whether some quotas count topics of more than one class."""
        positions = [n for topic_class in self.classes for n in topic_class.quotas]
        return len(set(positions)) < len(positions)

    def chosen(self) -> list[IntArray]:
        """Return the leaders of each class."""
        return [topic_class.choice.chosen.copy() for topic_class in self.classes]

    def choose(self, chosen: Sequence[IntArray]) -> None:
        """Replace the leaders of each class."""
        for topic_class, leaders in zip(self.classes, chosen, strict=True):
            self._choose(topic_class, leaders)

    def _choose(self, topic_class: TopicClass, leaders: IntArray) -> None:
        self._count(topic_class, -1)
        topic_class.choice.choose(leaders)
        self._count(topic_class, 1)

    def cost(self) -> int:
        """Return the integer weight across racks, without that of partitions without a choice."""
        choices = [topic_class.choice for topic_class in self.classes]
        own = sum(choice.total_off_rack() for choice in choices)
        return own + self._cost_of(range(len(self.problem.quotas)))

    def _cost_of(self, quotas: Iterable[int]) -> int:
        return sum(
            self.problem.quotas[n].weight * self.problem.quotas[n].off_rack(self.per_quotas[n])
            for n in quotas
        )

    def full_brokers(self) -> frozenset[int]:
        """Return the ids of the brokers that have as many leaders as they may have."""
        if self.limits is None:
            return frozenset()
        ids = list(self.problem.broker_index)
        return frozenset(ids[n] for n in np.flatnonzero(self.per_broker >= self.limits).tolist())

    def improve(self, *, own_quotas: bool = False) -> bool:
        """Improve the classes in turn; return whether it is proved that no class alone can be.

        With ``own_quotas``, once, and only by the quotas that a class shares with no other.
        """
        positions = Counter(n for topic_class in self.classes for n in topic_class.quotas)
        for _ in range(1 if own_quotas else MAX_PASSES):
            changed = False
            for topic_class in self.classes:
                own = [n for n in topic_class.quotas if positions[n] == 1]
                if not own_quotas:
                    changed |= self._improve_class(topic_class, topic_class.quotas)
                elif own:
                    changed |= self._improve_class(topic_class, own)
            if not changed or len(self.classes) == 1:
                return all(topic_class.proved for topic_class in self.classes)
        return False

    def _improve_class(self, topic_class: TopicClass, positions: Sequence[int]) -> bool:
        """Choose the best leaders of a class by these quotas, given all other leaders.

        Returns whether any leader changed.
        """
        self._count(topic_class, -1)
        quotas = [self.problem.quotas[n].with_other_leaders(self.per_quotas[n]) for n in positions]
        choice, brokers = topic_class.choice, topic_class.brokers
        before, base = choice.chosen.copy(), self.per_broker[brokers]
        scales = RankScales.of(
            len(brokers),
            int(base.max()) + len(topic_class.partitions),
            changes_first=self.changes_first,
        )
        choice.set_scales(scales)
        limit = None if self.limits is None else self.limits[brokers]
        problem = self.problem
        costs = LeaderCosts(problem.rack_of[brokers], base, scales, problem.rack_slots, limit=limit)
        if not topic_class.started:
            topic_class.started = True
            if self.changes_first:
                choice.choose_cheapest()
            if quotas:
                set_initial_leaders(choice, costs, quotas)
            elif not self.changes_first:
                level_loads(choice, base)
            if limit is not None and not choice.relieve(limit - base):
                choice.choose(before)
        topic_class.proved = best_leaders(choice, costs, quotas)
        self._count(topic_class, 1)
        return bool((choice.chosen != before).any())

    def revert_without_gain(self, before: Sequence[IntArray]) -> None:
        """Restore the leaders ``before`` of each class with which as much is local."""
        for topic_class, leaders in zip(self.classes, before, strict=True):
            choice, after, costs = topic_class.choice, topic_class.choice.chosen, []
            for chosen in (after, leaders):
                self._choose(topic_class, chosen)
                costs.append(choice.total_off_rack() + self._cost_of(topic_class.quotas))
            if costs[1] > costs[0]:
                self._choose(topic_class, after)

    def relaxation(self) -> Relaxation:
        """Return the problem for its bound."""
        classes, quotas = self.classes, self.problem.quotas
        slots = max((topic_class.choice.options.shape[1] for topic_class in classes), default=1)
        class_of = np.repeat(
            np.arange(len(classes)), [len(topic_class.partitions) for topic_class in classes]
        )
        brokers = np.full((len(class_of), slots), -1)
        own_cost = np.zeros_like(brokers)
        reads = np.zeros((len(classes), len(quotas)), bool)
        for n, topic_class in enumerate(classes):
            options = topic_class.choice.options
            width = options.shape[1]
            brokers[class_of == n, :width] = np.where(
                options >= 0, topic_class.brokers[options], -1
            )
            own_cost[class_of == n, :width] = topic_class.choice.off_rack
            reads[n, list(topic_class.quotas)] = True
        fixed = self.problem.leaders_of_quotas(self.problem.fixed)
        return Relaxation(
            brokers,
            own_cost,
            self.problem.rack_of,
            self.problem.rack_slots,
            reads,
            class_of,
            [one.with_other_leaders(led) for one, led in zip(quotas, fixed, strict=True)],
            None if self.limits is None else self.limits - self.base,
        )

    def _served(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return what leaders serve: those of fixed partitions per broker, and those of classes
        per partition; and the leaders of these."""
        fixed = np.zeros(len(self.base), np.int64)
        for partition, broker in self.problem.fixed.items():
            if broker in self.problem.broker_index:
                fixed[self.problem.broker_index[broker]] += self.problem.served(partition)
        size = [
            self.problem.served(tp) for topic_class in self.classes for tp in topic_class.partitions
        ]
        chosen = [topic_class.brokers[topic_class.choice.chosen] for topic_class in self.classes]
        return fixed, np.array(size, np.int64), np.concatenate([np.zeros(0, np.int64), *chosen])

    def heaviest_broker(self) -> float:
        """Return the most that a broker serves, over the mean."""
        served, size, chosen = self._served()
        np.add.at(served, chosen, size)
        return int(served.max()) * len(served) / int(served.sum()) if served.any() else 0.0

    def limit_bytes(
        self, relaxed: Relaxation, max_byte_imbalance: float
    ) -> tuple[IntArray | None, Relaxation]:
        """Keep the limit of what leaders on a broker serve.

        Returns what each broker may serve beside its leaders (None if no leader had to move), and
        ``relaxed`` with the limit, if it is kept.
        """
        fixed, size, chosen = self._served()
        if not len(fixed) or not len(size):
            return None, relaxed
        total = int(fixed.sum()) + int(size.sum())
        limit = math.floor(Fraction(total, len(fixed)) * (1 + Fraction(str(max_byte_imbalance))))
        room = limit - fixed
        after = keep_byte_limit(relaxed, chosen, size, room)
        of_classes = np.split(
            after, np.cumsum([len(topic_class.partitions) for topic_class in self.classes])[:-1]
        )
        self.choose(
            [
                np.searchsorted(topic_class.brokers, leaders)
                for topic_class, leaders in zip(self.classes, of_classes, strict=True)
            ]
        )
        left = -byte_excess(after, size, room)
        if (left >= 0).all():
            relaxed = replace(relaxed, served=(size, room))
        return (left if (after != chosen).any() else None), relaxed

    def order(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the replicas of each movable partition, the chosen leader first."""
        ids = list(self.problem.broker_index)
        order = {}
        for topic_class in self.classes:
            leaders = topic_class.brokers[topic_class.choice.chosen].tolist()
            for partition, number in zip(topic_class.partitions, leaders, strict=True):
                others = (b for b in self.problem.view.replicas[partition] if b != ids[number])
                order[partition] = (ids[number], *others)
        return dict(sorted(order.items()))


def _reads(
    view: ClusterView,
    problem: LeaderProblem,
    assignments: Sequence[CurrentAssignment],
    per_quotas: Sequence[IntArray],
    now_and_then: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]],
    levels: int | None,
) -> tuple[tuple[Locality, ...], tuple[BytesAcross, ...]]:
    """Return what each reader reads locally and across racks, with the current and chosen leaders.

    ``per_quotas`` are the chosen ones that each quotas count.
    """
    localities, consumed = [], []
    present = problem.leaders_of_quotas({tp: now_and_then[0].get(tp, -1) for tp in view.replicas})
    of_readers = zip(problem.quotas, present, per_quotas, strict=True)
    for quotas, before, after in islice(of_readers, problem.reader_quotas):
        count, off = quotas.partitions, [quotas.off_rack(before), quotas.off_rack(after)]
        localities.append(Locality(quotas.name, count, count - off[0], count - off[1]))
        across = [quotas.size * off_rack for off_rack in off]
        consumed.append(BytesAcross(quotas.name, quotas.size * count, *across))
    for assignment in assignments:
        partitions = [tp for tp in view.replicas if tp.topic in assignment.topics]
        if not partitions:
            continue
        local = [local_reads(view, assignment, led, levels) for led in now_and_then]
        counts = [sum(reads.values()) for reads in local]
        total = sum(max(1, len(assignment.readers(tp))) for tp in partitions)
        localities.append(Locality(assignment.name, total, *counts))
        read = view.replicas.keys() & {*assignment.racks, *assignment.shared}
        across = [
            sum(
                assignment.weight(tp) * (1 - reads.get(tp, 0) / max(1, len(assignment.readers(tp))))
                for tp in read
            )
            for reads in local
        ]
        consumed.append(BytesAcross(assignment.name, sum(map(assignment.weight, read)), *across))
    return tuple(localities), tuple(consumed)


def _produced(
    view: ClusterView,
    writers: Sequence[WriterDemand],
    now_and_then: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]],
    levels: int | None,
) -> tuple[BytesAcross, ...]:
    """Return what each writer writes across racks, with the current and the chosen leaders."""
    racks = view.racks()
    partitions = by_topic(view.replicas)
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
