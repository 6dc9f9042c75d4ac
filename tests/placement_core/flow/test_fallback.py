"""If a negative cycle is not feasible, one with the fewest arcs is canceled instead."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from placement_core.flow import INF, IntArray, SquaredLoads, cancel_negative_cycles


@dataclass
class RefusingExchange:
    """An exchange graph without restrictions whose first ``refusals`` searches return nothing."""

    loads: IntArray
    refusals: int
    cost_scale: int = 1
    applied: list[tuple[int, int]] = field(default_factory=list)

    def costs(self) -> IntArray:
        cost = np.ones((len(self.loads), len(self.loads)), np.int64)
        np.fill_diagonal(cost, INF)
        return cost

    def find(self, source: int, target: int, cost: int, limit: int) -> IntArray:
        assert (source != target, cost) == (True, 1)
        self.refusals -= 1
        return np.arange(0 if self.refusals >= 0 else min(limit, int(self.loads[source])))

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        self.loads[source] -= len(partitions)
        self.loads[target] += len(partitions)
        self.applied.append((source, target))


def squares(brokers: int) -> SquaredLoads:
    return SquaredLoads(np.zeros(brokers, np.int64), brokers + 2)


@pytest.mark.parametrize("refusals", [0, 1, 2])
def test_cancelation_continues_after_a_refusal(refusals: int) -> None:
    exchange = RefusingExchange(np.array([5, 1]), refusals)
    if refusals == 2:
        # The pass and the cycle with the fewest arcs are both refused: no cycle is left.
        with pytest.raises(AssertionError, match="cannot be carried out"):
            cancel_negative_cycles(exchange, squares(2))
        return
    assert cancel_negative_cycles(exchange, squares(2)) == 2
    assert exchange.loads.tolist() == [3, 3]


@pytest.mark.parametrize("refusals", range(4))
def test_other_arcs_are_used_after_a_refusal(refusals: int) -> None:
    exchange = RefusingExchange(np.array([9, 0, 0, 0]), refusals)
    cancel_negative_cycles(exchange, squares(4))
    assert sorted(exchange.loads.tolist()) == [2, 2, 2, 3]
