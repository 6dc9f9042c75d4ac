"""Brokers, racks and readers in numbers, and what leaders outside the choice count for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from placement_core.cluster import ClusterView, TopicPartition
from placement_core.errors import InvalidOptionError
from placement_core.flow import FAR, IntArray
from placement_core.leaders.model import Readers
from placement_core.racks import RackPath, parse_rack

# ---- How many partitions a balanced assignment can read locally, from where the leaders are.
#
# Let N consumers, ``n[r]`` of them in rack r, share P partitions, of which ``L[r]`` are led in r.
# Each gets ``f = floor(P / N)`` or one more; rack r gets a *quota* of ``low[r] = n[r] x f`` to
# ``high[r] = low[r] + n[r]`` (to ``low[r]``, where N divides P), and quotas add up to P. The best
# quotas leave
#
#     max( sum of what L exceeds high by,  sum of what L is short of low by )
#
# partitions to be read in other racks. No fewer, since a surplus is read elsewhere and a shortage
# is filled from elsewhere. As few, since between ``low`` and ``high`` quotas can follow L:
# surpluses are met by raising quotas elsewhere only as far as they have to be.
#
# Racks without consumers have a quota of 0; consumers without a rack have one where nobody leads.
# Derived from the same numbers as an assignment's, so a balanced assignment reaches it exactly.

STEPS = 100
"""Weights are counted in hundredths of the heaviest; none is less than one."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """What one set of readers can read in each rack; ``steps`` is the weight of a partition.

    All arrays are per rack, and two places more: where leaders stand whose rack is not known (no
    consumer does), and where consumers stand whose rack has no broker (no leader does).
    ``elsewhere`` counts leaders of partitions that the layout in hand does not choose.
    """

    low: IntArray
    high: IntArray
    partitions: int
    steps: int
    elsewhere: IntArray

    @classmethod
    def of(
        cls,
        readers: Readers,
        racks: Sequence[RackPath],
        levels: int | None,
        partitions: int,
        steps: int,
    ) -> Quotas | None:
        """The quotas of ``readers`` over ``racks``; None without consumers or partitions."""
        number = {rack: n for n, rack in enumerate(racks)}
        count = np.zeros(len(racks) + 2, np.int64)
        for rack, consumers in readers.consumers.items():
            path = parse_rack(rack)
            count[-1 if path is None else number.get(path[:levels], -1)] += consumers
        total = int(count.sum())
        if not total or not partitions:
            return None
        each, rest = divmod(partitions, total)
        low = count * each
        return cls(low, low + count * (rest > 0), partitions, steps, np.zeros_like(low))

    def local(self, leaders: IntArray) -> int:
        """How many partitions are read locally with ``leaders`` per rack (and elsewhere)."""
        return self.partitions - self.off(leaders)

    def surplus(self, leaders: IntArray) -> int:
        """By how many partitions racks exceed their highest quotas."""
        return int(np.maximum(leaders + self.elsewhere - self.high, 0).sum())

    def shortage(self, leaders: IntArray) -> int:
        """By how many partitions racks miss their lowest quotas."""
        return int(np.maximum(self.low - leaders - self.elsewhere, 0).sum())

    def beside(self, elsewhere: IntArray) -> Quotas:
        """The same, with ``elsewhere`` as given."""
        return replace(self, elsewhere=elsewhere)

    def off(self, leaders: IntArray) -> int:
        """How many partitions are not read locally."""
        return max(self.surplus(leaders), self.shortage(leaders))


def weight_steps(weights: Sequence[float]) -> list[int]:
    """Each weight in steps of which the heaviest has :data:`STEPS`."""
    heaviest = max(weights, default=1.0)
    return [max(1, round(weight / heaviest * STEPS)) for weight in weights]


def racks_of(racks: Mapping[int, str | None], levels: int | None) -> list[RackPath]:
    """The known racks, cut to ``levels`` levels (None: all), sorted."""
    paths = (parse_rack(rack) for rack in racks.values())
    return sorted({path[:levels] for path in paths if path is not None})


@dataclass(frozen=True, slots=True)
class Setting:
    """What does not change while leaders are chosen.

    number
        Broker id to number.
    rack
        Per broker its rack; ``places - 2`` where that is not known.
    places
        The length of arrays per rack (see :class:`~placement_core.leaders.problem.Quotas`).
    quotas
        Per set of readers; None where it has no consumers or no partitions.
    read_by
        Topic to the places of its readers (those with quotas).
    free, fixed
        Partitions to choose leaders of, and the others.
    """

    view: ClusterView
    number: dict[int, int]
    rack: IntArray
    places: int
    quotas: tuple[Quotas | None, ...]
    read_by: dict[str, tuple[int, ...]]
    free: tuple[TopicPartition, ...]
    fixed: tuple[TopicPartition, ...]

    @classmethod
    def of(
        cls,
        view: ClusterView,
        readers: Sequence[Readers],
        topics: Collection[str] | None,
        levels: int | None,
    ) -> Setting:
        """Check and number. Raises InvalidOptionError as ``plan_leaders`` does."""
        known = {partition.topic for partition in view.replicas}
        _check(known, readers, topics, levels)
        racks = racks_of(view.racks(), levels)
        place = {rack: n for n, rack in enumerate(racks)}
        paths = {broker: parse_rack(rack) for broker, rack in sorted(view.racks().items())}
        number = {broker: n for n, broker in enumerate(paths)}
        rack = [len(racks) if path is None else place[path[:levels]] for path in paths.values()]
        sizes: dict[str, int] = dict.fromkeys(sorted(known), 0)
        for partition in view.replicas:
            sizes[partition.topic] += 1
        steps = weight_steps([one.weight for one in readers])
        quotas = tuple(
            Quotas.of(one, racks, levels, sum(sizes.get(topic, 0) for topic in one.topics), step)
            for one, step in zip(readers, steps, strict=True)
        )
        read_by = {
            topic: tuple(n for n, one in enumerate(readers) if quotas[n] and topic in one.topics)
            for topic in sizes
        }
        may_change = known if topics is None else topics
        free: list[TopicPartition] = []
        fixed: list[TopicPartition] = []
        for partition, replicas in sorted(view.replicas.items()):
            can = partition.topic in may_change and any(broker in number for broker in replicas)
            (free if can else fixed).append(partition)
        return cls(
            view,
            number,
            np.array(rack, np.int64),
            len(racks) + 2,
            quotas,
            read_by,
            tuple(free),
            tuple(fixed),
        )

    def preferred(self, partitions: Collection[TopicPartition]) -> IntArray:
        """Preferred leaders per broker."""
        totals = np.zeros(len(self.number), np.int64)
        for partition in partitions:
            leader = self.number.get(next(iter(self.view.replicas[partition]), -1))
            if leader is not None:
                totals[leader] += 1
        return totals

    def per_rack(self, per_broker: IntArray) -> IntArray:
        """Leaders per rack, from those per broker."""
        led = np.zeros(self.places, np.int64)
        np.add.at(led, self.rack, per_broker)
        return led

    def led_elsewhere(self) -> list[IntArray]:
        """Per set of readers, preferred leaders of its fixed partitions, per rack."""
        return self._led({p: next(iter(self.view.replicas[p]), -1) for p in self.fixed})

    def led_today(self) -> list[IntArray]:
        """Per set of readers, present leaders per rack; preferred ones, in a view without any."""
        if not self.view.leaders:
            return self._led({p: next(iter(row), -1) for p, row in self.view.replicas.items()})
        return self._led({p: self.view.leaders.get(p, -1) for p in self.view.replicas})

    def _led(self, leaders: Mapping[TopicPartition, int]) -> list[IntArray]:
        """Where nobody leads, or a broker that is gone, counts as a rack that is not known."""
        led = [np.zeros(self.places, np.int64) for _ in self.quotas]
        for partition, broker in leaders.items():
            leader = self.number.get(broker)
            rack = self.places - 2 if leader is None else self.rack[leader]
            for n in self.read_by[partition.topic]:
                led[n][rack] += 1
        return led


def _check(
    known: Collection[str],
    readers: Sequence[Readers],
    topics: Collection[str] | None,
    levels: int | None,
) -> None:
    if levels is not None and levels < 1:
        raise InvalidOptionError(f"levels is {levels}: compare racks by at least one level")
    names = [one.name for one in readers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidOptionError(f"two sets of readers are named {twice[0]}: name each its own")
    if missing := sorted(set(topics or ()) - set(known)):
        raise InvalidOptionError(f"the cluster has no topic {', '.join(missing)}: check the names")


# ---- What a choice of leaders costs beyond its changes, as arcs from brokers to racks and a sink.
#
# A leader's unit runs from its broker to the rack, and on to the sink. On the way it costs,
# higher rank first: a partition that is not read locally; the growth of the sum of squared leaders
# per broker. (Changes of leader cost where brokers are exchanged; they rank last.)
#
# For one set of readers the arcs are exact: below its lowest quota a rack passes units on for
# nothing; up to the highest, through a node that all racks share and that passes on what is
# left of the partitions when all lowest quotas are taken; whatever else is not local.
#
# For several sets of readers, each partition's one leader serves all of them, and such shared nodes
# cannot be added up. But costs that depend on one rack's leaders alone can: the *surplus* over
# highest quotas, or the *shortage* below lowest ones. Either is at most what cannot be local, and
# is that where highest and lowest quotas agree (:mod:`~placement_core.leaders.search`).


@dataclass(frozen=True, slots=True)
class Ranks:
    """What a partition that is not local, and one unit of the squares, are worth."""

    local: int
    square: int

    @classmethod
    def of(cls, brokers: int, largest: int) -> Ranks:
        """Such that no simple cycle's lower ranks outweigh a higher one.

        A cycle changes at most one leader per broker, and passes each broker's arc to its rack at
        most once; ``largest`` bounds the leaders of a broker.
        """
        square = brokers + 2
        return cls(local=(brokers + 1) * (2 * largest + 2) * square + brokers + 2, square=square)


@dataclass(frozen=True, slots=True)
class LeaderCosts:
    """The outer costs of a choice of leaders.

    ``rack`` is each broker's, ``base`` the leaders that it has besides. ``exact`` is the one
    set of readers that is counted exactly; ``surplus`` and ``shortage`` are those that are
    counted as their name says.
    """

    rack: IntArray
    base: IntArray
    ranks: Ranks
    racks: int
    exact: Quotas | None = None
    surplus: Sequence[Quotas] = ()
    shortage: Sequence[Quotas] = ()

    def leaders(self, loads: IntArray) -> IntArray:
        """Leaders per rack."""
        counted = np.zeros(self.racks, np.int64)
        np.add.at(counted, self.rack, loads)
        return counted

    def costs(self, loads: IntArray) -> IntArray:
        """See ``Outer``: nodes are brokers, racks, the shared node, the sink."""
        brokers = len(loads)
        shared, sink = brokers + self.racks, brokers + self.racks + 1
        cost = np.full((sink + 1, sink + 1), FAR, np.int64)
        every, racks = np.arange(brokers), np.arange(brokers, shared)
        total = loads + self.base
        cost[every, brokers + self.rack] = (2 * total + 1) * self.ranks.square
        back = np.where(loads > 0, (1 - 2 * total) * self.ranks.square, FAR)
        cost[brokers + self.rack, every] = back
        led = self.leaders(loads)
        if self.exact is not None:
            self._exact(cost, led, self.exact, racks)
            return cost
        cost[racks, sink] = self._marginal(led)
        cost[sink, racks] = -self._marginal(led - 1)
        return cost

    def _marginal(self, led: IntArray) -> IntArray:
        """What one more leader costs in each rack."""
        added = np.zeros(self.racks, np.int64)
        for quotas in self.surplus:
            added += quotas.steps * (led + quotas.elsewhere >= quotas.high)
        for quotas in self.shortage:
            added -= quotas.steps * (led + quotas.elsewhere < quotas.low)
        return added * self.ranks.local

    def _exact(self, cost: IntArray, led: IntArray, quotas: Quotas, racks: IntArray) -> None:
        shared, sink = int(racks[-1]) + 1, int(racks[-1]) + 2
        total = led + quotas.elsewhere
        worth = quotas.steps * self.ranks.local
        rest = quotas.partitions - int(quotas.low.sum())
        low = np.minimum(total, quotas.low)
        between = np.minimum(total - low, quotas.high - quotas.low)
        passed = np.diff(np.minimum(np.cumsum(between), rest), prepend=0)
        beyond = total - low - passed
        cost[racks, sink] = np.where(low < quotas.low, 0, worth)
        cost[sink, racks] = np.where(beyond > 0, -worth, np.where(low > 0, 0, FAR))
        cost[racks[passed < quotas.high - quotas.low], shared] = 0
        cost[shared, racks[passed > 0]] = 0
        if passed.sum() < rest:
            cost[shared, sink] = 0
        if passed.sum() > 0:
            cost[sink, shared] = 0
