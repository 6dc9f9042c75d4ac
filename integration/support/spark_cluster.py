"""Sparks elsewhere, on the loopback interface: a cluster of a master and two workers, a server."""

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

from rack_traffic.session import find_java

SECONDS = 120.0


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Its master's URL. Every process has ended, and left nothing but ``folder``, afterwards."""
    home, _ = find_java(os.environ)
    environment = os.environ | {"JAVA_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    url = f"spark://127.0.0.1:{_free_port()}"
    started = []
    try:
        host, port = url.removeprefix("spark://").split(":")
        place = ("--host", host, "--webui-port", "0")
        started.append(
            _start(folder / "master.log", environment, "master.Master", *place, "--port", port)
        )
        _wait_for(folder / "master.log", "I have been elected leader", 1)
        size = ("--cores", "1", "--memory", "1g")
        for number in range(workers):
            work = ("--work-dir", str(folder / f"work-{number}"))
            log = folder / f"worker-{number}.log"
            started += [_start(log, environment, "worker.Worker", *place, *size, *work, url)]
        _wait_for(folder / "master.log", "Registering worker", workers)
        yield url
    finally:
        for process in reversed(started):
            # The whole group: executors are children of workers.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def spark_connect(folder: Path) -> Iterator[str]:
    """The address of a Spark Connect server of two threads; it has ended afterwards."""
    home, _ = find_java(os.environ)
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
    }
    command = [
        *(str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--driver-memory", "1g"),
        *(word for pair in settings.items() for word in ("--conf", "=".join(pair))),
        "spark-internal",
    ]
    log = folder / "connect.log"
    with log.open("wb") as file:
        # It leaves a folder of artifacts where it works.
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
        server.wait(SECONDS)


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


def _wait_for(log: Path, words: str, times: int) -> None:
    ends = time.monotonic() + SECONDS
    while log.read_text(errors="replace").count(words) < times:
        if time.monotonic() > ends:
            raise TimeoutError(
                f"no {words!r} ({times} times) in {SECONDS:.0f} s:\n{log.read_text()}"
            )
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
