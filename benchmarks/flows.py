"""Compares measured flows of the pipeline with the DuckDB reference, SQL after
docs/traffic-rules.md: seconds, CPU and memory.

``python -m benchmarks.flows`` runs both, one after the other, on 1, 10 and 100 million generated
records; ``--records N`` on about N. Both compute the tables FLOWS_HOURLY, HOURLY and
REPLACED_HOURLY; their rows and bytes have to be equal. The snapshots of commits, which the estimate
is computed from, are those of ``benchmarks.traffic_sql``.

A record is a direction of a connection in ten minutes, as one of its two interfaces counted it.
Half of them are of brokers: of 3,600 members of groups, 390 producers and 10 other brokers with
each of 30 brokers. The others have nothing to do with Kafka.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import duckdb
from pyspark.sql import DataFrame

from benchmarks.harness import in_new_process, tree_cpu_seconds, tree_peak_megabytes
from benchmarks.traffic_sql import SPARK
from rack_traffic.options import FlowOptions
from rack_traffic.pipeline import FlowInput, write_measured
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import OUTPUT, SNAPSHOTS
from rack_traffic.session import spark_session
from rackward.groups.host_racks import HostRacks
from tests.support.oracles import flows_sql

MILLION = 1_000_000
DUCKDB_MEMORY = "8GB"

BROKERS, CLIENTS, MEMBERS, PRODUCERS_UNTIL = 30, 4000, 3600, 3990
PAIRS = BROKERS * CLIENTS
RECORDS_PER_WINDOW = 2 * PAIRS * 4
"""Of Kafka and of others; in both directions, of both interfaces."""

BEGIN = 1_772_445_600
"""2026-03-02T10:00Z."""
WINDOW = 600
NETWORKS = range(16)
"""The third bytes of clients' addresses; a network is in the rack of its number modulo 3."""

_BROKER_ADDRESS = "'10.0.0.' || (broker + 1)"
_CLIENT_ADDRESS = "'10.1.' || (client // 250) || '.' || (client % 250)"
_TAKEN_AT = f"make_timestamptz(({BEGIN} + snapshot * {WINDOW}) * 1000000)"
_RACK = "'rack-' || ({} % 3)"


def generate(root: str, windows: int) -> None:
    """Write the input of `flows_sql.compute` below ``root``."""
    snapshots = f"range({windows + 1}) AS s(snapshot)"
    brokers = f"range({BROKERS}) AS b(broker)"
    tables = {
        "brokers": f"SELECT 'main' AS cluster, broker::INT AS broker, {_RACK.format('broker')} AS "
        f"rack, {_TAKEN_AT} AS taken_at FROM {brokers}, {snapshots}",
        "listeners": f"SELECT 'main' AS cluster, broker::INT AS broker, {_BROKER_ADDRESS} AS "
        f"address, 9092 AS port, {_TAKEN_AT} AS taken_at FROM {brokers}, {snapshots}",
        "members": f"""SELECT 'main' AS cluster, 'group-' || (client // 9) AS "group",
            'member-' || client AS member_id, {_CLIENT_ADDRESS} AS host,
            {_RACK.format("client")} AS rack, {_TAKEN_AT} AS taken_at
            FROM range({MEMBERS}) AS c(client), {snapshots}""",
        "mapped": "SELECT '' AS address, 0 AS port, '' AS cluster, 0 AS broker WHERE false",
        "networks": "SELECT (10 << 24) + (1 << 16) + third * 256 AS low, low + 255 AS high, "
        f"255 AS size, {_RACK.format('third')} AS rack FROM range({len(NETWORKS)}) AS t(third)",
        "estimated": f"""SELECT 'main' AS cluster, kind,
            CASE kind WHEN 'consume' THEN 'group-' || number END AS "group",
            'topic-' || (number % 40) AS topic,
            {_RACK.format("number")} AS from_rack, {_RACK.format("to_number")} AS to_rack,
            make_timestamptz(({BEGIN} + hour * 3600) * 1000000) AS hour, 'estimated' AS source,
            CASE WHEN from_rack = to_rack THEN 0 ELSE 1 END AS crossed_level,
            1000000 + number AS bytes, 0::BIGINT AS estimated_bytes, 0::BIGINT AS unsized_offsets,
            0.02::DOUBLE AS price_per_gb, 0.0::DOUBLE AS cost
            FROM range(400) AS n(number), range(3) AS t(to_number),
                range({windows * WINDOW // 3600 + 1}) AS h(hour),
                unnest(['consume', 'produce', 'replicate']) AS k(kind)
            WHERE kind = 'consume' OR number < 40""",
        "flows": f"""SELECT (first * 1000000)::BIGINT AS start,
            ((first + {WINDOW}) * 1000000)::BIGINT AS "end",
            CASE WHEN to_client THEN broker_address ELSE client_address END AS source_address,
            CASE WHEN to_client THEN broker_port ELSE client_port END AS source_port,
            CASE WHEN to_client THEN client_address ELSE broker_address END AS destination_address,
            CASE WHEN to_client THEN client_port ELSE broker_port END AS destination_port,
            (CASE WHEN to_client = reads THEN 1000000 + id * 7919 % 1000000 ELSE 20000 END)::BIGINT
                AS bytes,
            'eni-' || CASE WHEN at_broker THEN broker ELSE client + 100 END AS reporter
            FROM (
                SELECT id, {BEGIN} + id // {RECORDS_PER_WINDOW} * {WINDOW} AS first,
                    id % 2 = 0 AS to_client, id // 2 % 2 = 0 AS at_broker,
                    id % {RECORDS_PER_WINDOW} // 4 AS pair, pair // {PAIRS} = 0 AS of_kafka,
                    pair % {BROKERS} AS broker, pair // {BROKERS} % {CLIENTS} AS client,
                    CASE WHEN NOT of_kafka THEN '10.9.0.' || broker ELSE {_BROKER_ADDRESS} END
                        AS broker_address,
                    CASE WHEN of_kafka AND client >= {PRODUCERS_UNTIL}
                        THEN '10.0.0.' || (client - {PRODUCERS_UNTIL} + 1)
                        ELSE {_CLIENT_ADDRESS} END AS client_address,
                    CASE WHEN of_kafka THEN 9092 ELSE 443 END AS broker_port,
                    (32768 + pair % 20000)::INT AS client_port,
                    client < {MEMBERS} OR client >= {PRODUCERS_UNTIL} AS reads
                FROM range({windows * RECORDS_PER_WINDOW}) AS r(id)
            )""",
    }
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false; SET enable_progress_bar = false")
    for name, sql in tables.items():
        (Path(root) / name).mkdir()
        connection.execute(f"COPY ({sql}) TO '{root}/{name}/rows.parquet' (FORMAT PARQUET)")


def time_sql(root: str) -> dict[str, float]:
    """Return the figures of the SQL, and the rows and bytes of its tables."""
    cpu, start = tree_cpu_seconds(), time.perf_counter()
    connection = duckdb.connect(f"{root}/reference.duckdb")
    connection.execute(
        f"SET threads = 2; SET memory_limit = '{DUCKDB_MEMORY}'; SET enable_progress_bar = false"
    )
    flows_sql.compute(connection, root)
    figures = _figures(start, cpu)
    for name, table in flows_sql.RESULTS.items():
        counted = f"SELECT count(*), coalesce(sum(bytes), 0)::BIGINT FROM {table}"
        ((figures[f"{name} rows"], figures[f"{name} bytes"]),) = connection.execute(
            counted
        ).fetchall()
    return figures


def time_pipeline(root: str) -> dict[str, float]:
    """Return the same of the pipeline, without the time in which Spark starts."""
    spark = spark_session(SPARK)
    spark.range(1).collect()
    cpu, start = tree_cpu_seconds(), time.perf_counter()
    snapshots = {
        name: spark.read.schema(SNAPSHOTS[name]).parquet(f"{root}/{name}")
        for name in ("brokers", "members", "listeners")
    }
    networks = {f"10.1.{third}.0/24": f"rack-{third % 3}" for third in NETWORKS}
    options = FlowOptions("", None, {}, HostRacks.parse(networks, "benchmark").rack)
    given = FlowInput(spark.read.parquet(f"{root}/flows"), **snapshots, options=options)
    estimated = spark.read.schema(OUTPUT["hourly"]).parquet(f"{root}/estimated")

    def replace(rows: DataFrame, table: str) -> DataFrame:
        rows.write.parquet(f"{root}/out/{table}")
        return spark.read.parquet(f"{root}/out/{table}")

    write_measured(given, estimated, PriceTable(), replace)
    figures = _figures(start, cpu)
    for name in flows_sql.RESULTS:
        written = spark.read.parquet(f"{root}/out/{name}")
        ((figures[f"{name} rows"], figures[f"{name} bytes"]),) = written.selectExpr(
            "count(*)", "coalesce(sum(bytes), 0L)"
        ).collect()
    spark.stop()
    return figures


def _figures(start: float, cpu: float) -> dict[str, float]:
    return {
        "seconds": time.perf_counter() - start,
        "cpu": tree_cpu_seconds() - cpu,
        "megabytes": tree_peak_megabytes(),
    }


def compare(windows: int) -> None:
    """Print the figures of both programs. Raise RuntimeError if their tables differ."""
    measured = ("seconds", "cpu", "megabytes")
    with tempfile.TemporaryDirectory(prefix="rackward-flows-") as root:
        in_new_process(generate, root, windows)
        print(f"{windows * RECORDS_PER_WINDOW:,} records")
        figures: dict[str, dict[str, float]] = {}
        for name, step in (("DuckDB", time_sql), ("pipeline", time_pipeline)):
            figures[name] = each = in_new_process(step, root)
            print(
                f"{name}: {each['seconds']:.1f} s, {each['cpu']:.1f} s of CPU, "
                f"{each['megabytes']:,.0f} MB at most",
                flush=True,
            )
    one, other = figures["DuckDB"], figures["pipeline"]
    if {name for name in one if name not in measured and one[name] != other[name]}:
        raise RuntimeError(f"the tables differ: {one} and {other}")
    print(
        f"CPU of the pipeline: {other['cpu'] / one['cpu']:.2f} times that of DuckDB; "
        f"{other['hourly rows']:,} hourly rows, in place of {other['replaced_hourly rows']:,}"
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flows", description=__doc__)
    parser.add_argument("--records", type=int, help="about this many records only")
    options = parser.parse_args()
    sizes = [options.records] if options.records else [MILLION, 10 * MILLION, 100 * MILLION]
    for records in sizes:
        compare(max(1, round(records / RECORDS_PER_WINDOW)))


if __name__ == "__main__":
    main()
