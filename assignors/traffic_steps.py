"""Traffic weights as small whole numbers."""

from __future__ import annotations

import numpy as np

from assignors.intake import Group
from assignors.model import Weights
from placement_core.matching import IntArray

WEIGHT_STEPS = 100
"""The heaviest partition weighs this many steps; a plan is exact for weights in steps."""


def traffic_steps(group: Group, weights: Weights | None) -> IntArray:
    """Each partition's weight, 1 to :data:`WEIGHT_STEPS`; 1 for all without weights.

    A weight that is missing, negative, infinite or not a number counts as the mean of the
    others. Even a partition without traffic weighs a step, so that it is local where that
    costs nothing else.
    """
    if weights is None:
        return np.ones(int(group.base[-1]), np.int64)
    known = np.full(int(group.base[-1]), np.nan)
    for t, topic in enumerate(group.topics):
        row = _numbers(weights.get(topic, ()))[: group.sizes[t]]
        known[group.base[t] : group.base[t] + len(row)] = row
    known[~np.isfinite(known) | (known < 0)] = np.nan
    if np.isnan(known).all():
        return np.ones(len(known), np.int64)
    heaviest = np.nanmax(known)
    if heaviest <= 0:
        return np.ones(len(known), np.int64)
    shares = known / heaviest
    shares[np.isnan(shares)] = np.nanmean(shares)
    steps = np.rint(shares * WEIGHT_STEPS)
    whole: IntArray = np.maximum(steps, 1).astype(np.int64)
    return whole


def _numbers(row: object) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The weights of a topic; what is no number becomes NaN."""
    try:
        return np.asarray(row, np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        return np.zeros(0)
