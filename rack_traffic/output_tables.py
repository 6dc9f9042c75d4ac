"""The tables that the pipeline writes: their columns, and what they mean.

They are Delta tables below the output folder, with the names of ``OUTPUT_TABLES``; a column
``date`` follows the documented ones. Types are those of :mod:`rack_traffic.snapshot_tables`, so the
report reads them without Spark. Times are UTC, sizes are bytes, prices are per GB of 10^9 bytes,
months have 730 hours. A null rack is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from rack_traffic.snapshot_tables import DOUBLE, INT, LONG, TEXT, TIME, Columns

HOURS_PER_MONTH = 730.0

ASSUMED, MEASURED = "assumed", "measured"
"""In HOURLY, in the column ``source``: where the racks of producers are known from."""

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

Bytes are from offsets and sizes of logs, as in PARTITION_HOURS. ``source`` is MEASURED if the racks
of producers are those of flow records, ASSUMED if they are those that ``rack_traffic.writers``
assumes, else ``estimated``.

``crossed_level`` is 0 within one rack, else the topmost level at which the racks differ: 1 is the
top level of rack paths, and the only level of plain rack names. It is null if a rack is unknown,
and so are ``price_per_gb`` and ``cost``."""

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

A group that brokers assign (KIP-848) has ``as_is``, ``leader_layout`` and ``follower_fetching``:
its members keep what they own. Every other group has all but ``leader_layout`` and
``rack_aware_producers``, which PRODUCERS have beside ``as_is``."""

PRODUCERS, REPLICATION = "(producers)", "(replication)"
"""In WHAT_IF and RANKING, in the column ``group``: all producers of a cluster, and the copies of
all followers, which have ``as_is`` only."""

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
leaders change for all of them; that group has the number, the others have 0."""

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
    "scenario": TEXT,
    "change": TEXT,
}
"""Groups by the saving per month that the recommended change brings, largest first.

``scenario`` is the smallest change that reaches the lowest cost to within 1 % of the possible
saving; ``change`` is an instruction in words. A leader layout is recommended to all groups of a
``layout_group`` or to none, so that all changes of the table can be made, and their savings be
added. ``hours`` is as in WHAT_IF: months that are extrapolated from less than a day are rough.
Localities are shares of the bytes whose racks are known, null if there are none."""

REJECTED_ROWS: Columns = {"table": TEXT, "reason": TEXT, "row": TEXT}
"""A snapshot row that is invalid, as JSON, and the reason."""

OUTPUT_TABLES: Mapping[str, Columns] = {
    "partition_hours": PARTITION_HOURS,
    "hourly": HOURLY,
    "flows_hourly": FLOWS_HOURLY,
    "what_if": WHAT_IF,
    "ranking": RANKING,
    "rejected_rows": REJECTED_ROWS,
}
"""Table name to columns."""
