"""Leader layouts: from the racks of consumers to the order of replicas that lets them read locally.

Objectives, in this order:

1. the minimum of weighted partitions that balanced assignments of all consumers read from another
   rack;
2. the minimum sum of squared preferred leaders per broker, over the whole cluster;
3. the fewest changes of preferred leader. Replicas behind the leader keep their order.

Algorithm. Topics that the same consumers read form a class (:class:`TopicClass`). Within a class,
all three objectives are optimal together, given the leaders of all other classes
(:mod:`placement_core.leaders.problem` has the costs, :mod:`placement_core.leaders.search` the
search). Classes are improved in turn, in order of their first topic, those without consumers last,
until no class alone can be improved. With one class, that is the optimum. With several, the first
objective is still optimal as long as no demand has topics in more than one of them. The layout
contains what is proved.

Worked example: 36 partitions, RF 3, on racks a, b and c of two brokers each, 12 leaders in each
rack. Two consumers in a and one in b read 24 partitions in a and 12 in b. The layout moves the 12
leaders of rack c to a: 12 changes, and leaders per broker are 12 12, 6 6, 0 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement_core.cluster import ClusterView, TopicPartition, moves_between
from placement_core.flow import IntArray, level_loads
from placement_core.leaders.model import ConsumerDemand, LeaderLayout, Locality
from placement_core.leaders.problem import LeaderCosts, LeaderProblem, Quotas, RankScales
from placement_core.leaders.search import LeaderChoice, best_leaders, set_initial_leaders

MAX_PASSES = 10
"""The maximum number of passes over the classes; each one that changes anything is better."""


def plan_leaders(
    view: ClusterView,
    demands: Sequence[ConsumerDemand],
    *,
    topics: Collection[str] | None = None,
    levels: int | None = None,
) -> LeaderLayout:
    """Return the order of replicas with the best leaders for ``demands``.

    Objectives and exactness are in :mod:`placement_core.leaders.plan`. Leaders are chosen from the
    replicas on brokers of ``view``; a partition without such a replica stays as it is.

    topics
        The topics whose leaders may change; others only count. Default: all.
    levels
        Racks that are equal in so many of their widest levels count as one. Default: all levels.

    Topics of a demand that ``view`` does not have are ignored. Raises InvalidOptionError for
    ``topics`` that the cluster does not have, for ``levels`` below 1, and if two demands have the
    same name.
    """
    problem = LeaderProblem.of(view, demands, topics, levels)
    classes = _topic_classes(problem)
    per_broker = problem.preferred_leaders(problem.fixed)
    per_rack = problem.fixed_leaders()
    for topic_class in classes:
        _count(problem, topic_class, per_broker, per_rack, 1)
    converged = not classes
    for _ in range(MAX_PASSES):
        changed = False
        for topic_class in classes:
            _count(problem, topic_class, per_broker, per_rack, -1)
            quotas = [
                quotas.with_other_leaders(per_rack[n])
                for n in topic_class.demands
                if (quotas := problem.quotas[n])
            ]
            changed |= topic_class.improve(problem.rack_of, problem.rack_slots, per_broker, quotas)
            _count(problem, topic_class, per_broker, per_rack, 1)
        if not changed or len(classes) == 1:
            converged = True
            break
    proved = converged and all(topic_class.proved for topic_class in classes)
    localities = tuple(
        Locality(demand.name, quotas.partitions, quotas.local(before), quotas.local(after))
        for demand, quotas, before, after in zip(
            demands, problem.quotas, problem.current_leaders(), per_rack, strict=True
        )
        if quotas
    )
    order = _order(problem, classes)
    return LeaderLayout(
        order=order,
        moves=moves_between({p: view.replicas[p] for p in order}, order),
        localities=localities,
        locality_proved=all(each.after == each.partitions for each in localities)
        or (proved and not _overlapping(classes)),
        balance_proved=proved and (len(classes) < 2 or int(np.ptp(per_broker)) <= 1),
    )


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
    started: bool = False
    proved: bool = False

    @classmethod
    def of(
        cls,
        partitions: Sequence[TopicPartition],
        replicas: Mapping[TopicPartition, tuple[int, ...]],
        broker_index: Mapping[int, int],
        demands: tuple[int, ...],
    ) -> TopicClass:
        """Return the class with its present leaders.

        Each partition needs at least one replica on a broker of ``broker_index``.
        """
        rows = [replicas[partition] for partition in partitions]
        options = np.full((len(rows), max(map(len, rows))), -1)
        for row, brokers in enumerate(rows):
            for slot, broker in enumerate(brokers):
                options[row, slot] = broker_index.get(broker, -1)
        used = np.unique(options[options >= 0])
        number = np.full(int(used[-1]) + 2, -1)
        number[used] = np.arange(len(used))
        options = number[options]
        return cls(partitions, used, LeaderChoice.of(options, options[:, 0], len(used)), demands)

    def improve(
        self, rack_of: IntArray, rack_slots: int, other_leaders: IntArray, demands: list[Quotas]
    ) -> bool:
        """Choose the best leaders, given all other ones; return whether any leader changed.

        ``rack_of`` and ``other_leaders`` are per broker of the whole cluster; ``demands`` are those
        of this class.
        """
        before = self.choice.chosen.copy()
        base = other_leaders[self.brokers]
        scales = RankScales.of(len(self.brokers), int(base.max()) + len(self.partitions))
        costs = LeaderCosts(rack_of[self.brokers], base, scales, rack_slots)
        if not self.started:
            self.started = True
            if demands:
                set_initial_leaders(self.choice, costs, demands)
            else:
                level_loads(self.choice, base)
        self.proved = best_leaders(self.choice, costs, demands)
        return bool((self.choice.chosen != before).any())


def _topic_classes(problem: LeaderProblem) -> list[TopicClass]:
    """Return the movable partitions by demands, those that no demand reads last."""
    by_demands: dict[tuple[int, ...], list[TopicPartition]] = {}
    for partition in problem.movable:
        by_demands.setdefault(problem.demands_of[partition.topic], []).append(partition)
    if unread := by_demands.pop((), None):
        by_demands[()] = unread
    return [
        TopicClass.of(partitions, problem.view.replicas, problem.broker_index, demands)
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
