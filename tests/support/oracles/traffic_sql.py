"""The DuckDB reference of PARTITION_HOURS: the rules of docs/traffic-rules.md in SQL.

It shares no code with the pipeline and is written from the document; the numbers in the SQL are
those of its rules. ``ranges``, ``parts`` and other tables of the SQL have no counterpart there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import duckdb

TABLES = ("brokers", "partitions", "members", "commits")
HOUR = 3_600_000_000
TEN_MINUTES = 600_000_000
SERIES = 'cluster, "group", topic, "partition"'
LOG = 'cluster, topic, "partition", topic_id'
AGES = (1, 4, 16, 64, 256)


def connect(root: str) -> duckdb.DuckDBPyConnection:
    """Return a database with a view of each snapshot table in the Parquet files below ``root``."""
    connection = duckdb.connect()
    for table in TABLES:
        connection.execute(
            f"CREATE VIEW {table} AS "
            f"FROM read_parquet('{root}/{table}/**/*.parquet', union_by_name = true)"
        )
    return connection


def differences(hours: Iterable[Sequence[object]], expected: Iterable[Sequence[object]]) -> str:
    """Return the rows that only one of two tables has, as lines; empty if they are equal."""
    one, other = (Counter(map(_comparable, rows)) for rows in (hours, expected))
    lines = [f"- {row}" for row in one - other] + [f"+ {row}" for row in other - one]
    return "\n".join(sorted(lines, key=lambda line: line[2:]))


def _comparable(row: Sequence[object]) -> tuple[object, ...]:
    """Return ``row`` with times in seconds since 1970."""
    return tuple(int(each.timestamp()) if isinstance(each, datetime) else each for each in row)


def partition_hours(connection: duckdb.DuckDBPyConnection, *, max_gap_hours: float = 24.0) -> str:
    """Compute PARTITION_HOURS in a database of :func:`connect`; return the query for its rows.

    Hours are in seconds since 1970.
    """
    gap = int(max_gap_hours * HOUR)
    for name, sql in {
        "racks": _since("rack"),
        "selectors": _since("replica_selector"),
        "logs": _logs(connection),
        "ends": _ends(connection),
        "reads": _reads(gap),
        "writes": _writes(gap),
        "hours": HOURS,
    }.items():
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql}")
    return "FROM hours"


SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def _since(name: str) -> str:
    """Return the SELECT of a column of brokers, and from when on a broker has each value."""
    return f"""
        -- 1, 18
        SELECT cluster, broker, {name}, coalesce(ts0 + (ts - ts0) // 2, 0) AS since
        FROM (
            SELECT *, lag({name}) OVER w AS value0, lag(ts) OVER w AS ts0
            FROM (SELECT cluster, broker, {name}, epoch_us(taken_at) AS ts FROM brokers)
            WHERE {name} IS NOT NULL WINDOW w AS (PARTITION BY cluster, broker ORDER BY ts, {name})
        )
        WHERE {name} IS DISTINCT FROM value0
    """


def _of_one_collector(
    connection: duckdb.DuckDBPyConnection, table: str, keys: str, ts: str = "epoch_us(taken_at)"
) -> str:
    """Return a SELECT: the rows of a table that rule 5 leaves."""
    counted = connection.execute(f"SELECT count(DISTINCT collector) FROM {table}").fetchall()
    if counted[0][0] < 2:
        return f"SELECT *, {ts} AS ts FROM {table}"
    return f"""
        SELECT * EXCLUDE (name, rows, most) FROM (
            SELECT *, max(rows) OVER (PARTITION BY {keys}, ts // {TEN_MINUTES}) AS most
            FROM (
                SELECT *, {ts} AS ts, coalesce(collector, '') AS name,
                    count(*) OVER (PARTITION BY {keys}, {ts} // {TEN_MINUTES}, name) AS rows
                FROM {table}
            )
        )
        WHERE rows >= 0.5 * most
        QUALIFY name = min(name) OVER (PARTITION BY {keys}, ts // {TEN_MINUTES})
    """


def _logs(connection: duckdb.DuckDBPyConnection) -> str:
    """Return the SELECT of the snapshots of logs, with bytes per offset of their ranges."""
    keys = 'cluster, topic, "partition"'
    chosen = _of_one_collector(connection, "partitions", keys)
    ordered = f"""
        -- 2, 4
        SELECT * REPLACE (coalesce(leader, last_value(leader IGNORE NULLS) OVER (
            PARTITION BY {keys} ORDER BY ts, end_offset
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS leader)
        FROM ({chosen})
        QUALIFY lead(ts) OVER (PARTITION BY {keys} ORDER BY ts, end_offset) IS DISTINCT FROM ts
    """
    before = ", ".join(
        f"lag({name}) OVER w AS {name}0"
        for name in ("ts", "end_offset", "start_offset", "size_bytes", "leader", "rack")
    )
    earlier = ", ".join(
        f"lag({{'e': end_offset, 't': total, 'c': compactions}}, {age}) OVER w AS s{n}"
        for n, age in enumerate(AGES, 1)
    )
    ranges = "summed"
    for n in range(1, 6):
        s = f"s{n}" if n <= 2 else f"CASE WHEN s{n}.c = compactions THEN s{n} ELSE cut END"
        upper, total = ("end_offset", "total") if n == 1 else (f"low{n - 1}", f"total{n - 1}")
        low, below = f"least(({s}).e, {upper})", f"least(coalesce(({s}).t, {total}), {total})"
        ranges = f"""(SELECT *, {low} AS low{n}, {below} AS total{n},
            coalesce(({total} - {below}) / nullif({upper} - {low}, 0), density) AS d{n}
            FROM {ranges})"""
    return f"""
    WITH led AS (
        SELECT p.*, r.rack FROM ({ordered}) p ASOF LEFT JOIN racks r
        ON p.cluster = r.cluster AND p.leader = r.broker AND p.ts >= r.since
    ),
    selecting AS (  -- 18
        SELECT l.cluster, topic, "partition", ts, unnest(isr) AS follower
        FROM led l ASOF JOIN selectors s
        ON l.cluster = s.cluster AND l.leader = s.broker AND l.ts >= s.since
        WHERE replica_selector = '{SELECTOR}'
    ),
    followers AS (
        SELECT f.cluster, topic, "partition", ts, list(r.rack) AS in_sync
        FROM selecting f ASOF JOIN racks r
        ON f.cluster = r.cluster AND f.follower = r.broker AND f.ts >= r.since
        GROUP BY ALL
    ),
    located AS (
        SELECT l.*, in_sync FROM led l LEFT JOIN followers f ON l.cluster = f.cluster
            AND l.topic = f.topic AND l."partition" = f."partition" AND l.ts = f.ts
    ),
    steps AS (  -- 6
        SELECT *, CASE WHEN end_offset > end_offset0 AND size_bytes > size_bytes0 AND same
            THEN (size_bytes - size_bytes0) / (end_offset - end_offset0) END AS growth
        FROM (
            SELECT *, start_offset = start_offset0 AND leader = leader0 AS same FROM (
                SELECT *, {before} FROM located WINDOW w AS (PARTITION BY {LOG} ORDER BY ts)
            )
        )
    ),
    counted AS (
        SELECT *, CASE WHEN growth >= coalesce(0.5 * usual, 0) THEN growth END AS counting
        FROM (
            SELECT *, least(last_value(growth IGNORE NULLS) OVER (PARTITION BY {LOG} ORDER BY ts
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
                first_value(growth IGNORE NULLS) OVER (PARTITION BY {LOG} ORDER BY ts
                ROWS BETWEEN 1 FOLLOWING AND 8 FOLLOWING)) AS usual
            FROM steps
        )
    ),
    dense AS (  -- 7
        SELECT *, size_bytes / nullif(end_offset - start_offset, 0) AS mean,
            coalesce(counting, last_value(counting IGNORE NULLS) OVER past,
                first_value(counting IGNORE NULLS) OVER (PARTITION BY {LOG} ORDER BY ts
                    ROWS BETWEEN 1 FOLLOWING AND 8 FOLLOWING),
                mean, last_value(mean IGNORE NULLS) OVER past) AS density
        FROM (SELECT *, size_bytes / nullif(end_offset - start_offset, 0) AS mean FROM counted)
        WINDOW past AS (PARTITION BY {LOG} ORDER BY ts
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    appended AS (  -- 8
        SELECT *, coalesce(sum(CASE WHEN end_offset > end_offset0
                THEN round((end_offset - end_offset0) * density)::BIGINT END)
                OVER (PARTITION BY {LOG} ORDER BY ts), 0)::BIGINT AS total,
            coalesce(same AND (size_bytes < size_bytes0
                OR (growth IS NOT NULL AND counting IS NULL)), false) AS compacted
        FROM dense
    ),
    totals AS (  -- 9
        SELECT *, last_value(CASE WHEN compacted THEN {{'e': end_offset0, 't': total0}} END
            IGNORE NULLS) OVER w AS cut, sum(compacted::INT) OVER w AS compactions
        FROM (SELECT *, lag(total) OVER (PARTITION BY {LOG} ORDER BY ts) AS total0 FROM appended)
        WINDOW w AS (PARTITION BY {LOG} ORDER BY ts)
    ),
    summed AS (  -- 10
        SELECT *, {earlier} FROM totals WINDOW w AS (PARTITION BY {LOG} ORDER BY ts)
    )
    SELECT *, CASE WHEN low5 > start_offset AND size_bytes - total + total5 > 0
        THEN (size_bytes - total + total5) / (low5 - start_offset)
        ELSE coalesce(mean, density) END AS d6, CASE WHEN compactions > 0 THEN low5 END
        AS compacted_below
    FROM {ranges}
    """


def _ends(connection: duckdb.DuckDBPyConnection) -> str:
    """Return the SELECT of commits with the log and the owner at their time."""
    commits = _of_one_collector(connection, "commits", SERIES)
    members = _of_one_collector(connection, "members", 'cluster, "group"')
    return f"""
    WITH stable AS (  -- 3
        SELECT * FROM ({members})
        WHERE state IN ('Stable', 'Empty', 'Dead', 'Reconciling', 'Assigning')
    ),
    assigned AS (
        SELECT DISTINCT cluster, "group", ts, rack, sends, topic, unnest(partitions) AS "partition"
        FROM (
            SELECT cluster, "group", ts, rack, sends, a.topic, a.partitions
            FROM (SELECT cluster, "group", ts, rack, unnest(assignment) AS a,
                CASE WHEN protocol IN ('leader-rack-aware-range', 'rack-affinity',
                        'leader-rack-aware-cooperative-sticky') THEN false
                    WHEN rack_source = 'subscription' THEN true END AS sends  -- 19
                FROM stable)
        )
    ),
    first_assigned AS (SELECT {SERIES}, min(ts) AS first FROM assigned GROUP BY ALL),
    ordered AS (
        SELECT * FROM ({commits}) QUALIFY lead(ts) OVER (
            PARTITION BY {SERIES} ORDER BY ts, committed_offset) IS DISTINCT FROM ts
    ),
    with_snapshot AS (
        SELECT c.*, s.ts AS snapshot
        FROM ordered c ASOF LEFT JOIN (SELECT DISTINCT cluster, "group", ts FROM stable) s
        ON c.cluster = s.cluster AND c."group" = s."group" AND c.ts >= s.ts
    ),
    with_owner AS (
        SELECT c.*, a.rack AS owner_rack, a.sends,
            CASE WHEN a.ts IS NOT NULL THEN true WHEN f.first <= c.snapshot THEN false END AS owned
        FROM with_snapshot c
        LEFT JOIN assigned a ON c.cluster = a.cluster AND c."group" = a."group"
            AND c.topic = a.topic AND c."partition" = a."partition" AND c.snapshot = a.ts
        LEFT JOIN first_assigned f ON c.cluster = f.cluster AND c."group" = f."group"
            AND c.topic = f.topic AND c."partition" = f."partition"
    )
    SELECT c.cluster, c."group", c.topic, c."partition", c.ts, c.committed_offset, c.owned,
        c.owner_rack, c.sends, l.ts IS NOT NULL AS known, l.topic_id, l.rack, l.in_sync,
        l.start_offset, l.end_offset,
        l.density, l.compacted_below, l.low1, l.low2, l.low3, l.low4, l.low5, l.d1, l.d2, l.d3,
        l.d4, l.d5, l.d6
    FROM with_owner c ASOF LEFT JOIN logs l ON c.cluster = l.cluster AND c.topic = l.topic
        AND c."partition" = l."partition" AND c.ts >= l.ts
    """


def _reads(max_gap: int) -> str:
    """Return the SELECT of what each interval between two commits read."""
    names = ("ts", "committed_offset", "owned", "owner_rack", "sends", "known")
    state = ("topic_id", "rack", "in_sync", "start_offset", "end_offset")
    before = ", ".join(f"lag({name}) OVER w AS {name}0" for name in (*names, *state))
    state0 = ", ".join(
        f"CASE WHEN known0 THEN {name}0 ELSE {name} END AS {name}_1" for name in state
    )
    owners = ", ".join(
        f"CASE WHEN owned{one} THEN {name}{one} WHEN owned{two} THEN {name}{two} END AS {end}"
        for name, ends in (("owner_rack", ("to0", "to1")), ("sends", ("sends_0", "sends_1")))
        for end, one, two in ((ends[0], "0", ""), (ends[1], "", "0"))
    )
    uppers = ("end_offset", "low1", "low2", "low3", "low4", "low5")
    lowers = ("low1", "low2", "low3", "low4", "low5")
    parts = ["greatest(committed_offset - greatest(committed_offset0, end_offset), 0) * density"]
    for n, upper in enumerate(uppers, 1):
        lower = f"greatest(committed_offset0, {lowers[n - 1]})" if n < 6 else "committed_offset0"
        parts.append(f"greatest(least(committed_offset, {upper}) - {lower}, 0) * d{n}")
    return f"""
    WITH intervals AS (
        SELECT *, {state0} FROM (
            SELECT *, {before} FROM ends WINDOW w AS (PARTITION BY {SERIES} ORDER BY ts)
            QUALIFY ts0 IS NOT NULL
        )
    ),
    measured AS (  -- 11
        SELECT *, ts - ts0 AS length, CASE WHEN topic_id_1 IS NOT DISTINCT FROM topic_id AND known
            AND committed_offset >= committed_offset0 AND NOT coalesce(
                committed_offset0 < start_offset AND
                committed_offset0 - start_offset_1 < end_offset_1 - committed_offset0, false)
            AND size <= length / 1e6 * 1e9 THEN size END AS bytes
        FROM (SELECT *, {" + ".join(parts)} AS size FROM intervals)
    ),
    rated AS (  -- 12
        SELECT *, coalesce(committed_offset0 < compacted_below, false) AS from_compacted,
            lag(bytes / length) OVER w AS rate0, lead(bytes / length) OVER w AS rate1
        FROM measured WINDOW w AS (PARTITION BY {SERIES} ORDER BY ts)
    )
    SELECT cluster, 'consume' AS kind, "group", topic, "partition", ts0, ts,
        {_source("to0", "sends_0", "rack_1", "in_sync_1")} AS from0,
        {_source("to1", "sends_1", "rack", "in_sync")} AS from1, to0, to1,
        density IS NOT NULL AND length <= {max_gap} AS sized,  -- 13
        CASE WHEN sized THEN coalesce(bytes,
            (coalesce(rate0, rate1) + coalesce(rate1, rate0)) / 2 * length, 0) ELSE 0 END AS bytes,
        sized AND (from_compacted OR bytes IS NULL) AS estimated,
        CASE WHEN sized THEN 0 ELSE greatest(committed_offset - committed_offset0, 0) END AS unsized
    FROM (SELECT *, {owners} FROM rated)  -- 14
    WHERE NOT coalesce(NOT owned0 AND NOT owned, false)
    """


def _source(reader: str, sends: str, leader: str, in_sync: str) -> str:
    """Return the expression of the rack that bytes go from: rules 18 and 19."""
    return f"""CASE WHEN coalesce(list_contains({in_sync}, {reader})
            AND {reader} IS DISTINCT FROM {leader} AND {sends} IS DISTINCT FROM false, false)
            THEN CASE WHEN {sends} THEN {reader} END ELSE {leader} END"""


def _writes(max_gap: int) -> str:
    """Return the SELECT of what each time between two snapshots of a log wrote."""
    return f"""
    WITH grown AS (
        SELECT *, greatest(end_offset - end_offset0, 0) AS offsets, ts - ts0 AS length,
            density IS NOT NULL AND ts - ts0 <= {max_gap} AS sized,
            leader0 <> leader AND ts - ts0 > 1 AS moved, ts0 + (ts - ts0) // 2 AS middle
        FROM logs WHERE ts0 < ts
    ),
    led AS (  -- 17
        SELECT * REPLACE (CASE WHEN half = 2 THEN middle ELSE ts0 END AS ts0,
            CASE WHEN half = 1 THEN middle ELSE ts END AS ts,
            CASE WHEN half = 1 THEN leader0 ELSE leader END AS leader,
            CASE WHEN half = 1 THEN rack0 ELSE rack END AS rack)
        FROM (SELECT *, unnest(CASE WHEN moved THEN [1, 2] ELSE [0] END) AS half FROM grown)
    ),
    copied AS (  -- 16
        SELECT *, unnest(list_concat([NULL::INT], list_filter(replicas, lambda x: x <> leader)))
            AS follower, (ts - ts0) / length AS share
        FROM led
    )
    SELECT c.cluster, CASE WHEN follower IS NULL THEN 'produce' ELSE 'replicate' END AS kind,
        NULL AS "group", topic, "partition", ts0, ts,
        CASE WHEN follower IS NOT NULL THEN c.rack END AS from0, from0 AS from1,
        CASE WHEN follower IS NULL THEN c.rack ELSE r.rack END AS to0, to0 AS to1, sized,
        CASE WHEN sized THEN offsets * density ELSE 0 END * share AS bytes, false AS estimated,
        CASE WHEN sized THEN 0
            WHEN half = 2 THEN offsets - round(offsets * ((length - (ts - ts0)) / length))::BIGINT
            ELSE round(offsets * share)::BIGINT END AS unsized
    FROM copied c ASOF LEFT JOIN racks r
        ON c.cluster = r.cluster AND c.follower = r.broker AND c.ts >= r.since
    """


HOURS = f"""
    WITH halves AS (
        SELECT *, ts - ts0 AS length, ts0 + (ts - ts0) // 2 AS middle,
            unnest(CASE WHEN (from0 IS DISTINCT FROM from1 OR to0 IS DISTINCT FROM to1)
                AND ts - ts0 > 1 THEN [1, 2] ELSE [0] END) AS half
        FROM (FROM reads UNION ALL FROM writes)
    ),
    spans AS (
        SELECT *, CASE WHEN half = 2 THEN middle ELSE ts0 END AS first,
            CASE WHEN half = 1 THEN middle ELSE ts END AS last,
            CASE WHEN half = 2 THEN from1 ELSE from0 END AS from_rack,
            CASE WHEN half = 2 THEN to1 ELSE to0 END AS to_rack
        FROM halves
    ),
    cut AS (  -- 15
        SELECT *, (greatest(first, hour * {HOUR}) - ts0) / length AS begin,
            (least(last, (hour + 1) * {HOUR}) - ts0) / length AS until
        FROM (
            SELECT *, unnest(range(first // {HOUR}, (last - 1) // {HOUR} + 1)) AS hour FROM spans
        )
    ),
    parts AS (
        SELECT * REPLACE (round(bytes * until) - round(bytes * begin) AS bytes,
            round(unsized * until) - round(unsized * begin) AS unsized)
        FROM cut
    )
    SELECT cluster, kind, "group", topic, "partition", hour * 3600 AS hour,
        from_rack, to_rack, sum(bytes)::BIGINT AS bytes,
        sum(CASE WHEN estimated THEN bytes ELSE 0 END)::BIGINT AS estimated_bytes,
        sum(unsized)::BIGINT AS unsized_offsets
    FROM parts GROUP BY ALL HAVING sum(bytes) > 0 OR sum(unsized) > 0
"""


PRODUCERS = """
    WITH sums AS (
        SELECT cluster, topic, from_rack, to_rack, hour,
            sum(bytes) AS bytes, sum(unsized_offsets) AS unsized_offsets
        FROM partition_hours WHERE kind = 'produce' GROUP BY ALL
    ),
    present AS (
        SELECT cluster, hour, list_sort(list(DISTINCT to_rack)) AS racks FROM partition_hours
        WHERE kind IN ('produce', 'replicate') AND to_rack IS NOT NULL GROUP BY ALL
    ),
    equal AS (
        SELECT cluster, hour, racks[n] AS rack, (n - 1) / len(racks) AS low, n / len(racks) AS high
        FROM (SELECT *, unnest(range(1, len(racks) + 1)) AS n FROM present)
    ),
    declared AS (
        SELECT topics.topic, rack, low, high FROM (SELECT DISTINCT topic FROM sums) AS topics
        JOIN writers ON writers.topic = CASE
            WHEN topics.topic IN (SELECT topic FROM writers) THEN topics.topic ELSE '*' END
    ),
    shares AS (
        SELECT sums.*, rack, low, high FROM sums JOIN declared USING (topic)
        UNION ALL
        SELECT sums.*, rack, low, high FROM sums JOIN equal USING (cluster, hour)
        WHERE topic NOT IN (SELECT topic FROM declared)
    )
    SELECT cluster, topic, rack AS from_rack, to_rack, hour, 'assumed' AS source,
        (round(bytes * high) - round(bytes * low))::BIGINT AS bytes,
        (round(unsized_offsets * high) - round(unsized_offsets * low))::BIGINT AS unsized_offsets
    FROM shares WHERE to_rack IS NOT NULL
        AND (round(bytes * high) > round(bytes * low)
            OR round(unsized_offsets * high) > round(unsized_offsets * low))
    UNION ALL
    SELECT cluster, topic, from_rack, to_rack, hour, 'estimated', bytes, unsized_offsets
    FROM sums WHERE to_rack IS NULL
"""
"""Rule 20: the rows of producers in HOURLY, from ``partition_hours`` and ``writers``, which has the
parts of 1 at which the share of a rack begins and ends."""
