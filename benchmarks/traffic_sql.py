"""Compares the traffic pipeline with the DuckDB reference, SQL after docs/traffic-rules.md.

``python -m benchmarks.traffic_sql`` computes the table PARTITION_HOURS of generated snapshots with
all faults, with 20 seeds, by both programs, and compares it row for row. ``--commits 10000000``
times both instead, one after the other, on the data of ``benchmarks.traffic``; ``--snapshots
FOLDER`` on existing data. Exit status 1 if the tables differ.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import functions as F

from benchmarks.harness import in_new_process, tree_cpu_seconds
from benchmarks.traffic_data import Size, true_bytes, write_snapshots
from placement_core import RACK_AWARE_SELECTOR
from rack_traffic.options import EstimationOptions
from rack_traffic.pipeline import Snapshots, partition_hours
from rack_traffic.session import SparkOptions, spark_session
from rack_traffic.tables import arrow_schema
from tests.support.oracles import traffic_sql
from tests.support.traffic_truth import Fault, observe, simulate

SPARK = SparkOptions("local[2]", "4g")
MAX_LINES = 20
PARTITIONS, PASSES = 500, 50


def write_seed(seed: int, root: Path) -> None:
    """Write the snapshots of a simulation with all faults below ``root``.

    Brokers with odd ids select replicas by rack.
    """
    for table, rows in observe(simulate(seed, faults=frozenset(Fault)), every=60).items():
        schema = arrow_schema(table)
        if table == "brokers":
            for row in rows:
                row["replica_selector"] = RACK_AWARE_SELECTOR if row["broker"] % 2 else ""
        named = [row | {"cluster": f"{seed}/{row['cluster']}"} for row in rows]
        full = [{name: row.get(name) for name in schema.names} for row in named]
        (root / table).mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.Table.from_pylist(full, schema), root / table / f"{seed}.parquet")


def compare(seeds: int) -> bool:
    """Print what differs between the two programs; return whether their tables are equal."""
    with tempfile.TemporaryDirectory(prefix="rackward-traffic-") as folder:
        for seed in range(seeds):
            write_seed(seed, Path(folder))
        spark = spark_session(SPARK)
        tables = {name: spark.read.parquet(f"{folder}/{name}") for name in traffic_sql.TABLES}
        rows = partition_hours(Snapshots(**tables), EstimationOptions()).collect()
        spark.stop()
        connection = traffic_sql.connect(folder)
        expected = connection.execute(traffic_sql.partition_hours(connection)).fetchall()
    different = traffic_sql.differences(rows, expected).splitlines()
    print(
        f"{seeds} seeds: {len(rows):,} rows of the pipeline (-), {len(expected):,} of the SQL (+), "
        f"{len(different):,} only in one"
    )
    print("\n".join(different[:MAX_LINES]))
    return not different


def time_sql(root: str) -> dict[str, float]:
    """Return the seconds and CPU seconds of the SQL for the snapshots below ``root``, the number of
    rows, and the bytes that groups read."""
    cpu, start = tree_cpu_seconds(), time.perf_counter()
    connection = traffic_sql.connect(root)
    connection.execute("SET threads = 2")
    query = traffic_sql.partition_hours(connection)
    counted = f"SELECT count(*), sum(bytes) FILTER (kind = 'consume')::BIGINT FROM ({query})"
    ((rows, size),) = connection.execute(counted).fetchall()
    return _figures(start, cpu, rows, size)


def time_pipeline(root: str) -> dict[str, float]:
    """Return the same of the pipeline, without the time in which Spark starts."""
    spark = spark_session(SPARK)
    spark.range(1).collect()
    cpu, start = tree_cpu_seconds(), time.perf_counter()
    tables = {name: spark.read.parquet(f"{root}/{name}") for name in traffic_sql.TABLES}
    consumed = F.sum(F.when(F.col("kind") == "consume", F.col("bytes")))
    hours = partition_hours(Snapshots(**tables), EstimationOptions())
    ((rows, size),) = hours.agg(F.count(F.lit(1)), consumed).collect()
    figures = _figures(start, cpu, rows, size)
    spark.stop()
    return figures


def _figures(start: float, cpu: float, rows: int, size: int) -> dict[str, float]:
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "cpu": tree_cpu_seconds() - cpu, "rows": rows, "bytes": size}


def time_both(root: str) -> int:
    """Print the times of both programs for the snapshots below ``root``; return the bytes read.

    Each runs in a process of its own, one after the other. Raise RuntimeError if their rows or
    bytes differ.
    """
    figures: dict[str, dict[str, float]] = {}
    for name, step in (("DuckDB", time_sql), ("pipeline", time_pipeline)):
        figures[name] = each = in_new_process(step, root)
        print(
            f"{name}: {each['rows']:,} rows in {each['seconds']:.1f} s ({each['cpu']:.1f} s of "
            "CPU)",
            flush=True,
        )
    one, other = figures["DuckDB"], figures["pipeline"]
    print(f"CPU of the pipeline: {other['cpu'] / one['cpu']:.2f} times that of DuckDB")
    if any(one[value] != other[value] for value in ("rows", "bytes")):
        raise RuntimeError(f"the tables differ: {one} and {other}")
    return int(one["bytes"])


def generate(size: Size, folder: str) -> None:
    """Write the snapshots of `benchmarks.traffic`."""
    spark = spark_session(SPARK)
    write_snapshots(spark, size, folder)
    spark.stop()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traffic_sql", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="number of simulations to compare")
    parser.add_argument("--commits", type=int, help="time both on this many commits")
    parser.add_argument("--snapshots", metavar="FOLDER", help="time both on these snapshots")
    options = parser.parse_args()
    if options.snapshots:
        time_both(options.snapshots)
    elif options.commits:
        size = Size(max(1, options.commits // (PARTITIONS * PASSES)), PARTITIONS, PASSES)
        with tempfile.TemporaryDirectory(prefix="rackward-traffic-") as folder:
            in_new_process(generate, size, folder)
            print(f"{size.commits:,} commits")
            error = time_both(folder) / true_bytes(size) - 1
            print(f"bytes off by {error:+.4%}")
    else:
        sys.exit(not compare(options.seeds))


if __name__ == "__main__":
    main()
