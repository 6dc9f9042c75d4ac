"""The options that both assignors take."""

from __future__ import annotations

import math

import numpy as np

from placement_core.errors import InvalidOptionError
from placement_core.matching import IntArray


def checked_imbalance(share: float) -> float:
    """``share`` if it is a share: finite and not negative. Raises InvalidOptionError."""
    if not (isinstance(share, int | float) and math.isfinite(share) and share >= 0):
        raise InvalidOptionError(
            f"max_imbalance is {share!r}: give the share by which a member may exceed "
            "its balanced load, such as 0.1"
        )
    return float(share)


def most_units(ceiling: IntArray, share: float) -> IntArray:
    """The most that members of a balanced ``ceiling`` may get: ``floor(ceiling x (1 + share))``."""
    most: IntArray = np.floor(ceiling * (1 + share)).astype(np.int64)
    return most
