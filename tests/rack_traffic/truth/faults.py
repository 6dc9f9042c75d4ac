"""What can go wrong between a cluster and its snapshots."""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """One kind of trouble."""

    GAP = "gap"
    """The collector is down for a while, across the turn of an hour."""
    SET_BACK = "set back"
    """An operator sets a running group's offsets back; it reads a stretch again, fast."""
    SET_FORWARD = "set forward"
    """An operator stops a group and sets its offsets to the end of the log."""
    OVERTAKEN = "overtaken"
    """A slow group is overtaken by retention, and skips what is gone."""
    RECREATED = "re-created"
    """A topic is deleted and created again, with offsets that start at 0."""
    COMPACTED = "compacted"
    """A cleaner shrinks a log under its readers."""
    DUPLICATES = "duplicates"
    """A tenth of the rows come twice."""
    LATE = "late"
    """Rows come in any order."""
    FLAKY = "flaky"
    """A tenth of the snapshots of partitions and of commits fail, each on its own."""
    REBALANCING = "rebalancing"
    """Some snapshots of a group are taken in the middle of a rebalance, without assignments."""
