"""Compares the traffic pipeline with another program: DuckDB's SQL after docs/traffic.md.

``python -m benchmarks.traffic_sql`` computes the table PARTITION_HOURS of generated snapshots with
all faults, with 20 seeds, by both programs, and compares it row for row. ``--commits 10000000``
times the SQL instead, on the data of ``benchmarks.traffic``; ``--snapshots FOLDER`` on existing
data. Exit status 1 if the tables differ.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from benchmarks.process_tree import cpu_seconds
from benchmarks.traffic_data import Size, true_bytes, write_snapshots
from rack_traffic.options import EstimationOptions
from rack_traffic.pipeline import Snapshots, partition_hours
from rack_traffic.session import SparkOptions, spark_session
from rack_traffic.snapshot_tables import arrow_schema
from tests.support.oracles import traffic_sql
from tests.support.traffic_truth import Fault, observe, simulate

SPARK = SparkOptions("local[2]", "4g")
MAX_LINES = 20
PARTITIONS, PASSES = 500, 50


def write_seed(seed: int, root: Path) -> None:
    """Write the snapshots of a simulation with all faults below ``root``."""
    for table, rows in observe(simulate(seed, faults=frozenset(Fault)), every=60).items():
        schema = arrow_schema(table)
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


def time_sql(root: str) -> int:
    """Print how long the SQL takes for the snapshots below ``root``; return the bytes read."""
    cpu, start = cpu_seconds(), time.perf_counter()
    connection = traffic_sql.connect(root)
    connection.execute("SET threads = 2")
    query = traffic_sql.partition_hours(connection)
    counted = f"SELECT sum(bytes) FILTER (kind = 'consume')::BIGINT, count(*) FROM ({query})"
    ((size, rows),) = connection.execute(counted).fetchall()
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    print(f"DuckDB: {rows:,} rows in {seconds:.1f} s ({cpu:.1f} s of CPU)", flush=True)
    return int(size)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traffic_sql", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="number of simulations to compare")
    parser.add_argument("--commits", type=int, help="time the SQL on this many commits")
    parser.add_argument("--snapshots", metavar="FOLDER", help="time the SQL on these snapshots")
    parser.add_argument("--generate", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.snapshots:
        time_sql(options.snapshots)
    elif options.commits:
        size = Size(max(1, options.commits // (PARTITIONS * PASSES)), PARTITIONS, PASSES)
        if options.generate:
            spark = spark_session(SPARK)
            write_snapshots(spark, size, options.generate)
            spark.stop()
            return
        with tempfile.TemporaryDirectory(prefix="rackward-traffic-") as folder:
            # In another process, whose memory and CPU time do not count.
            command = [sys.executable, "-m", "benchmarks.traffic_sql", "--generate", folder]
            subprocess.run([*command, "--commits", str(options.commits)], check=True)
            print(f"{size.commits:,} commits")
            error = time_sql(folder) / true_bytes(size) - 1
            print(f"bytes off by {error:+.4%}")
    else:
        sys.exit(not compare(options.seeds))


if __name__ == "__main__":
    main()
