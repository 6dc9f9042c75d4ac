"""The snapshot tables in Arrow's types; for writers and readers that have no Spark."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from rack_traffic import snapshot_tables as tables


@cache
def arrow_schema(table: str) -> pa.Schema:
    """The schema of the snapshot table of that name; KeyError where there is none."""
    columns = tables.SNAPSHOT_TABLES[table]
    return pa.schema([pa.field(name, _type(kind)) for name, kind in columns.items()])


def _type(kind: str) -> pa.DataType:
    place = [pa.field("topic", pa.string()), pa.field("partitions", pa.list_(pa.int32()))]
    return {
        tables.TEXT: pa.string(),
        tables.INT: pa.int32(),
        tables.LONG: pa.int64(),
        tables.TIME: pa.timestamp("us", tz="UTC"),
        tables.INTS: pa.list_(pa.int32()),
        tables.TEXTS: pa.list_(pa.string()),
        tables.ASSIGNMENT: pa.list_(pa.struct(place)),
    }[kind]
