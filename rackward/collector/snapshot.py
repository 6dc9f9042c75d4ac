"""One pass over one cluster, as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rack_traffic.snapshot_tables import SNAPSHOT_TABLES

Row = tuple[object, ...]
"""Values in the order of their table's columns; times are datetimes in UTC."""

Tables = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Rows of each table; ``taken_at`` is when the pass began.

    ``faults`` are what could not be read, a line for each; the rest is there nevertheless.
    ``groups`` is how many there were.
    """

    cluster: str
    taken_at: datetime
    tables: Tables
    faults: tuple[str, ...] = ()
    groups: int = 0

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.tables) - set(SNAPSHOT_TABLES)):
            raise ValueError(f"there is no table {unknown[0]!r}")
