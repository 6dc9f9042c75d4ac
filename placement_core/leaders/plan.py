"""Leader layouts: from the racks of consumers to the order of replicas that lets them read locally.

Objectives, in this order:

1. the minimum of weighted partitions that are read from another rack: by balanced assignments of
   all ``ConsumerDemand`` values, and by the present owners of all ``CurrentAssignment`` values;
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
until no class alone can be improved. With one class, that is the optimum. With several, the first
objective is still optimal as long as no demand has topics in more than one of them, and no broker
is at its limit. The layout contains what is proved.

Worked example: 36 partitions, RF 3, on racks a, b and c of two brokers each, 12 leaders in each
rack. Two consumers in a and one in b read 24 partitions in a and 12 in b. The layout moves the 12
leaders of rack c to a: 12 changes, and leaders per broker are 12 12, 6 6, 0 0.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement_core.cluster import ClusterView, TopicPartition, moves_between
from placement_core.errors import InvalidOptionError
from placement_core.flow import IntArray, level_loads
from placement_core.leaders.model import (
    ConsumerDemand,
    CurrentAssignment,
    LeaderLayout,
    Locality,
)
from placement_core.leaders.problem import (
    LeaderCosts,
    LeaderProblem,
    Quotas,
    RankScales,
    leader_limits,
)
from placement_core.leaders.search import LeaderChoice, best_leaders, set_initial_leaders
from placement_core.leaders.unmet import local_partitions, unmet_reads

MAX_PASSES = 10
"""The maximum number of passes over the classes; each one that changes anything is better."""

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
    topics: Collection[str] | None = None,
    levels: int | None = None,
    max_imbalance: float | None = None,
    only_gains: bool = False,
    other_leaders: Mapping[int, int] | None = None,
) -> LeaderLayout:
    """Return the order of replicas with the best leaders for ``demands`` and ``assignments``.

    Objectives and exactness are in :mod:`placement_core.leaders.plan`. Leaders are chosen from the
    replicas on brokers of ``view``; a partition without such a replica stays as it is.

    topics
        The topics whose leaders may change; others only count. Default: all.
    levels
        Racks that are equal in so many of their widest levels count as one. Default: all levels.
    max_imbalance
        By what share of the mean a broker may lead more partitions than the mean. Default: any.
    only_gains
        Leave all leaders of a class of topics as they are, if moving them makes nothing local.
    other_leaders
        Broker id to the number of preferred leaders of topics that ``view`` does not have. With
        these, the layout of some topics is that of the whole cluster with only them in ``topics``.

    Topics of a demand that ``view`` does not have are ignored. Raises InvalidOptionError for
    ``topics`` that the cluster does not have, for ``levels`` below 1, for a negative
    ``max_imbalance``, and if two readers have the same name.
    """
    if max_imbalance is not None and not 0 <= max_imbalance < float("inf"):
        raise InvalidOptionError(
            f"max_imbalance is {max_imbalance!r}: give a share of the mean, 0 or more, such as 1.0"
        )
    problem = LeaderProblem.of(view, demands, assignments, topics, levels)
    classes = _topic_classes(problem, changes_first=bool(assignments))
    per_broker = problem.preferred_leaders(problem.fixed)
    for broker, count in (other_leaders or {}).items():
        if broker in problem.broker_index:
            per_broker[problem.broker_index[broker]] += count
    per_rack = problem.fixed_leaders()
    for topic_class in classes:
        _count(problem, topic_class, per_broker, per_rack, 1)
    limit, limits = leader_limits(per_broker, max_imbalance)
    present = [topic_class.choice.chosen.copy() for topic_class in classes]
    converged = False
    for _ in range(MAX_PASSES):
        changed = False
        for topic_class in classes:
            _count(problem, topic_class, per_broker, per_rack, -1)
            quotas = _quotas_without(problem, topic_class, per_rack)
            changed |= topic_class.improve(
                problem.rack_of, problem.rack_slots, per_broker, limits, quotas
            )
            _count(problem, topic_class, per_broker, per_rack, 1)
        if not changed or len(classes) == 1:
            converged = True
            break
    proved = converged and all(topic_class.proved for topic_class in classes)
    # A broker at its limit keeps one class from what another uses.
    independent = len(classes) < 2 or limits is None or not (per_broker >= limits).any()
    if only_gains:
        for topic_class, before in zip(classes, present, strict=True):
            _revert_if_no_gain(problem, topic_class, before, per_broker, per_rack)
    order = _order(problem, classes)
    localities = [
        Locality(demand.name, quotas.partitions, quotas.local(before), quotas.local(after))
        for demand, quotas, before, after in zip(
            demands, problem.quotas, problem.current_leaders(), per_rack, strict=True
        )
        if quotas
    ]
    leaders = _leaders_after(view, order)
    for assignment in assignments:
        partitions = sum(partition.topic in assignment.topics for partition in view.replicas)
        if partitions:
            now = local_partitions(view, assignment, view.leaders_or_preferred(), levels)
            then = local_partitions(view, assignment, leaders, levels)
            localities.append(Locality(assignment.name, partitions, len(now), len(then)))
    return LeaderLayout(
        order=order,
        moves=moves_between({p: view.replicas[p] for p in order}, order),
        localities=tuple(localities),
        locality_proved=all(each.after == each.partitions for each in localities)
        or (proved and independent and not _overlapping(classes)),
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
            levels=levels,
        ),
        leader_limit=limit,
    )


def _quotas_without(
    problem: LeaderProblem, topic_class: TopicClass, per_rack: Sequence[IntArray]
) -> list[Quotas]:
    """Return the quotas of the class's demands; ``per_rack`` has all other leaders."""
    return [
        quotas.with_other_leaders(per_rack[n])
        for n in topic_class.demands
        if (quotas := problem.quotas[n])
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
    quotas = _quotas_without(problem, topic_class, per_rack)
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
            reads = problem.reads.get(partition, {})
            all_reads = sum(reads.values())
            for slot, broker in enumerate(brokers):
                number = problem.broker_index.get(broker, -1)
                options[row, slot] = number
                if reads and number >= 0:
                    off_rack[row, slot] = all_reads - reads.get(int(problem.rack_of[number]), 0)
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
