"""How many partitions a balanced assignment can read locally, from where the leaders are.

Let N consumers, ``n[r]`` of them in rack r, share P partitions, of which ``L[r]`` are led in r.
Each gets ``f = floor(P / N)`` or one more; rack r gets a *quota* of ``low[r] = n[r] x f`` to
``high[r] = low[r] + n[r]`` (to ``low[r]``, where N divides P), and quotas add up to P. The best
quotas leave

    max( sum of what L exceeds high by,  sum of what L is short of low by )

partitions to be read in other racks. No fewer, since a surplus is read elsewhere and a shortage is
filled from elsewhere. As few, since between ``low`` and ``high`` quotas can follow L: surpluses
are met by raising quotas elsewhere only as far as they have to be.

Racks without consumers have a quota of 0; consumers without a rack have one where nobody leads.
Derived from the same numbers as an assignment's, so a balanced assignment reaches it exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from placement_core.leaders.model import Readers
from placement_core.matching import IntArray
from placement_core.racks import RackPath, parse_rack

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
