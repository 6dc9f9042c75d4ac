"""The snapshot tables: their columns, and what they mean.

Collectors write them and the pipeline reads them. This module needs neither Spark nor pyarrow;
:mod:`rack_traffic.schemas` has the same tables as Spark schemas, :func:`arrow_schema` as Arrow
schemas.

Files are ``ROOT/<table>/date=YYYY-MM-DD/*.parquet``; the date is the UTC date of ``taken_at``. On
a Kafka topic the value of a message is JSON,
``{"table": "commits", "rows": [{...}, ...]}``, with column names as keys and times as ISO 8601 in
UTC (``2026-11-21T13:00:00.000Z``).

Times are UTC, sizes are bytes. Every column may be null. A rack id is a string that
:func:`placement_core.parse_rack` parses; null means unknown, and stays null up to the report.

Snapshots may be duplicated, late or missing, and of several collectors. Rows of different tables
need no common ``taken_at``: the pipeline joins them as of the time. Only the members of one group
in one snapshot must share their ``taken_at``, because a member that is absent from a snapshot of
its group has left.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

TEXT: Final = "text"
INT: Final = "int"
LONG: Final = "long"
DOUBLE: Final = "double"
TIME: Final = "time"
INTS: Final = "ints"
TEXTS: Final = "texts"
ASSIGNMENT: Final = "assignment"
"""A list of structs of ``topic`` and ``partitions``."""

Columns = Mapping[str, str]
"""Column name to type, in order."""

BROKERS: Columns = {
    "cluster": TEXT,
    "broker": INT,
    "rack": TEXT,
    "host": TEXT,
    "taken_at": TIME,
    "replica_selector": TEXT,
}
"""A broker, its ``broker.rack`` and its ``replica.selector.class``, which is empty if it is not set
and null if it could not be read."""

PARTITIONS: Columns = {
    "cluster": TEXT,
    "topic": TEXT,
    "topic_id": TEXT,
    "partition": INT,
    "leader": INT,
    "leader_epoch": INT,
    "replicas": INTS,
    "isr": INTS,
    "start_offset": LONG,
    "end_offset": LONG,
    "size_bytes": LONG,
    "taken_at": TIME,
    "collector": TEXT,
}
"""A partition.

``leader`` is null if there is none. ``topic_id`` differs if a topic was deleted and created again
with the same name. ``start_offset`` and ``end_offset`` are the log's; the end is the offset of the
next record. ``size_bytes`` is the size on the leader's disk, null if it could not be read.
``collector`` is the process that took the snapshot, by whose clock ``taken_at`` is. Kafka's
responses do not have the time of the broker, so the difference of two collectors' clocks is
unknown."""

MEMBERS: Columns = {
    "cluster": TEXT,
    "group": TEXT,
    "group_type": TEXT,
    "state": TEXT,
    "protocol_type": TEXT,
    "protocol": TEXT,
    "generation": INT,
    "member_id": TEXT,
    "instance_id": TEXT,
    "client_id": TEXT,
    "host": TEXT,
    "rack": TEXT,
    "rack_source": TEXT,
    "topics": TEXTS,
    "assignment": ASSIGNMENT,
    "taken_at": TIME,
    "collector": TEXT,
}
"""A member of a group. A group without members is one row whose ``member_id`` is null.

``group_type`` is ``classic``, ``consumer`` (KIP-848) or ``streams`` (KIP-1071). ``protocol_type``
is ``consumer`` or ``streams`` for groups that subscribe, and empty for consumers that assign
partitions to themselves and only commit.
``protocol`` is the assignor's name; ``generation`` is the generation or the group epoch.
``rack_source`` is the origin of ``rack``: ``subscription``, ``mapping`` (by host or subnet), or
null if the rack is unknown. ``topics`` is the member's subscription. ``collector`` is as in
PARTITIONS."""

COMMITS: Columns = {
    "cluster": TEXT,
    "group": TEXT,
    "topic": TEXT,
    "partition": INT,
    "committed_offset": LONG,
    "taken_at": TIME,
    "collector": TEXT,
}
"""The committed offset of a group, whether it changed since the previous snapshot or not.

``collector`` is as in PARTITIONS."""

LISTENERS: Columns = {
    "cluster": TEXT,
    "broker": INT,
    "listener": TEXT,
    "host": TEXT,
    "address": TEXT,
    "port": INT,
    "taken_at": TIME,
}
"""An address of a listener of a broker; several rows if its ``host`` has several addresses.

``listener`` is the name in ``advertised.listeners``. It is null for the address in the metadata of
the listener that the collector connects to, if the broker's configuration could not be read or does
not have it. ``address`` is what the collector's resolver returns for ``host``, IPv6 in the form of
RFC 5952; null if it returns nothing."""

SNAPSHOT_TABLES: Mapping[str, Columns] = {
    "brokers": BROKERS,
    "partitions": PARTITIONS,
    "members": MEMBERS,
    "commits": COMMITS,
    "listeners": LISTENERS,
}
"""Table name to columns."""

ESTIMATE_TABLES = ("brokers", "partitions", "members", "commits")
"""The tables that traffic is estimated from. Readers expect them even if they are empty."""


@cache
def arrow_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a snapshot table. Raise KeyError for an unknown name."""
    return columns_schema(SNAPSHOT_TABLES[table])


def columns_schema(columns: Columns) -> pa.Schema:
    """Return the Arrow schema of ``columns``."""
    import pyarrow as pa

    topic_partitions = [("topic", pa.string()), ("partitions", pa.list_(pa.int32()))]
    types = {
        TEXT: pa.string(),
        INT: pa.int32(),
        LONG: pa.int64(),
        DOUBLE: pa.float64(),
        TIME: pa.timestamp("us", tz="UTC"),
        INTS: pa.list_(pa.int32()),
        TEXTS: pa.list_(pa.string()),
        ASSIGNMENT: pa.list_(pa.struct(topic_partitions)),
    }
    return pa.schema([(name, types[kind]) for name, kind in columns.items()])
