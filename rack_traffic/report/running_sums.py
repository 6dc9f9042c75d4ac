"""Sums by key over more rows than fit into memory: what is kept grows with the keys alone."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_ROWS_TO_COMPACT = 500_000


class RunningSums:
    """Sums of columns by key columns, fed a batch at a time.

    A null key is a key of its own and a null value adds nothing. Batches in the same order give the
    same sums to the last digit.
    """

    def __init__(self, keys: Sequence[str], values: Sequence[str]) -> None:
        self._keys = list(keys)
        self._values = list(values)
        self._parts: list[pa.Table] = []
        self._waiting = 0
        self._compacted = 0

    def add(self, rows: pa.Table) -> None:
        """Add ``rows``, which have the key and value columns among others."""
        part = self._sum(rows)
        self._parts.append(part)
        self._waiting += part.num_rows
        # Doubling keeps the work in proportion to the rows where nearly all keys differ.
        if self._waiting > max(_ROWS_TO_COMPACT, 2 * self._compacted):
            self._compact()

    def result(self) -> list[dict[str, object]]:
        """A row per key, with the keys and the sums under their columns' names."""
        if not self._parts:
            return []
        self._compact()
        rows: list[dict[str, object]] = self._parts[0].to_pylist()
        return rows

    def _compact(self) -> None:
        table = self._sum(pa.concat_tables(self._parts))
        self._parts = [table]
        self._waiting = self._compacted = table.num_rows

    def _sum(self, rows: pa.Table) -> pa.Table:
        summed = rows.group_by(self._keys, use_threads=False).aggregate(
            [(value, "sum") for value in self._values]
        )
        named = [f"{value}_sum" for value in self._values]
        return summed.select([*self._keys, *named]).rename_columns([*self._keys, *self._values])
