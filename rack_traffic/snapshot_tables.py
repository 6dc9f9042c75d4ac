"""The columns of the snapshot tables, for who writes them and for who reads them.

This is the one definition: :mod:`rack_traffic.schemas` has it in Spark's types, and says what the
columns mean; :mod:`rack_traffic.snapshot_tables` has it in Arrow's, for writers that need no Spark.
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
TIME: Final = "time"
INTS: Final = "ints"
TEXTS: Final = "texts"
ASSIGNMENT: Final = "assignment"

Columns = Mapping[str, str]
"""Column to the name of its type, in order; every column may be null."""

BROKERS: Columns = {
    "cluster": TEXT,
    "broker": INT,
    "rack": TEXT,
    "host": TEXT,
    "taken_at": TIME,
}
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
}
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
}
COMMITS: Columns = {
    "cluster": TEXT,
    "group": TEXT,
    "topic": TEXT,
    "partition": INT,
    "committed_offset": LONG,
    "taken_at": TIME,
}
CLIENT_REPORTS: Columns = {
    "cluster": TEXT,
    "group": TEXT,
    "member_id": TEXT,
    "topic": TEXT,
    "partition": INT,
    "from_rack": TEXT,
    "to_rack": TEXT,
    "bytes": LONG,
    "from_at": TIME,
    "to_at": TIME,
}

SNAPSHOT_TABLES: Mapping[str, Columns] = {
    "brokers": BROKERS,
    "partitions": PARTITIONS,
    "members": MEMBERS,
    "commits": COMMITS,
    "client_reports": CLIENT_REPORTS,
}
"""Table to columns."""

DATED_BY: Mapping[str, str] = {
    table: "to_at" if table == "client_reports" else "taken_at" for table in SNAPSHOT_TABLES
}
"""Table to the column whose date its folders are named after."""


@cache
def arrow_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a snapshot table. Raises KeyError if there is none of that name.

    pyarrow is imported here: a writer of JSON messages does without it.
    """
    import pyarrow as pa

    place = [pa.field("topic", pa.string()), pa.field("partitions", pa.list_(pa.int32()))]
    types = {
        TEXT: pa.string(),
        INT: pa.int32(),
        LONG: pa.int64(),
        TIME: pa.timestamp("us", tz="UTC"),
        INTS: pa.list_(pa.int32()),
        TEXTS: pa.list_(pa.string()),
        ASSIGNMENT: pa.list_(pa.struct(place)),
    }
    return pa.schema([(name, types[kind]) for name, kind in SNAPSHOT_TABLES[table].items()])
