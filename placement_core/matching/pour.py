"""Pour units into vessels so that what stays open is level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placement_core.matching.network import IntArray


def pour(amount: int, gaps: IntArray, sizes: IntArray) -> IntArray:
    """How much of ``amount`` goes into each vessel, the relatively emptiest first.

    ``gaps`` is what each vessel can take, ``sizes`` (positive) what it takes when empty;
    what is left open is the same share of each size, up to rounding. Level gaps are what
    keeps later units, of which a vessel takes few, from needing long detours: this is a
    matter of speed, never of the optimum.
    """
    if amount >= int(gaps.sum()):
        return gaps.copy()
    shares = gaps / sizes
    order = np.argsort(-shares, kind="stable")
    gap, size = gaps[order], sizes[order]
    water_line = max(float(((np.cumsum(gap) - amount) / np.cumsum(size)).max()), 0.0)
    taken: IntArray = np.clip(np.floor(gap - water_line * size), 0, gap).astype(np.int64)
    _settle_rounding(amount - int(taken.sum()), taken, gap)
    poured = np.empty_like(taken)
    poured[order] = taken
    return poured


def _settle_rounding(rest: int, taken: IntArray, gap: IntArray) -> None:
    """Give the ``rest`` that rounding left, one each, or take back what it gave too much."""
    while rest:
        able: NDArray[np.intp] = np.flatnonzero(taken < gap if rest > 0 else taken > 0)
        chosen = able[: abs(rest)]
        taken[chosen] += 1 if rest > 0 else -1
        rest -= len(chosen) if rest > 0 else -len(chosen)
