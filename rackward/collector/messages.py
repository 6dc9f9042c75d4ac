"""Rows of snapshots as messages of a Kafka topic: ``{"table": "commits", "rows": [{...}, ...]}``.

The layout is :data:`rack_traffic.schemas.SNAPSHOTS`'. A message's key is ``cluster/table``, so that
what one collector says of a table stays in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rack_traffic.snapshot_tables import SNAPSHOT_TABLES
from rackward.collector.snapshot import Row, Snapshot

MOST_BYTES = 512 * 1024
"""Of a message's value; brokers take a megabyte if nobody told them otherwise."""


def messages_of(snapshot: Snapshot, most_bytes: int = MOST_BYTES) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each message; none is longer than ``most_bytes`` unless one row is."""
    for table, rows in snapshot.tables.items():
        key = f"{snapshot.cluster}/{table}".encode()
        for value in values_of(table, rows, most_bytes):
            yield key, value


def values_of(table: str, rows: Sequence[Row], most_bytes: int = MOST_BYTES) -> Iterator[bytes]:
    """The rows of one table as the values of as few messages as will do."""
    columns = tuple(SNAPSHOT_TABLES[table])
    begin = f'{{"table":{json.dumps(table)},"rows":['.encode()
    parts: list[bytes] = []
    size = 0
    for row in rows:
        part = json.dumps(
            dict(zip(columns, row, strict=True)), default=_time, separators=(",", ":")
        ).encode()
        if parts and size + len(part) + 1 > most_bytes - len(begin) - 2:
            yield begin + b",".join(parts) + b"]}"
            parts, size = [], 0
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield begin + b",".join(parts) + b"]}"


def _time(value: object) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} is no value of a snapshot")
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
