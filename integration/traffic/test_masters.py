"""The same tables from a local Spark, a Spark cluster and Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration.support.spark_cluster import spark_cluster, spark_connect
from integration.support.traffic import SHORT_RUN, SHORT_RUN_JAVA, table_rows, write_snapshots
from rack_traffic.schemas import HOURLY, WHAT_IF
from tests.support.traffic_truth import Fault, observe, simulate

SECONDS = 280


def rackward(*arguments: str, **environment: str) -> None:
    """Run a traffic command. Raise AssertionError with its output if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "rackward.cli.main", "traffic", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cluster_of_two_workers_gives_the_same_tables(tmp_path: Path) -> None:
    snapshots = write_hour(tmp_path)
    (tmp_path / "cluster").mkdir()
    small = ("--driver-memory", "1g", *SHORT_RUN, "--conf", "spark.sql.shuffle.partitions=4")
    with spark_cluster(tmp_path / "cluster") as master:
        options = (
            *(*small, "--master", master, "--conf", "spark.executor.memory=600m"),
            *("--conf", f"spark.executor.extraJavaOptions={SHORT_RUN_JAVA}"),
        )
        for command in ("run", "what-if"):
            rackward(
                command,
                str(snapshots),
                str(tmp_path / "remote"),
                *options,
                PYSPARK_PYTHON=sys.executable,
            )
        executors = {
            log.parent.parent.name for log in (tmp_path / "cluster").glob("work-*/app-*/*")
        }
        assert len(executors) >= 2, "only one worker ran executors"
    check_against_local_spark(snapshots, tmp_path, "--conf", "spark.sql.shuffle.partitions=4")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_spark_connect_gives_the_same_tables(tmp_path: Path) -> None:
    snapshots = write_hour(tmp_path)
    with spark_connect(tmp_path) as server:
        for command in ("run", "what-if"):
            rackward(command, str(snapshots), str(tmp_path / "remote"), "--master", server)
    check_against_local_spark(snapshots, tmp_path)


def write_hour(folder: Path) -> Path:
    """Write snapshots of an hour, without the optional table."""
    faults = frozenset({Fault.DUPLICATES, Fault.LATE, Fault.RECREATED})
    write_snapshots(folder / "snapshots", observe(simulate(7, hours=1, faults=faults), every=120))
    return folder / "snapshots"


def check_against_local_spark(snapshots: Path, folder: Path, *more: str) -> None:
    """Raise AssertionError unless the tables in ``remote`` equal those of a local Spark."""
    small = ("--driver-memory", "1g", *SHORT_RUN, *more, "--master", "local[2]")
    for command in ("run", "what-if"):
        rackward(command, str(snapshots), str(folder / "local"), *small)
    for table, schema in (("hourly", HOURLY), ("what_if", WHAT_IF)):
        local = table_rows(folder / "local" / table, schema.names)
        assert len(local) > 30
        assert table_rows(folder / "remote" / table, schema.names) == local
