"""Traffic weights: the traffic of partitions as integers, so that costs add up exactly."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assignors.group import Group
from assignors.model import WeightSource
from placement_core.flow import CostArray, IntArray, as_int64

PRECISIONS = ((1_000, 53), (10_000, 10))
"""A number of partitions, and how many significant bits the weights in groups of up to that many
have. With 53, weights are exact; with 10, the error of each is at most 0.1 %."""

COARSEST_PRECISION = 7
"""The significant bits of weights in larger groups: the error of each is at most 0.8 %."""

GUESS_PRECISION = 10
"""The significant bits of the mean that replaces missing weights."""


@dataclass(frozen=True, slots=True, eq=False)
class TrafficWeights:
    """The traffic of each partition, as integers of which no unit is lost.

    ``units`` has the distinct weights, heaviest first; ``index`` is each partition's among them.
    """

    index: IntArray
    units: CostArray

    @property
    def of_partition(self) -> CostArray:
        """The weight of each partition."""
        weight: CostArray = self.units[self.index]
        return weight

    def total(self, partitions: NDArray[np.bool_]) -> int:
        """Return the exact weight of the partitions that are True."""
        count = np.bincount(self.index[partitions], minlength=len(self.units))
        return int((count.astype(object) * self.units).sum())

    def crossings(self, group: Group, assigned: IntArray) -> list[int]:
        """Return how much weight is read across each level, exactly, widest level first."""
        crossed = group.levels_crossed(assigned)
        return [self.total(crossed >= level) for level in range(group.depth, 0, -1)]


def resolve_weights(
    source: WeightSource | None,
    topics: Iterable[str],
    on_error: Callable[[str, Exception], Any] | None = None,
) -> dict[str, NDArray[np.float64]] | None:
    """Return the weights of ``topics`` as arrays; None if ``source`` is None.

    Topics of unknown weight are left out. ``on_error`` is called with a topic whose weights cannot
    be read, and the error. Without it, weights that are not numbers count as unknown, and whatever
    a function raises is raised.
    """
    if source is None:
        return None
    weights: dict[str, NDArray[np.float64]] = {}
    for topic in topics:
        try:
            row = source(topic) if callable(source) else source.get(topic)
        except Exception as error:
            if on_error is None:
                raise
            on_error(topic, error)
            continue
        if row is None:
            continue
        try:
            weights[topic] = np.asarray(row, np.float64).reshape(-1)
        except (TypeError, ValueError, OverflowError) as error:
            if on_error is not None:
                on_error(topic, error)
    return weights


def traffic_weights(group: Group, weights: WeightSource | None) -> TrafficWeights:
    """Return each partition's weight; 1 for all without weights.

    A weight that is missing, negative, infinite or not a number counts as the mean of the others.
    Even a partition without traffic has a weight, below that of all others, so that it is local
    where that has no cost. Raises what ``weights`` raises if it is a function.
    """
    weight = np.full(int(group.base[-1]), np.nan)
    resolved = resolve_weights(weights, group.topics) or {}
    for topic, row in resolved.items():
        t = bisect_left(group.topics, topic)
        of_topic = weight[group.base[t] : group.base[t + 1]]
        of_topic[: len(row)] = row[: len(of_topic)]
    return round_weights(weight)


def round_weights(weight: NDArray[np.float64]) -> TrafficWeights:
    """Return weights as integers, rounded in large groups; see `traffic_weights`."""
    known = np.isfinite(weight) & (weight >= 0)
    heaviest = weight[known].max(initial=0.0)
    if heaviest <= 0:
        return TrafficWeights(np.zeros(len(weight), np.int64), np.ones(1, np.int64))
    mean = math.fsum(weight[known] / heaviest) / np.count_nonzero(known) * heaviest
    weight = np.where(known, weight, _round(np.array([mean]), GUESS_PRECISION))
    bits = next(
        (bits for partitions, bits in PRECISIONS if len(weight) <= partitions), COARSEST_PRECISION
    )
    distinct, index, counts = np.unique(
        -_round(weight, bits), return_inverse=True, return_counts=True
    )
    lowest = np.frexp(distinct[distinct < 0])[1].min()
    mantissa, exponent = np.frexp(-distinct)
    shift = np.maximum(exponent - lowest, 0)
    units = [int(m * 2.0**53) << e for m, e in zip(mantissa, shift.tolist(), strict=True)]
    divisor = math.gcd(*units)
    units = [unit // divisor for unit in units]
    if not units[-1]:
        # Partitions without traffic: in small groups, all of them weigh less than one unit.
        scale = min(int(counts[-1]), 1000) + 1
        units = [unit * scale for unit in units[:-1]] + [1]
    return TrafficWeights(index, as_int64(np.array(units, object)))


def _round(weight: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Return ``weight`` with so many significant bits."""
    mantissa, exponent = np.frexp(weight)
    rounded: NDArray[np.float64] = np.ldexp(np.rint(mantissa * 2.0**bits), exponent - bits)
    return np.minimum(rounded, np.finfo(np.float64).max)
