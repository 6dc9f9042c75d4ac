"""From the racks of the consumers to the order of replicas that lets them read locally."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from placement_core.cluster import ClusterView, TopicPartition, moves_between
from placement_core.flow import IntArray
from placement_core.leaders.model import LeaderLayout, Locality, Readers
from placement_core.leaders.problem import Setting
from placement_core.leaders.search import TopicClass

MOST_ROUNDS = 10
"""Passes over the classes of topics; each one that changes anything improves the whole."""


def plan_leaders(
    view: ClusterView,
    readers: Sequence[Readers],
    *,
    topics: Collection[str] | None = None,
    levels: int | None = None,
) -> LeaderLayout:
    """The order of replicas by these objectives, in this order:

    1. the least traffic that balanced assignments of all ``readers`` have to read from another
       rack: partitions, times the steps of their readers' weights;
    2. the least sum of squared preferred leaders per broker, over the whole cluster;
    3. the fewest changes of preferred leader. (Replicas behind the leader keep their order.)

    What is exact. Topics that the same readers share form a class. Within a class, all three ranks
    are exact together, given the leaders of all others
    (:mod:`~placement_core.leaders.problem`, :mod:`~placement_core.leaders.search`). Classes are
    settled in turn, in order of their first topic, those that nobody reads last, again and
    again until no class alone can be improved. With one class, that is the optimum. With more, the
    first rank still is one as long as no ``Readers`` have topics in several classes. The layout
    says what is proved.

    Leaders are chosen from the replicas on brokers of ``view``; a partition without such a
    replica stays as it is. ``topics`` may change, the others only count (left out: all).
    ``levels``: racks that are alike in so many of their widest levels count as one (left out: a
    rack is its whole path). Topics that ``view`` does not have are ignored in ``readers``.

    Raises InvalidOptionError for ``topics`` that the cluster does not have, for ``levels`` below
    1, and where two of the ``readers`` have one name.
    """
    setting = Setting.of(view, readers, topics, levels)
    classes = _classes(setting)
    totals = setting.preferred(setting.fixed)
    led = setting.led_elsewhere()
    for one in classes:
        _count(setting, one, totals, led, 1)
    settled = not classes
    for _ in range(MOST_ROUNDS):
        changes = 0
        for one in classes:
            _count(setting, one, totals, led, -1)
            counted = [q.beside(led[n]) for n in one.readers if (q := setting.quotas[n])]
            changes += one.settle(setting.rack, setting.places, totals, counted)
            _count(setting, one, totals, led, 1)
        if not changes or len(classes) == 1:
            settled = True
            break
    proved = settled and all(one.proved for one in classes)
    localities = tuple(
        Locality(one.name, q.partitions, q.local(today), q.local(after))
        for one, q, today, after in zip(
            readers, setting.quotas, setting.led_today(), led, strict=True
        )
        if q
    )
    order = _order(view, classes, setting)
    return LeaderLayout(
        order=order,
        moves=moves_between({p: view.replicas[p] for p in order}, order),
        localities=localities,
        most_local=all(one.after == one.partitions for one in localities)
        or (proved and not _overlapping(classes)),
        most_even=proved and (len(classes) < 2 or int(np.ptp(totals)) <= 1),
    )


def _classes(setting: Setting) -> list[TopicClass]:
    """Topics by who reads them, those that nobody reads last."""
    found: dict[tuple[int, ...], list[TopicPartition]] = {}
    for partition in setting.free:
        found.setdefault(setting.read_by[partition.topic], []).append(partition)
    last = found.pop((), None)
    if last:
        found[()] = last
    replicas, number = setting.view.replicas, setting.number
    return [
        TopicClass.of(partitions, replicas, number, readers)
        for readers, partitions in found.items()
    ]


def _count(
    setting: Setting, one: TopicClass, totals: IntArray, led: Sequence[IntArray], sign: int
) -> None:
    """Count a class in, or out (``sign`` -1): leaders per broker, and per rack for its readers."""
    mine = np.zeros_like(totals)
    mine[one.brokers] = one.choice.loads
    totals += sign * mine
    for n in one.readers:
        led[n][:] += sign * setting.per_rack(mine)


def _overlapping(classes: Sequence[TopicClass]) -> bool:
    read = [n for one in classes for n in one.readers]
    return len(set(read)) < len(read)


def _order(
    view: ClusterView, classes: Sequence[TopicClass], setting: Setting
) -> dict[TopicPartition, tuple[int, ...]]:
    """Every free partition's replicas with the chosen one in front."""
    ids = list(setting.number)
    order = {}
    for one in classes:
        for partition, chosen in zip(one.partitions, one.choice.chosen.tolist(), strict=True):
            leader = ids[int(one.brokers[chosen])]
            behind = (broker for broker in view.replicas[partition] if broker != leader)
            order[partition] = (leader, *behind)
    return dict(sorted(order.items()))
