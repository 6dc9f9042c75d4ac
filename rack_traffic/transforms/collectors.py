"""Several collectors of one cluster, whose clocks differ.

If the clocks of two collectors differ by more than the time between their passes, the rows of both
are in the wrong order when they are sorted by time: an offset of one collector is followed by an
older and lower one of the other. Taken for resets, these steps back would count much of the traffic
twice. Each collector on its own sees offsets in the right order. So an offset that is lower than
the last one of another collector is older than that if the other collector's next offset is not
lower: then nothing was reset between the two.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F

NEIGHBOURS = 3
"""The number of rows before and after that are compared: enough for four collectors, or for two of
which one takes three times as many snapshots."""

_BEFORE = [f"observed_before_{n}" for n in range(1, NEIGHBOURS + 1)]
_AFTER = [f"observed_after_{n}" for n in range(1, NEIGHBOURS + 1)]


def neighbours(by_time: WindowSpec, offset: str) -> list[Column]:
    """Return the columns that :func:`is_outdated` needs: collector and offset of the rows around.

    ``by_time`` sorts the rows of all collectors, which have columns ``collector_hash`` and
    ``offset``. Rows of which one is null are no observations.
    """
    observed = F.struct("collector_hash", F.col(offset).alias("offset"))
    return [
        *(F.lag(observed, n).over(by_time).alias(name) for n, name in enumerate(_BEFORE, 1)),
        *(F.lead(observed, n).over(by_time).alias(name) for n, name in enumerate(_AFTER, 1)),
    ]


def is_outdated(offset: str) -> Column:
    """Return whether a row is older than the one before it, which has a higher ``offset``.

    False if the row's own collector saw the offset go back. The columns of :func:`neighbours` must
    be present.
    """
    value, collector = F.col(offset), F.col("collector_hash")
    before = [F.col(name) for name in _BEFORE]
    went_back = _nearest(before, collector) > value
    older = [
        (each["collector_hash"] != collector)
        & (each["offset"] > value)
        & (_nearest(before[:n], each["collector_hash"]).isNull())
        & (_nearest([F.col(name) for name in _AFTER], each["collector_hash"]) >= each["offset"])
        for n, each in enumerate(before)
    ]
    outdated = reduce(Column.__or__, [F.coalesce(each, F.lit(False)) for each in older])
    return outdated & ~F.coalesce(went_back, F.lit(False))


def _nearest(rows: list[Column], collector: Column) -> Column:
    """Return the offset of the first of ``rows`` that is of the collector; null if none is."""
    offsets = [F.when(each["collector_hash"] == collector, each["offset"]) for each in rows]
    return F.coalesce(*offsets, F.lit(None).cast("bigint"))
