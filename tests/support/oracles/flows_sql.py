"""The DuckDB reference of FLOWS_HOURLY and measured hours: docs/traffic-rules.md in SQL.

It shares no code with the pipeline and is written from the document; numbers in the SQL are those
of its rules.
"""

from __future__ import annotations

import duckdb

NEVER = 1 << 62
HOUR = 3_600_000_000
CONNECTION = "cluster, broker_address, broker_port, client, client_port"


TABLES = ("brokers", "members", "listeners", "flows", "mapped", "networks", "estimated")

RESULTS = {"flows_hourly": "result", "hourly": "hourly", "replaced_hourly": "replaced"}
"""Table of the pipeline to the temporary table that it equals."""

Rows = list[tuple[object, ...]]


def measured_tables(root: str) -> dict[str, Rows]:
    """Return the rows of FLOWS_HOURLY, HOURLY and REPLACED_HOURLY by name, hours in seconds since
    1970.

    Below ``root`` are Parquet files of snapshots, and ``flows`` (valid records, times in
    microseconds), ``mapped`` (address, port, cluster, broker), ``networks`` (first and last
    address as numbers, size, rack) and ``estimated`` (HOURLY without measurements).
    """
    connection = duckdb.connect()
    compute(connection, root)
    return {name: connection.execute(f"FROM {each}").fetchall() for name, each in RESULTS.items()}


def compute(connection: duckdb.DuckDBPyConnection, root: str) -> None:
    """Create the temporary tables of `STEPS` and `MEASURED_STEPS` from the files below ``root``."""
    for table in TABLES:
        connection.execute(
            f"CREATE VIEW {table} AS FROM read_parquet('{root}/{table}/**/*.parquet')"
        )
    for name, sql in (STEPS | MEASURED_STEPS).items():
        connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")


def _spans(table: str, keys: str, value: str) -> str:
    """Return the SELECT of what a value is from ``since`` until ``until``."""
    return f"""
        SELECT {keys}, {value} AS owner, coalesce(ts0 + (ts - ts0) // 2, 0) AS since,
            coalesce(lead(ts0 + (ts - ts0) // 2) OVER (PARTITION BY {keys} ORDER BY ts, {value}),
                {NEVER}) AS until
        FROM (
            SELECT *, lag({value}) OVER w AS value0, lag(ts) OVER w AS ts0
            FROM (SELECT *, epoch_us(taken_at) AS ts FROM {table})
            WHERE {value} IS NOT NULL
            WINDOW w AS (PARTITION BY {keys} ORDER BY ts, {value})
        )
        WHERE value0 IS DISTINCT FROM {value}
    """


def _best(side: str) -> str:
    """Return the LATERAL query of the first endpoint that a side of a record matches."""
    return f"""LEFT JOIN LATERAL (
        SELECT e.cluster, e.broker, e.port IS NOT NULL AS exact FROM endpoints e
        WHERE e.address = r.{side}_address AND (e.port IS NULL OR e.port = r.{side}_port)
            AND e.since <= r.ts AND r.ts < e.until
        ORDER BY e.priority LIMIT 1
    ) AS {side[0]} ON true"""


STEPS = {
    # 3, 10
    "racks": _spans("brokers", "cluster, broker", "rack"),
    "addresses": _spans(
        "(SELECT *, {'cluster': cluster, 'broker': broker} AS named FROM listeners "
        "WHERE address IS NOT NULL)",
        "address, port",
        "named",
    ),
    "endpoints": f"""
        SELECT address, port, owner.cluster AS cluster, owner.broker AS broker, since, until,
            3 AS priority
        FROM addresses
        UNION ALL
        SELECT address, port, cluster, broker, 0, {NEVER},
            CASE WHEN port IS NULL THEN 2 ELSE 1 END
        FROM mapped
    """,
    # 1, 2
    "records": """
        SELECT DISTINCT * REPLACE (coalesce(reporter, '') AS reporter),
            start + ("end" - start) // 2 AS ts
        FROM flows
    """,
    # 4
    "oriented": f"""
        SELECT r.*, CASE
            WHEN s.cluster IS NULL THEN false
            WHEN d.cluster IS NULL THEN true
            WHEN s.exact <> d.exact THEN s.exact
            WHEN source_address <> destination_address THEN source_address < destination_address
            ELSE coalesce(source_port, -1) < coalesce(destination_port, -1)
            END AS down,
            CASE WHEN down THEN s.cluster ELSE d.cluster END AS cluster,
            CASE WHEN down THEN s.broker ELSE d.broker END AS broker,
            CASE WHEN down THEN source_address ELSE destination_address END AS broker_address,
            CASE WHEN down THEN source_port ELSE destination_port END AS broker_port,
            CASE WHEN down THEN destination_address ELSE source_address END AS client,
            CASE WHEN down THEN destination_port ELSE source_port END AS client_port
        FROM records r {_best("source")} {_best("destination")}
        WHERE s.cluster IS NOT NULL OR d.cluster IS NOT NULL
    """,
    # 5
    "peered": """
        SELECT o.*, (
            SELECT {'same': bool_or(e.broker = o.broker), 'peer': min(e.broker)} FROM endpoints e
            WHERE e.address = o.client AND e.cluster = o.cluster
                AND e.since <= o.ts AND o.ts < e.until
        ) AS found
        FROM oriented o
    """,
    # 6
    "times": """
        SELECT cluster, "group", epoch_us(taken_at) AS ts,
            lag(epoch_us(taken_at)) OVER w AS ts0, lead(epoch_us(taken_at)) OVER w AS ts1
        FROM (SELECT DISTINCT cluster, "group", taken_at FROM members)
        WINDOW w AS (PARTITION BY cluster, "group" ORDER BY taken_at)
    """,
    "seen": """
        SELECT DISTINCT m.cluster, m."group", m.host, m.rack,
            coalesce(ts0 + (ts - ts0) // 2, ts) AS since,
            coalesce(ts + (ts1 - ts) // 2, ts + 1) AS until
        FROM members m JOIN times t
            ON m.cluster = t.cluster AND m."group" = t."group" AND epoch_us(m.taken_at) = t.ts
        WHERE m.member_id IS NOT NULL
    """,
    "covered": """
        SELECT cluster, epoch_us(min(taken_at)) AS first, epoch_us(max(taken_at)) AS last
        FROM members GROUP BY ALL
    """,
    "attributed": """
        SELECT p.* EXCLUDE (found), found.peer AS peer,
            b.owner AS broker_rack, q.owner AS peer_rack, c.first, c.last, s.names, s.racks
        FROM peered p
        LEFT JOIN racks b ON b.cluster = p.cluster AND b.broker = p.broker
            AND b.since <= p.ts AND p.ts < b.until
        LEFT JOIN racks q ON q.cluster = p.cluster AND q.broker = found.peer
            AND q.since <= p.ts AND p.ts < q.until
        LEFT JOIN covered c ON c.cluster = p.cluster
        LEFT JOIN LATERAL (
            SELECT list(DISTINCT "group") AS names, list(DISTINCT rack)
                FILTER (rack IS NOT NULL) AS racks
            FROM seen
            WHERE seen.cluster = p.cluster AND seen.host = p.client
                AND seen.since <= p.ts AND p.ts < seen.until
        ) AS s ON true
        WHERE found.same IS DISTINCT FROM true
    """,
    # 7
    "parts": f"""
        SELECT {CONNECTION}, down, reporter, hour, peer, broker_rack, peer_rack,
            CASE WHEN peer IS NULL AND len(names) = 1 THEN names[1] END AS "group",
            CASE WHEN peer IS NULL AND ts BETWEEN first AND last THEN coalesce(len(names), 0) END
                AS groups,
            CASE WHEN peer IS NULL AND len(racks) = 1 THEN racks[1] END AS member_rack,
            (round(bytes * ((least(stop, (hour + 1) * {HOUR}) - start) / (stop - start)))
                - round(bytes * ((greatest(start, hour * {HOUR}) - start) / (stop - start))))
                ::BIGINT AS bytes
        FROM (
            SELECT *, unnest(range(start // {HOUR}, (stop - 1) // {HOUR} + 1)) AS hour
            FROM (SELECT *, greatest("end", start + 1) AS stop FROM attributed)
        )
    """,
    # 8
    "counted": f"""
        FROM (
            SELECT *, sum(bytes) OVER (PARTITION BY {CONNECTION}, hour, down, reporter) AS total
            FROM parts
        )
        QUALIFY reporter = first(reporter) OVER (
            PARTITION BY {CONNECTION}, hour, down ORDER BY total DESC, reporter
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    """,
    # 9, 10
    "payload": f"""
        SELECT *, sum(CASE WHEN down THEN bytes ELSE -bytes END)
            OVER (PARTITION BY {CONNECTION}, hour) >= 0 AS to_client
        FROM counted
    """,
    "named": """
        SELECT *, (
            SELECT rack FROM networks
            WHERE low <= number AND number <= high ORDER BY size LIMIT 1
        ) AS network_rack
        FROM (
            SELECT *, split_part(client, '.', 1)::BIGINT * 16777216
                + split_part(client, '.', 2)::BIGINT * 65536
                + split_part(client, '.', 3)::BIGINT * 256
                + split_part(client, '.', 4)::BIGINT AS number
            FROM payload
        )
    """,
    "racked": """
        SELECT *, CASE WHEN peer IS NOT NULL THEN peer_rack
            ELSE coalesce(member_rack, network_rack) END AS client_rack
        FROM named
    """,
    # 11
    "result": """
        SELECT cluster,
            CASE WHEN peer IS NOT NULL THEN 'replicate' WHEN to_client THEN 'consume'
                ELSE 'produce' END AS kind,
            client, "group", groups,
            CASE WHEN to_client THEN broker_rack ELSE client_rack END AS from_rack,
            CASE WHEN to_client THEN client_rack ELSE broker_rack END AS to_rack,
            hour * 3600 AS hour,
            CASE WHEN client_rack IS NULL THEN NULL WHEN peer IS NOT NULL THEN 'broker'
                WHEN member_rack IS NOT NULL THEN 'member' ELSE 'mapping' END AS rack_source,
            network_rack,
            sum(CASE WHEN down = to_client THEN bytes ELSE 0 END)::BIGINT AS bytes,
            sum(CASE WHEN down = to_client THEN 0 ELSE bytes END)::BIGINT AS opposite_bytes
        FROM racked WHERE bytes > 0 GROUP BY ALL
    """,
}
"""Name of a temporary table to its SELECT; comments are numbers of rules."""


def _divided(same: str, which: str) -> str:
    """Return the SELECT of rows divided among the estimated bytes that are the ``same``."""
    return f"""
        SELECT id, cluster, kind, hour, from_rack, to_rack, part_group, topic, writer,
            (round(bytes * (until / whole)) - round(bytes * ((until - part) / whole)))::BIGINT
                AS bytes
        FROM (
            SELECT *, sum(part) OVER (PARTITION BY id) AS whole,
                sum(part) OVER (PARTITION BY id ORDER BY part_group NULLS FIRST,
                    topic NULLS FIRST, writer NULLS FIRST) AS until
            FROM (
                SELECT r.id, r.cluster, r.kind, r.hour, r.from_rack, r.to_rack, r.bytes,
                    p."group" AS part_group, p.topic, p.writer, sum(p.bytes) AS part
                FROM rows_to_divide r JOIN estimate_parts p
                    ON r.cluster = p.cluster AND r.kind = p.kind AND r.hour = p.hour
                    AND (r."group" IS NULL OR p."group" = r."group") AND {same}
                WHERE {which}
                GROUP BY ALL
            )
        )
    """


MEASURED_STEPS = {
    # 12: the ten minutes that a record overlaps, of the brokers at its ends
    "tens": """
        SELECT DISTINCT cluster, broker,
            unnest(range(start // 600000000, (greatest("end", start + 1) - 1) // 600000000 + 1))
                AS ten
        FROM (
            SELECT cluster, unnest([broker, found.peer]) AS broker, start, "end"
            FROM peered WHERE found.same IS DISTINCT FROM true
        )
    """,
    "full_hours": f"""
        SELECT cluster, hour FROM (
            SELECT b.cluster, b.broker, b.hour, count(DISTINCT t.ten) AS tens
            FROM (
                SELECT DISTINCT cluster, broker, epoch_us(taken_at) // {HOUR} AS hour FROM brokers
            ) b
            LEFT JOIN tens t ON t.cluster = b.cluster AND t.broker = b.broker
                AND t.ten // 6 = b.hour
            GROUP BY ALL
        )
        GROUP BY ALL HAVING min(tens) = 6
    """,
    "kinds": """
        SELECT DISTINCT r.cluster, r.kind, r.hour
        FROM result r JOIN full_hours f ON r.cluster = f.cluster AND r.hour = f.hour * 3600
        WHERE r.bytes > 0
    """,
    "estimates": "SELECT * REPLACE (epoch(hour)::BIGINT AS hour) FROM estimated",
    "replaced": "FROM estimates SEMI JOIN kinds USING (cluster, kind, hour)",
    # 13
    "estimate_parts": """
        SELECT cluster, kind, hour, "group", topic, bytes,
            CASE kind WHEN 'produce' THEN to_rack ELSE from_rack END AS broker_rack,
            CASE kind WHEN 'produce' THEN from_rack END AS writer
        FROM replaced WHERE bytes > 0
    """,
    "rows_to_divide": """
        SELECT row_number() OVER () AS id, * FROM (
            SELECT cluster, kind, hour, from_rack, to_rack,
                CASE kind WHEN 'produce' THEN to_rack ELSE from_rack END AS broker_rack,
                CASE kind WHEN 'consume' THEN "group" END AS "group",
                kind = 'consume' AND groups IS NOT DISTINCT FROM 0 AS alone,
                sum(bytes)::BIGINT AS bytes
            FROM result SEMI JOIN kinds USING (cluster, kind, hour) GROUP BY ALL
        )
    """,
    "by_rack": _divided("p.broker_rack IS NOT DISTINCT FROM r.broker_rack", "NOT r.alone"),
    "by_hour": _divided("true", "NOT r.alone AND r.id NOT IN (SELECT id FROM by_rack)"),
    "divided": """
        SELECT * FROM by_rack UNION ALL SELECT * FROM by_hour UNION ALL
        SELECT id, cluster, kind, hour, from_rack, to_rack, "group", NULL, NULL, bytes
        FROM rows_to_divide
        WHERE id NOT IN (SELECT id FROM by_rack) AND id NOT IN (SELECT id FROM by_hour)
    """,
    "measured": """
        SELECT cluster, kind, part_group AS "group", topic,
            CASE WHEN assumed THEN writer ELSE from_rack END AS from_rack, to_rack, hour,
            CASE WHEN assumed THEN 'assumed' ELSE 'measured' END AS source,
            sum(bytes)::BIGINT AS bytes
        FROM (
            SELECT *, kind = 'produce' AND from_rack IS NULL AND writer IS NOT NULL AS assumed
            FROM divided
        )
        WHERE bytes > 0 GROUP BY ALL
    """,
    "hourly": """
        SELECT * FROM estimates ANTI JOIN kinds USING (cluster, kind, hour)
        UNION ALL
        SELECT cluster, kind, "group", topic, from_rack, to_rack, hour, source,
            (from_rack <> to_rack)::INT AS level, bytes, 0, 0, level * 0.02::DOUBLE,
            bytes::DOUBLE * (level * 0.02::DOUBLE) / 1e9
        FROM measured
    """,
}
"""Name of a temporary table to its SELECT, after STEPS."""
