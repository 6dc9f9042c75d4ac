"""Even loads as outer costs: the sum of squared loads, through one hub."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement_core.exchange.cycles import FAR
from placement_core.matching import IntArray


@dataclass(frozen=True, slots=True)
class SquaredLoads:
    """The sum of squared loads, ``worth`` per unit.

    ``base`` is what each broker carries besides what is exchanged.
    """

    base: IntArray
    worth: int

    def costs(self, loads: IntArray) -> IntArray:
        """Arcs from each broker to a hub (one unit more) and back (one less)."""
        count = len(loads)
        total = loads + self.base
        cost = np.full((count + 1, count + 1), FAR, np.int64)
        cost[:count, count] = (2 * total + 1) * self.worth
        cost[count, :count] = np.where(loads > 0, (1 - 2 * total) * self.worth, FAR)
        return cost
