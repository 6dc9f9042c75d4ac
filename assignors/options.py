"""The options that both assignors take."""

from __future__ import annotations

import numpy as np

from placement_core.errors import InvalidOptionError
from placement_core.matching import IntArray

MOST_IMBALANCE = 3.0
"""The largest ``max_imbalance``: four times a balanced load is no balance worth the name, and
the work of an uneven plan grows with the loads that it permits."""


def checked_imbalance(share: float) -> float:
    """``share`` if it is from 0 to :data:`MOST_IMBALANCE`. Raises InvalidOptionError."""
    if not (isinstance(share, int | float) and 0 <= share <= MOST_IMBALANCE):
        raise InvalidOptionError(
            f"max_imbalance is {share!r}: give the share by which a member may exceed "
            f"its balanced load, from 0 to {MOST_IMBALANCE:g}, such as 0.1"
        )
    return float(share)


def most_units(ceiling: IntArray, share: float) -> IntArray:
    """The most that members of a balanced ``ceiling`` may get: ``floor(ceiling x (1 + share))``."""
    most: IntArray = np.floor(ceiling * (1 + share)).astype(np.int64)
    return most
