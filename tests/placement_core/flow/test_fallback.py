"""Where a cycle turns out not to be feasible, one with the fewest arcs is taken instead."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from placement_core.flow import FAR, IntArray, SquaredLoads, settle


@dataclass
class Stubborn:
    """Units that may go anywhere, and an exchange that refuses the first ``refusals`` times."""

    loads: IntArray
    refusals: int
    unit: int = 1
    applied: list[tuple[int, int]] = field(default_factory=list)

    def costs(self) -> IntArray:
        cost = np.ones((len(self.loads), len(self.loads)), np.int64)
        np.fill_diagonal(cost, FAR)
        return cost

    def find(self, source: int, target: int, cost: int, most: int) -> IntArray:
        assert (source != target, cost) == (True, 1)
        self.refusals -= 1
        return np.arange(0 if self.refusals >= 0 else min(most, int(self.loads[source])))

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        self.loads[source] -= len(partitions)
        self.loads[target] += len(partitions)
        self.applied.append((source, target))


def squares(brokers: int) -> SquaredLoads:
    return SquaredLoads(np.zeros(brokers, np.int64), brokers + 2)


@pytest.mark.parametrize("refusals", [0, 1, 2])
def test_a_refusal_is_got_over(refusals: int) -> None:
    exchange = Stubborn(np.array([5, 1]), refusals)
    if refusals == 2:
        # Refused in the pass, and by the one with the fewest arcs: there is no cycle to carry out.
        with pytest.raises(RuntimeError, match="cannot be carried out"):
            settle(exchange, squares(2))
        return
    assert settle(exchange, squares(2)) == 2
    assert exchange.loads.tolist() == [3, 3]


@pytest.mark.parametrize("refusals", range(4))
def test_refused_arcs_leave_others_to_try(refusals: int) -> None:
    exchange = Stubborn(np.array([9, 0, 0, 0]), refusals)
    settle(exchange, squares(4))
    assert sorted(exchange.loads.tolist()) == [2, 2, 2, 3]
