"""A lower bound of the bytes across racks of any layout: how far from the best one can be at most.

Groups and writers couple the leaders of all partitions by their quotas, brokers by their limits.
With a *price* per quota and rack, and one per broker, these couplings become costs of leaders
(Lagrangian relaxation), and each partition can choose on its own:

    bound = sum over partitions of the cheapest option's (own bytes + prices)
            - sum over quotas of the dearest permitted distribution of its partitions, by prices
            - sum over brokers of price x limit (of leaders, and of what these serve)

That is below the cost of every layout, whatever the prices, if those of a quota are between 0 and
the weight of its partitions: so much is the most that another leader in a rack can cost or save.
Prices are raised where leaders exceed what is permitted and lowered where they fall short of it
(the subgradient method with Polyak's steps), and the highest bound counts. At the best prices it is
the bound of linear programming.

Source: M. Fisher, *The Lagrangian Relaxation Method for Solving Integer Programming Problems*
(Management Science 27, 1981).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement_core.flow import IntArray
from placement_core.leaders.problem import Quotas

FloatArray = NDArray[np.float64]

MAX_STEPS = 400
"""The maximum number of changes of prices."""

MAX_FAILED_STEPS = 12
"""After so many steps without a higher bound, steps become half as long."""


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The problem as the bound needs it.

    brokers, own_cost
        ``[partition, slot]``: the broker of the option, -1 if there is none, and what it costs by
        itself.
    rack_of, rack_slots
        As in :class:`~placement_core.leaders.problem.LeaderProblem`.
    reads
        ``[partition's class, quota]``: whether the quota counts the partitions of the class.
    class_of
        Per partition, its class.
    quotas
        The quotas, whose ``other_leaders`` are those of partitions that have no choice.
    room
        Per broker, how many leaders it may have of these partitions; None: any number.
    served
        Per partition what its leader serves, and per broker what its leaders may serve; None: any.
    """

    brokers: IntArray
    own_cost: IntArray
    rack_of: IntArray
    rack_slots: int
    reads: NDArray[np.bool_]
    class_of: IntArray
    quotas: Sequence[Quotas]
    room: IntArray | None
    served: tuple[IntArray, IntArray] | None = None

    def quota_arrays(self) -> Iterator[IntArray]:
        """Yield the lowest quotas, the highest, and the other leaders: ``[quota, rack]`` each."""
        for name in ("low", "high", "other_leaders"):
            rows = [getattr(quotas, name) for quotas in self.quotas]
            yield np.array(rows, np.int64).reshape(-1, self.rack_slots)

    def lower_bound(self, cost: int) -> float:
        """Return a lower bound of the weight across racks; ``cost`` is that of a known layout."""
        exists = self.brokers >= 0
        racks = np.where(exists, self.rack_of[self.brokers], 0)
        own = np.where(exists, self.own_cost, np.inf)
        every = np.arange(len(own))
        weight = np.array([float(each.weight) for each in self.quotas]).reshape(-1, 1)
        low, high, others = (each.astype(float) for each in self.quota_arrays())
        rest = np.array([float(q.partitions - q.low.sum()) for q in self.quotas]).reshape(-1, 1)
        counts = self.reads.astype(float)
        price = np.zeros_like(low)
        limits = [] if self.room is None else [(np.ones(len(own)), self.room.astype(float))]
        if self.served is not None:
            size, room = self.served
            limits.append((size / size.mean(), room / size.mean()))
        broker_price = np.zeros((len(limits), len(self.rack_of)))
        best, step, failed = -np.inf, 1.0, 0
        for _ in range(MAX_STEPS):
            of_class = counts @ price
            total = own + of_class[self.class_of[:, None], racks]
            for (load, _), prices in zip(limits, broker_price, strict=True):
                total += load[:, None] * prices[self.brokers]
            slot = total.argmin(axis=1)
            chosen = racks[every, slot]
            leaders = np.zeros((len(counts), self.rack_slots))
            np.add.at(leaders, (self.class_of, chosen), 1.0)
            excess = counts.T @ leaders + others
            permitted = _dearest(price, low, high, rest)
            bound = float(total[every, slot].sum()) + float(((others - permitted) * price).sum())
            excess -= permitted
            broker_excess = np.zeros_like(broker_price)
            for n, (load, room) in enumerate(limits):
                bound -= float((broker_price[n] * room).sum())
                led = np.bincount(self.brokers[every, slot], load, len(room))
                broker_excess[n] = led - room
            broker_excess[(broker_price <= 0) & (broker_excess < 0)] = 0
            if bound > best:
                best, failed = bound, 0
            else:
                failed += 1
                if failed >= MAX_FAILED_STEPS:
                    step, failed = step / 2, 0
            # What cannot change, since the price is at its end, does not count.
            excess[((price <= 0) & (excess < 0)) | ((price >= weight) & (excess > 0))] = 0
            norm = float((excess**2).sum() + (broker_excess**2).sum())
            if norm == 0 or cost - best < 0.5 or step < 1e-4:
                break
            length = step * (cost - bound) / norm
            price = np.clip(price + length * excess, 0, weight)
            broker_price = np.maximum(broker_price + length * broker_excess, 0)
        return best


def _dearest(price: FloatArray, low: FloatArray, high: FloatArray, rest: FloatArray) -> FloatArray:
    """Return the distribution of each quota's partitions with the maximum price.

    ``rest`` are the partitions beyond ``low``: they go to the dearest racks, up to ``high``.
    """
    order = np.argsort(-price, axis=1, kind="stable")
    width = np.take_along_axis(high - low, order, axis=1)
    before = np.cumsum(width, axis=1) - width
    taken = np.clip(rest - before, 0, width)
    dearest = low.copy()
    np.put_along_axis(dearest, order, np.take_along_axis(low, order, axis=1) + taken, axis=1)
    return dearest
