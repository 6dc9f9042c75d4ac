"""Every table of the pipeline: the snapshots that go in, and the tables that come out.

Times are UTC. Sizes are bytes, prices are per GB of 10^9 bytes. A rack id is what
:func:`placement_core.parse_rack` reads; null is "not known", which is never guessed away: it stays
a value of its own up to the report.

Snapshots may come twice, late and with gaps. What belongs together in one pass over a cluster needs
no common ``taken_at``: tables are joined as of the time. Only the members of one group have to
share it, since a member that is missing from a snapshot of its group has left.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rack_traffic import snapshot_tables

TEXT, INT, LONG, REAL = StringType(), IntegerType(), LongType(), DoubleType()
TIME, BOOLEAN = TimestampType(), BooleanType()
ASSIGNMENT = ArrayType(
    StructType([StructField("topic", TEXT), StructField("partitions", ArrayType(INT))])
)
_TYPES: dict[str, DataType] = {
    snapshot_tables.TEXT: TEXT,
    snapshot_tables.INT: INT,
    snapshot_tables.LONG: LONG,
    snapshot_tables.TIME: TIME,
    snapshot_tables.INTS: ArrayType(INT),
    snapshot_tables.TEXTS: ArrayType(TEXT),
    snapshot_tables.ASSIGNMENT: ASSIGNMENT,
}


def _table(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind, nullable=True) for name, kind in columns.items()])


def _snapshot(columns: snapshot_tables.Columns) -> StructType:
    return _table(**{name: _TYPES[kind] for name, kind in columns.items()})


BROKERS = _snapshot(snapshot_tables.BROKERS)
"""A broker and the rack that it says it stands in."""

PARTITIONS = _snapshot(snapshot_tables.PARTITIONS)
"""A partition: ``leader`` is null where there is none, ``topic_id`` changes when a topic of the
same name is created again, ``start_offset`` and ``end_offset`` are the log's (the end is the next
record's offset), ``size_bytes`` is the size on the leader's disk (null where it could not be
read)."""

MEMBERS = _snapshot(snapshot_tables.MEMBERS)
"""A member of a group; a group without members is one row whose ``member_id`` is null.

``group_type`` is ``classic`` or ``consumer`` (KIP-848). ``protocol_type`` is ``consumer`` for
groups that subscribe and empty for those whose consumers assign partitions to themselves and merely
commit. ``protocol`` is the assignor's name, ``generation`` the generation or the group's epoch.
``rack_source`` says where ``rack`` is from: ``subscription``, ``mapping`` (by host or subnet), or
null where it is not known. ``topics`` is what the member subscribes to."""

COMMITS = _snapshot(snapshot_tables.COMMITS)
"""The committed offset of a group, whether it moved since the last snapshot or not."""

CLIENT_REPORTS = _snapshot(snapshot_tables.CLIENT_REPORTS)
"""Exact bytes that a member fetched of a partition between two times, from a broker's rack to its
own. They replace estimates for the time that they cover."""

PRICES = _table(
    cluster=TEXT, level=INT, from_rack=TEXT, to_rack=TEXT, per_gb=REAL, both_directions=BOOLEAN
)
"""Rules of a price table. ``level`` is the widest level that is crossed (1: data centres, say; 2:
rooms in one), the racks are prefixes such as ``/dc1``; null matches anything. The rule with the
longest prefixes wins, then one that names its level, then one that names its cluster.
``both_directions`` (null: true) is whether it holds from the second rack to the first as well."""

PARTITION_HOURS = _table(
    cluster=TEXT,
    kind=TEXT,
    group=TEXT,
    topic=TEXT,
    partition=INT,
    hour=TIME,
    from_rack=TEXT,
    to_rack=TEXT,
    bytes=LONG,
    estimated_bytes=LONG,
    reported_bytes=LONG,
    unsized_offsets=LONG,
)
"""Bytes of a partition in the hour that begins at ``hour``.

``kind`` is ``consume`` (a group reads: from the leader's rack to the member's), ``replicate`` (from
the leader's rack to a follower's) or ``produce`` (from an unknown rack to the leader's); ``group``
is null for the last two. Of ``bytes``, ``estimated_bytes`` could not be measured from offsets (an
offset was set back, a topic created again) and are the series' usual rate; ``reported_bytes`` are
exact, from clients. ``unsized_offsets`` were read or written too, but the size on disk is not
known: their bytes are not among ``bytes``."""

HOURLY = _table(
    cluster=TEXT,
    kind=TEXT,
    group=TEXT,
    topic=TEXT,
    from_rack=TEXT,
    to_rack=TEXT,
    hour=TIME,
    crossed_level=INT,
    bytes=LONG,
    estimated_bytes=LONG,
    reported_bytes=LONG,
    unsized_offsets=LONG,
    price_per_gb=REAL,
    cost=REAL,
)
"""Bytes and cost per pair of racks and hour; columns as in PARTITION_HOURS.

``crossed_level`` is 0 in one rack, otherwise the widest level that is crossed (1 is the widest that
there is; the only one where rack ids are opaque), null where a rack is not known. ``price_per_gb``
and ``cost`` are null there too."""

WHAT_IF = _table(
    cluster=TEXT,
    group=TEXT,
    interval_start=TIME,
    interval_end=TIME,
    scenario=TEXT,
    assignor=TEXT,
    members=INT,
    partitions=INT,
    off_rack_partitions=INT,
    unknown_partitions=INT,
    bytes=LONG,
    local_bytes=LONG,
    crossing_bytes=LONG,
    unknown_bytes=LONG,
    cost=REAL,
    cost_per_month=REAL,
    most_partitions=INT,
    least_partitions=INT,
    most_bytes=LONG,
    mean_bytes=REAL,
    moves=INT,
    leader_moves=INT,
    shared_topics=INT,
)
"""What a group would have cost over an interval under a scenario.

``scenario`` is one of :data:`SCENARIOS`; ``assignor`` is the one in use (``as_is``), or the one
that the scenario names. A partition is off-rack where both racks are known and differ, and unknown
where one of them is not known. ``most_partitions`` .. ``mean_bytes`` spread the load over members.
``moves`` partitions change their member, ``leader_moves`` their preferred leader. ``shared_topics``
of the group are read by other groups as well, which a leader layout for this group alone would
affect."""

SCENARIOS = (
    "as_is",
    "apache_range",
    "apache_cooperative_sticky",
    "rackward_range",
    "rackward_cooperative_sticky",
    "rackward_after_leader_layout",
    "follower_fetching",
)

RANKING = _table(
    rank=INT,
    cluster=TEXT,
    group=TEXT,
    interval_start=TIME,
    interval_end=TIME,
    cost_per_month_now=REAL,
    cost_per_month_after=REAL,
    saving_per_month=REAL,
    locality_now=REAL,
    locality_after=REAL,
    scenario=TEXT,
    change=TEXT,
)
"""Groups by the money that a change would save per month (730 hours), most first.

``scenario`` is the least change that reaches the least cost, within a hundredth of what there is to
save, and ``change`` says in words what to do. Localities are shares of the bytes whose racks are
known (null where there are none)."""

SET_ASIDE = _table(table=TEXT, reason=TEXT, row=TEXT)
"""A row of a snapshot that broke its table's contract, as JSON, and why."""

SNAPSHOTS: dict[str, StructType] = {
    "brokers": BROKERS,
    "partitions": PARTITIONS,
    "members": MEMBERS,
    "commits": COMMITS,
    "client_reports": CLIENT_REPORTS,
}
"""The snapshot tables. On disk: ``ROOT/<table>/date=YYYY-MM-DD/*.parquet``, the date being that of
``taken_at`` (``to_at`` for client reports).

On a Kafka topic a message's value is JSON, ``{"table": "commits", "rows": [{...}, ...]}``, with the
columns' names as keys and times as ISO 8601 in UTC (``2026-11-21T13:00:00.000Z``)."""
