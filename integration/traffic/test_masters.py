"""The same tables from a local Spark, a standalone Spark cluster and Spark Connect.

The cluster and the Connect server run in processes on the loopback interface.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

from integration.support.traffic import SHORT_RUN, SHORT_RUN_JAVA, table_rows
from rack_traffic.schemas import HOURLY, WHAT_IF
from rack_traffic.session import DELTA_LAKE, find_java, minor
from tests.support.traffic_frames import write_snapshots
from tests.support.traffic_truth import Fault, observe, simulate

TIMEOUT = 120.0


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Start a master and workers, and yield the master's URL.

    All processes have exited afterwards; their files are in ``folder``.
    """
    home = find_java(os.environ)
    environment = os.environ | {"JAVA_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    url = f"spark://127.0.0.1:{_free_port()}"
    started = []
    try:
        host, port = url.removeprefix("spark://").split(":")
        address = ("--host", host, "--webui-port", "0")
        started.append(
            _start(folder / "master.log", environment, "master.Master", *address, "--port", port)
        )
        _wait_for(folder / "master.log", "I have been elected leader", 1)
        resources = ("--cores", "1", "--memory", "1g")
        for number in range(workers):
            work = ("--work-dir", str(folder / f"work-{number}"))
            log = folder / f"worker-{number}.log"
            started += [_start(log, environment, "worker.Worker", *address, *resources, *work, url)]
        _wait_for(folder / "master.log", "Registering worker", workers)
        yield url
    finally:
        for process in reversed(started):
            # The process group: executors are children of workers.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            try:
                process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def spark_connect(folder: Path) -> Iterator[str]:
    """Start a Spark Connect server with two threads, and yield its address."""
    home = find_java(os.environ)
    port = _free_port()
    environment = os.environ | {
        "JAVA_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    command = [
        *(str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--driver-memory", "1g", "--packages", DELTA_LAKE[minor(pyspark.__version__)]),
        *(word for pair in settings.items() for word in ("--conf", "=".join(pair))),
        "spark-internal",
    ]
    log = folder / "connect.log"
    with log.open("wb") as file:
        # The server creates a folder of artifacts in its working folder.
        server = subprocess.Popen(
            command,
            cwd=folder,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        _wait_for(log, "Spark Connect server started", 1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(TIMEOUT)


def _start(
    log: Path, environment: dict[str, str], program: str, *arguments: str
) -> subprocess.Popen[bytes]:
    command = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with log.open("wb") as file:
        return subprocess.Popen(
            [str(command), f"org.apache.spark.deploy.{program}", *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def _wait_for(log: Path, text: str, count: int) -> None:
    """Wait until the log contains ``text`` so many times; TimeoutError after TIMEOUT seconds."""
    deadline = time.monotonic() + TIMEOUT
    while log.read_text(errors="replace").count(text) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{text!r} was not logged {count} times in {TIMEOUT:.0f} s:\n{log.read_text()}"
            )
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind(("127.0.0.1", 0))
        return int(candidate.getsockname()[1])


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
    """Write snapshots of an hour."""
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
