"""The leader problem in arrays: brokers and racks as numbers, quotas, and the costs of leaders.

Quotas. How many partitions can a balanced assignment read locally, given where the leaders are? Let
N consumers, ``n[r]`` of them in rack r, share P partitions, of which ``L[r]`` have their leader in
r. Each consumer gets ``f = floor(P / N)`` or one more. So rack r has a *quota* between
``low[r] = n[r] x f`` and ``high[r] = low[r] + n[r]`` (``low[r]`` if N divides P), and quotas add up
to P. With the best quotas, the partitions that are read from other racks number::

    max( sum of surpluses of L over high,  sum of shortages of L below low )

No fewer, since a surplus is read from elsewhere and a shortage is filled from elsewhere. No more,
since between ``low`` and ``high`` quotas can follow L: to meet a surplus, other racks' quotas are
raised only as far as needed. Racks without consumers have a quota of 0. Consumers without a rack
have a quota in a rack that has no leaders. A balanced, leader-rack-aware assignment reaches this
number exactly.

Costs. In the graph of :mod:`placement_core.flow.cycle_canceling`, a leader's unit goes from its
broker to the rack and on to a sink. By rank, it costs: a partition that is not read locally; then
the growth of the sum of squared leaders per broker. (Changes of leader are the costs of moves
between brokers, the lowest rank.)

- For a single group of consumers the arcs are exact. Below its lowest quota a rack passes units on
  free of cost; up to the highest, through a node that all racks share and that passes on what is
  left of the partitions when all lowest quotas are met; any more units are not local.
- For several groups, each partition's one leader serves all of them, and such shared nodes cannot
  be added up. Costs that depend on the leaders in one rack can: the *surplus* over highest quotas,
  the *shortage* below lowest ones, and any mixture of both. These are lower bounds of the
  partitions that are not local, and exact where highest and lowest quotas agree
  (:mod:`placement_core.leaders.search`).

Producers that write to the leaders in their own rack have quotas too: a rack from which a share of
a topic's bytes comes should lead that share of its partitions, rounded down or up.

Groups that keep their assignment have no quotas, nor have other producers: each of their partitions
has fixed readers and writers, so a choice of its leader has a fixed cost, whatever the other
leaders are. These costs, and those of changes, are the costs of moves between brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from placement_core.cluster import ClusterView, TopicPartition, by_topic
from placement_core.errors import InvalidOptionError
from placement_core.flow import INF, IntArray
from placement_core.leaders.model import ConsumerDemand, CurrentAssignment, WriterDemand
from placement_core.racks import parse_rack

MIN_WEIGHT_UNITS, MAX_WEIGHT_UNITS = 10_000, 1 << 40
"""The integer weight of the heaviest reader: as high as int64 permits, between these bounds. The
weights of others are scaled to it, and are 1 or more."""


@dataclass(frozen=True, slots=True)
class LeaderProblem:
    """What stays the same while leaders are chosen.

    broker_index
        Broker id to number, in ascending order of ids.
    rack_of
        Per broker, the number of its rack; ``rack_slots - 2`` if it is unknown.
    rack_slots
        The length of arrays per rack (see :class:`Quotas`).
    quotas
        Those of the demands with consumers and partitions, the first ``reader_quotas``; then those
        of the topics of rack-aware writers.
    fixed_bytes
        Partition to the integer weight of what current assignments read and other writers write,
        by the number of their rack; -1 for racks without live brokers.
    quotas_of
        Topic to the positions of its quotas.
    movable
        Partitions whose leader is chosen.
    fixed
        All others, each with the id of its preferred leader; -1 if its replica list is empty.
    """

    view: ClusterView
    broker_index: dict[int, int]
    rack_of: IntArray
    rack_slots: int
    quotas: tuple[Quotas, ...]
    reader_quotas: int
    fixed_bytes: Mapping[TopicPartition, Mapping[int, int]]
    quotas_of: dict[str, tuple[int, ...]]
    movable: tuple[TopicPartition, ...]
    fixed: dict[TopicPartition, int]

    @property
    def total_weight(self) -> int:
        """The integer weight of all that is read and written."""
        of_quotas = sum(quotas.weight * quotas.partitions for quotas in self.quotas)
        return of_quotas + sum(sum(row.values()) for row in self.fixed_bytes.values())

    def served(self, partition: TopicPartition) -> int:
        """Return the integer weight of what is read from a partition and written to it."""
        of_quotas = sum(self.quotas[n].weight for n in self.quotas_of[partition.topic])
        return of_quotas + sum(self.fixed_bytes.get(partition, {}).values())

    @classmethod
    def of(
        cls,
        view: ClusterView,
        demands: Sequence[ConsumerDemand],
        assignments: Sequence[CurrentAssignment],
        writers: Sequence[WriterDemand],
        topics: Collection[str] | None,
        levels: int | None,
    ) -> LeaderProblem:
        """Return the problem. Raises InvalidOptionError as ``plan_leaders`` does."""
        partitions = by_topic(view.replicas)
        if levels is not None and levels < 1:
            raise InvalidOptionError(f"levels is {levels}: compare racks by at least one level")
        _require_distinct(
            "readers", [*(each.name for each in demands), *(each.name for each in assignments)]
        )
        _require_distinct("writers", [each.name for each in writers])
        if missing := sorted(set(topics or ()) - partitions.keys()):
            raise InvalidOptionError(
                f"the cluster has no topic {', '.join(missing)}: check the names"
            )
        paths = {broker: parse_rack(rack) for broker, rack in sorted(view.racks().items())}
        racks = sorted({path[:levels] for path in paths.values() if path is not None})
        rack_index = {rack: n for n, rack in enumerate(racks)}
        rack_slots = len(racks) + 2
        written = [(each, each.by_partition(partitions)) for each in writers]
        heaviest = max(
            [demand.weight for demand in demands]
            + [each.weight(tp) for each in assignments for tp in (*each.racks, *each.shared)]
            + [sum(row.values()) for _, rows in written for row in rows.values()],
            default=1.0,
        )
        units = weight_units(
            len(paths), len(view.replicas), len(demands) + len(assignments) + len(writers)
        )
        quotas: list[Quotas] = []
        topics_of_quotas: list[Collection[str]] = []
        fixed_bytes: dict[TopicPartition, dict[int, int]] = {}

        def scaled(weight: float) -> int:
            """Return the weight as an integer: ``heaviest`` is ``units``, the others 1 or more."""
            return max(1, round(weight / heaviest * units))

        def rack_number(rack: str | None) -> int:
            path = parse_rack(rack)
            return -1 if path is None else rack_index.get(path[:levels], -1)

        def add_fixed(partition: TopicPartition, rack: str | None, amount: float) -> None:
            if amount > 0:
                row, number = fixed_bytes.setdefault(partition, {}), rack_number(rack)
                row[number] = row.get(number, 0) + scaled(amount)

        for demand in demands:
            count = sum(len(partitions.get(topic, ())) for topic in demand.topics)
            consumers = np.zeros(rack_slots, np.int64)
            for rack, number in demand.consumers.items():
                consumers[rack_number(rack)] += number
            if count and consumers.any():
                weight = scaled(demand.weight)
                quotas.append(Quotas.of(consumers, count, demand.name, demand.weight, weight))
                topics_of_quotas.append(demand.topics)
        reader_quotas = len(quotas)
        for assignment in assignments:
            for partition in (*assignment.racks, *assignment.shared):
                if partition in view.replicas:
                    readers = assignment.readers(partition)
                    for rack in readers:
                        add_fixed(partition, rack, assignment.weight(partition) / len(readers))
        for writer, rows in written:
            if not writer.rack_aware:
                for partition, row in rows.items():
                    for rack, amount in row.items():
                        add_fixed(partition, rack, amount)
                continue
            for topic in sorted({partition.topic for partition in rows}):
                count, by_rack = len(partitions[topic]), np.zeros(rack_slots)
                for partition in partitions[topic]:
                    for rack, amount in rows.get(partition, {}).items():
                        by_rack[rack_number(rack)] += amount
                if by_rack.any():
                    size = float(by_rack.sum()) / count
                    quotas.append(Quotas.of_writes(by_rack, count, writer.name, size, scaled(size)))
                    topics_of_quotas.append((topic,))
        movable: list[TopicPartition] = []
        fixed: dict[TopicPartition, int] = {}
        for partition, replicas in sorted(view.replicas.items()):
            if (topics is None or partition.topic in topics) and not paths.keys().isdisjoint(
                replicas
            ):
                movable.append(partition)
            else:
                fixed[partition] = next(iter(replicas), -1)
        return cls(
            view=view,
            broker_index={broker: n for n, broker in enumerate(paths)},
            rack_of=np.array(
                [len(racks) if p is None else rack_index[p[:levels]] for p in paths.values()],
                np.int64,
            ),
            rack_slots=rack_slots,
            quotas=tuple(quotas),
            reader_quotas=reader_quotas,
            fixed_bytes=fixed_bytes,
            quotas_of={
                topic: tuple(n for n, read in enumerate(topics_of_quotas) if topic in read)
                for topic in partitions
            },
            movable=tuple(movable),
            fixed=fixed,
        )

    def per_rack(self, per_broker: IntArray) -> IntArray:
        """Return leaders per rack, from those per broker."""
        return _per_rack(self.rack_of, per_broker, self.rack_slots)

    def leaders_of_quotas(self, leaders: Mapping[TopicPartition, int]) -> list[IntArray]:
        """Return ``leaders`` (broker ids) per quotas and rack.

        The rack of a broker that is not live is unknown.
        """
        counts = [np.zeros(self.rack_slots, np.int64) for _ in self.quotas]
        for partition, broker in leaders.items():
            leader = self.broker_index.get(broker)
            rack = self.rack_slots - 2 if leader is None else self.rack_of[leader]
            for n in self.quotas_of[partition.topic]:
                counts[n][rack] += 1
        return counts


def _per_rack(rack_of: IntArray, per_broker: IntArray, rack_slots: int) -> IntArray:
    """Return leaders per rack, from those per broker."""
    leaders = np.zeros(rack_slots, np.int64)
    np.add.at(leaders, rack_of, per_broker)
    return leaders


def _require_distinct(what: str, names: Sequence[str]) -> None:
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidOptionError(f"two {what} are named {repeated[0]}: give each a name of its own")


def weight_units(brokers: int, partitions: int, users: int) -> int:
    """Return the integer weight of the heaviest reader or writer of a partition: all costs together
    stay far below 2^60."""
    scale = RankScales.of(brokers + 2, partitions, changes_first=True).off_rack
    units = (1 << 56) // (scale * max(1, partitions) * max(1, users))
    return min(max(units, MIN_WEIGHT_UNITS), MAX_WEIGHT_UNITS)


@dataclass(frozen=True, slots=True)
class Quotas:
    """How many partitions the consumers of one demand can read, or producers write, in each rack.

    All arrays are per rack, with two more entries at the end: one for leaders in an unknown rack
    (where no consumer is), one for consumers in a rack without brokers (where no leader is).
    ``other_leaders`` are leaders of partitions that are not being chosen at the moment. ``weight``
    is the integer weight of a partition, ``size`` its weight in the unit of the input, ``name`` the
    name of the demand or the writer.
    """

    low: IntArray
    high: IntArray
    partitions: int
    name: str
    size: float
    weight: int
    other_leaders: IntArray

    @classmethod
    def of(
        cls, consumers: IntArray, partitions: int, name: str, size: float, weight: int
    ) -> Quotas:
        """Return the quotas of ``consumers`` (at least one), which share the partitions evenly."""
        share, rest = divmod(partitions, int(consumers.sum()))
        low = consumers * share
        high = low + consumers * (rest > 0)
        return cls(low, high, partitions, name, size, weight, np.zeros_like(low))

    @classmethod
    def of_writes(
        cls, by_rack: NDArray[np.float64], partitions: int, name: str, size: float, weight: int
    ) -> Quotas:
        """Return the quotas of a topic: the share of its bytes that is written in each rack."""
        share = np.round(by_rack / by_rack.sum() * partitions, 9)
        low, high = np.floor(share).astype(np.int64), np.ceil(share).astype(np.int64)
        return cls(low, high, partitions, name, size, weight, np.zeros_like(low))

    def with_other_leaders(self, other_leaders: IntArray) -> Quotas:
        """Return the same quotas beside ``other_leaders``."""
        return replace(self, other_leaders=other_leaders)

    def off_rack(self, leaders: IntArray) -> int:
        """Return how many partitions are not read locally with ``leaders`` per rack, and others."""
        return max(self.surplus(leaders), self.shortage(leaders))

    def surplus(self, leaders: IntArray) -> int:
        """Return by how many partitions racks exceed their highest quotas."""
        return int(np.maximum(leaders + self.other_leaders - self.high, 0).sum())

    def shortage(self, leaders: IntArray) -> int:
        """Return by how many partitions racks are below their lowest quotas."""
        return int(np.maximum(self.low - leaders - self.other_leaders, 0).sum())


@dataclass(frozen=True, slots=True)
class RankScales:
    """The costs of a partition that is not read locally, of a unit of squared leaders, of a change.

    ``off_rack`` outweighs the others. Of the other two, one outweighs the other.
    """

    off_rack: int
    square: int
    change: int

    @classmethod
    def of(cls, brokers: int, max_leaders: int, *, changes_first: bool) -> RankScales:
        """Return scales with which no simple cycle's lower ranks outweigh a higher one.

        A cycle changes at most one leader per broker, and passes each broker's arc to its rack at
        most once; ``max_leaders`` is the maximum number of leaders on a broker. ``changes_first``
        is whether a change outweighs squared leaders.
        """
        max_changes, max_squares = brokers + 1, (brokers + 1) * (2 * max_leaders + 2)
        square = 1 if changes_first else max_changes + 1
        change = max_squares + 1 if changes_first else 1
        lower_ranks = max_squares * square + max_changes * change
        return cls(off_rack=lower_ranks + 1, square=square, change=change)


@dataclass(frozen=True, slots=True)
class LeaderCosts:
    """The costs of leaders per broker and rack; a :class:`~placement_core.flow.LoadCosts`.

    ``rack_of`` is the rack of each broker, ``base`` its leaders of other partitions, ``limit`` the
    maximum number of all its leaders (None: unlimited). ``exact`` has the quotas of the one demand
    that is counted exactly; ``mixture`` has those that are counted by a bound, each with the weight
    of its surplus, the rest of its weight being that of its shortage.
    """

    rack_of: IntArray
    base: IntArray
    scales: RankScales
    rack_slots: int
    exact: Quotas | None = None
    mixture: Sequence[tuple[Quotas, int]] = ()
    limit: IntArray | None = None

    def leaders_per_rack(self, loads: IntArray) -> IntArray:
        """Return the leaders per rack, from those per broker."""
        return _per_rack(self.rack_of, loads, self.rack_slots)

    def costs(self, loads: IntArray) -> IntArray:
        """See ``LoadCosts``. Nodes are the brokers, the racks, the shared node and the sink."""
        brokers = len(loads)
        shared, sink = brokers + self.rack_slots, brokers + self.rack_slots + 1
        cost = np.full((sink + 1, sink + 1), INF, np.int64)
        every, racks = np.arange(brokers), np.arange(brokers, shared)
        total = loads + self.base
        more = (2 * total + 1) * self.scales.square
        if self.limit is not None:
            more = np.where(total < self.limit, more, INF)
        cost[every, brokers + self.rack_of] = more
        back = np.where(loads > 0, (1 - 2 * total) * self.scales.square, INF)
        cost[brokers + self.rack_of, every] = back
        leaders = self.leaders_per_rack(loads)
        if self.exact is not None:
            self._set_exact(cost, leaders, self.exact, racks)
            return cost
        cost[racks, sink] = self._marginal(leaders)
        cost[sink, racks] = -self._marginal(leaders - 1)
        return cost

    def _marginal(self, leaders: IntArray) -> IntArray:
        """Return the cost of one more leader in each rack, by the bounds."""
        added = np.zeros(self.rack_slots, np.int64)
        for quotas, of_surplus in self.mixture:
            total = leaders + quotas.other_leaders
            added += of_surplus * (total >= quotas.high)
            added -= (quotas.weight - of_surplus) * (total < quotas.low)
        return added * self.scales.off_rack

    def _set_exact(
        self, cost: IntArray, leaders: IntArray, quotas: Quotas, racks: IntArray
    ) -> None:
        """Set the arcs between racks, shared node and sink in ``cost``."""
        shared, sink = int(racks[-1]) + 1, int(racks[-1]) + 2
        total = leaders + quotas.other_leaders
        off_rack = quotas.weight * self.scales.off_rack
        rest = quotas.partitions - int(quotas.low.sum())
        low = np.minimum(total, quotas.low)
        between = np.minimum(total - low, quotas.high - quotas.low)
        passed = np.diff(np.minimum(np.cumsum(between), rest), prepend=0)
        beyond = total - low - passed
        cost[racks, sink] = np.where(low < quotas.low, 0, off_rack)
        cost[sink, racks] = np.where(beyond > 0, -off_rack, np.where(low > 0, 0, INF))
        cost[racks[passed < quotas.high - quotas.low], shared] = 0
        cost[shared, racks[passed > 0]] = 0
        if passed.sum() < rest:
            cost[shared, sink] = 0
        if passed.sum() > 0:
            cost[sink, shared] = 0
