"""The tables: of snapshots, and those that the pipeline writes; their columns, and what they mean.

This module needs neither Spark nor pyarrow; :mod:`rack_traffic.schemas` has the same tables as
Spark schemas, :func:`columns_schema` as Arrow schemas.

Collectors write snapshots, and the pipeline reads them. Files are
``ROOT/<table>/date=YYYY-MM-DD/*.parquet``; the date is the UTC date of ``taken_at``. On a Kafka
topic the value of a message is JSON, ``{"table": "commits", "rows": [{...}, ...]}``, with column
names as keys and times as ISO 8601 in UTC (``2026-11-21T13:00:00.000Z``).

Times are UTC, sizes are bytes. Every column may be null. A rack id is a string that
:func:`placement_core.parse_rack` parses; null means unknown, and stays null up to the report.

Snapshots may be duplicated, late or missing, and of several collectors. Rows of different tables
need no common ``taken_at``: the pipeline joins them as of the time. Only the members of one group
in one snapshot must share their ``taken_at``, because a member that is absent from a snapshot of
its group has left.

The tables that the pipeline writes are Delta tables below the output folder, with the names of
``OUTPUT_TABLES``; a column ``date`` follows the documented ones. The report reads them without
Spark. Prices are per GB of 10^9 bytes, months have 730 hours.
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


# ---- What the pipeline writes.

HOURS_PER_MONTH = 730.0

PARTITION_HOURS: Columns = {
    "cluster": TEXT,
    "kind": TEXT,
    "group": TEXT,
    "topic": TEXT,
    "partition": INT,
    "hour": TIME,
    "from_rack": TEXT,
    "to_rack": TEXT,
    "bytes": LONG,
    "estimated_bytes": LONG,
    "unsized_offsets": LONG,
}
"""Bytes of a partition in the hour that begins at ``hour``.

``kind`` is ``consume`` (from the leader's rack to the member's), ``replicate`` (from the leader's
rack to a follower's) or ``produce`` (from an unknown rack to the leader's); ``group`` is null for
the last two. ``estimated_bytes`` are a part of ``bytes`` that could not be derived from offsets
exactly: the usual rate of the partition (an offset was reset, a topic was recreated), or the mean
size of what compaction left. ``unsized_offsets`` were read or written too, but the size on disk is
unknown: ``bytes`` does not include them."""

HOURLY: Columns = {
    "cluster": TEXT,
    "kind": TEXT,
    "group": TEXT,
    "topic": TEXT,
    "from_rack": TEXT,
    "to_rack": TEXT,
    "hour": TIME,
    "source": TEXT,
    "crossed_level": INT,
    "bytes": LONG,
    "estimated_bytes": LONG,
    "unsized_offsets": LONG,
    "price_per_gb": DOUBLE,
    "cost": DOUBLE,
}
"""Bytes and cost per pair of racks and hour; columns as in PARTITION_HOURS.

``source`` is ``estimated`` (from offsets and sizes of logs, as in PARTITION_HOURS), ``assumed``
(the racks of producers are those that ``rack_traffic.writers`` assumes) or ``measured`` (the bytes
are those of FLOWS_HOURLY). Of a measured row, ``group`` is null for readers in no group, and
``topic`` if the estimate does not know it.

``crossed_level`` is 0 within one rack, else the topmost level at which the racks differ: 1 is the
top level of rack paths, and the only level of plain rack names. It is null if a rack is unknown,
and so are ``price_per_gb`` and ``cost``."""

REPLACED_HOURLY = HOURLY
"""The estimated rows that measured rows of HOURLY take the place of: of a cluster, kind and hour
all or none."""

FLOWS_HOURLY: Columns = {
    "cluster": TEXT,
    "kind": TEXT,
    "client": TEXT,
    "group": TEXT,
    "groups": INT,
    "from_rack": TEXT,
    "to_rack": TEXT,
    "hour": TIME,
    "rack_source": TEXT,
    "network_rack": TEXT,
    "bytes": LONG,
    "opposite_bytes": LONG,
}
"""Bytes that flow records counted, per client and hour; ``kind`` is as in PARTITION_HOURS.

``bytes`` went from ``from_rack`` to ``to_rack``, and ``opposite_bytes``, which are requests and
acknowledgements, the other way. ``client`` is an address; for ``replicate`` that of the broker that
connects. ``groups`` is the number of groups with a member at the address then, and ``group`` the
name if it is one; null if no snapshots of members cover the time, and for brokers. ``rack_source``
is where the client's rack is known from: ``member``, ``mapping`` (the file of addresses),
``broker`` or null. ``network_rack`` is the rack of the address in that file, if it has one."""

RACK_AWARE_PRODUCERS = "rack_aware_producers"

SCENARIOS = (
    "as_is",
    "apache_range",
    "apache_cooperative_sticky",
    "rackward_range",
    "rackward_cooperative_sticky",
    "rackward_by_bytes",
    "rackward_after_leader_layout",
    "leader_layout",
    "follower_fetching",
    RACK_AWARE_PRODUCERS,
)
"""The scenarios of the what-if, in the order in which they are shown.

A group that brokers (KIP-848) or Kafka Streams assign has ``as_is``, ``leader_layout`` and
``follower_fetching``: its members keep what they own. Every other group has all but
``leader_layout`` and ``rack_aware_producers``, which PRODUCERS have beside ``as_is``."""

PRODUCERS, REPLICATION, NO_GROUP = "(producers)", "(replication)", "(no group)"
"""In WHAT_IF and RANKING, in the column ``group``: all producers of a cluster; the copies of all
followers, and the measured reads of clients in no group, which have ``as_is`` only."""

LEADER_LAYOUTS = ("rackward_after_leader_layout", "leader_layout")
"""The scenarios in which leaders move: for all groups that share topics, or for none."""

WHAT_IF: Columns = {
    "cluster": TEXT,
    "group": TEXT,
    "interval_start": TIME,
    "interval_end": TIME,
    "hours": DOUBLE,
    "layout_group": TEXT,
    "scenario": TEXT,
    "assignor": TEXT,
    "members": INT,
    "partitions": INT,
    "off_rack_partitions": INT,
    "unknown_partitions": INT,
    "bytes": LONG,
    "local_bytes": LONG,
    "crossing_bytes": LONG,
    "unknown_bytes": LONG,
    "cost": DOUBLE,
    "cost_per_month": DOUBLE,
    "max_partitions": INT,
    "min_partitions": INT,
    "max_bytes": LONG,
    "mean_bytes": DOUBLE,
    "moves": INT,
    "leader_moves": INT,
    "shared_topics": INT,
    "change": TEXT,
}
"""The traffic and cost that a group would have had over an interval under a scenario.

``scenario`` is one of SCENARIOS. ``assignor`` is the group's own for ``as_is``, ``leader_layout``
and ``follower_fetching``, else the scenario's. A partition is off-rack if both racks are known and
differ, and unknown if one of them is unknown. ``max_partitions`` to ``mean_bytes`` are per member.
``moves`` partitions change their member. ``shared_topics`` of the group's topics have other groups
too. For PRODUCERS and REPLICATION all of these are 0.

``hours`` is the time within the interval that snapshots cover, from which ``cost_per_month`` is
extrapolated. Leaders are laid out for all groups together that share topics, directly or through
others: these have the same ``layout_group``, the first of their names. ``leader_moves`` preferred
leaders change for all of them; that group has the number, the others have 0.

``change`` is what to change for the scenario, in words and commands for the group's client library;
null if it cannot be had, such as weights where ``rackward lead`` assigns."""

RANKING: Columns = {
    "rank": INT,
    "cluster": TEXT,
    "group": TEXT,
    "interval_start": TIME,
    "interval_end": TIME,
    "hours": DOUBLE,
    "cost_per_month_now": DOUBLE,
    "cost_per_month_after": DOUBLE,
    "saving_per_month": DOUBLE,
    "locality_now": DOUBLE,
    "locality_after": DOUBLE,
    "unknown_now": DOUBLE,
    "scenario": TEXT,
    "change": TEXT,
}
"""Groups by the saving per month that the recommended change brings, largest first.

``scenario`` is the smallest change that reaches the lowest cost to within 1 % of the possible
saving; ``change`` is that of WHAT_IF. A leader layout is recommended to all groups of a
``layout_group`` or to none, so that all changes of the table can be made, and their savings be
added. ``hours`` is as in WHAT_IF: months that are extrapolated from less than a day are rough.
Localities are shares of all bytes, null if no rack is known; ``unknown_now`` is the share of the
bytes of which a rack is unknown."""

REJECTED_ROWS: Columns = {"table": TEXT, "reason": TEXT, "row": TEXT}
"""A snapshot row that is invalid, as JSON, and the reason."""

OUTPUT_TABLES: Mapping[str, Columns] = {
    "partition_hours": PARTITION_HOURS,
    "hourly": HOURLY,
    "replaced_hourly": REPLACED_HOURLY,
    "flows_hourly": FLOWS_HOURLY,
    "what_if": WHAT_IF,
    "ranking": RANKING,
    "rejected_rows": REJECTED_ROWS,
}
"""Table name to columns."""
