"""Traffic collectors in tests, and a state of the cluster that does not change meanwhile."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

from pyarrow import dataset

from integration.support.confluent import StockConfluent
from placement_core import ClusterView
from rackward.collector import ClusterSource
from rackward.kafka import AdminConnection, connect
from rackward.testing import Cluster
from rackward.testing.admin import RunningBrokers
from rackward.testing.kafka_jars import default_version
from tests.support.waiting import TEST_TIMEOUT, wait_until

Rows = list[dict[str, Any]]

State = TypeVar("State")
Result = TypeVar("Result")

OFFSETS = "__consumer_offsets"
ATTEMPTS = 10


def read_table(root: Path, table: str) -> Rows:
    """Return all rows of a table that was collected to a folder, without their date."""
    rows: Rows = dataset.dataset(root / table, format="parquet").to_table().to_pylist()
    return rows


def source(cluster: Cluster, name: str = "here", **settings: Any) -> ClusterSource:
    """Return the source for a collector of this cluster."""
    return ClusterSource(name, {"bootstrap.servers": cluster.bootstrap_servers}, **settings)


def open_source(cluster_source: ClusterSource) -> AdminConnection:
    """Connect to a source."""
    return connect(cluster_source.properties, timeout=TEST_TIMEOUT)


def with_stable_state(
    state: Callable[[], State], read: Callable[[], Result]
) -> tuple[State, Result]:
    """Return the ``state``, which was the same before and after ``read``, and the result of it.

    On a busy machine leaders move by themselves, and then groups may rebalance. The read is
    repeated until the state does not change during it.
    """
    for _ in range(ATTEMPTS):
        before, result = state(), read()
        if state() == before:
            return before, result
    raise AssertionError(f"the state changed during each of {ATTEMPTS} reads")


def layout(cluster: Cluster, topic: str) -> ClusterView:
    """Return the view of the topic and of __consumer_offsets when all running brokers agree on it.

    Every running broker is in it, so none is fenced.
    """
    running = {node.id for node in cluster._running_nodes()}
    views: list[ClusterView] = []

    def agreed() -> bool:
        # Brokers apply a change of the metadata one after another.
        views[:] = [
            RunningBrokers([port]).view([topic, OFFSETS]) for port in cluster._running_ports()
        ]
        return all(view == views[0] for view in views) and running <= views[0].racks().keys()

    wait_until(agreed, TEST_TIMEOUT, f"all brokers have the same metadata of {topic}")
    return views[0]


COLLECT = """
import runpy
from rackward.collector import sinks

sinks.SNAPSHOTS_PER_FILE = 1
runpy.run_module("rackward.cli.main", run_name="__main__")
"""


def collect(*arguments: str, log: Path | None = None) -> subprocess.Popen[str]:
    """Start ``rackward traffic collect`` as a process with piped output.

    Each snapshot has its own file. With ``log``, stderr goes to this file, which can be read
    while the process runs.
    """
    with nullcontext(subprocess.PIPE) if log is None else log.open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-c", COLLECT, "traffic", "collect", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


librdkafka = StockConfluent("range")
new_protocol = StockConfluent(None)
"""Members of groups of the new consumer protocol (KIP-848)."""


def has_new_protocol() -> bool:
    """Return whether brokers of the tested version have the new consumer protocol.

    In 3.9 it is early access, and clients of today do not use its first version.
    """
    return int(default_version().partition(".")[0]) >= 4
