"""``rackward demo``: the options, the cluster to run on, and the exit status."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rackward.clusters import Cluster, DockerCluster, LocalCluster
from rackward.clusters.base import DEFAULT_RACKS
from rackward.demo import DemoError
from rackward.demo.environment import Environment, existing_cluster
from rackward.demo.metrics import STRATEGIES
from rackward.demo.output import (
    SCHEMA,
    ProgressReporter,
    print_introduction,
    print_result,
    progress_reporter,
    to_json,
)
from rackward.demo.runner import DemoRunner, Options
from rackward.measurement.meter import client_racks


class ClusterType(StrEnum):
    """Where the demo's own cluster runs."""

    LOCAL = "local"
    DOCKER = "docker"


EPILOG = f"""
\b
Examples:
  rackward demo
  rackward demo --seed 2 --output demo.json

Exit status: 0 success; 1 a group with an assignor of rackward was not optimal after a rebalance;
2 error; 130 interrupted with Ctrl-C.

The JSON of --json and --output (bytes are integers, shares are between 0 and 1):

\b
{SCHEMA}
"""


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=EPILOG)
def demo(
    cluster: Annotated[
        ClusterType, typer.Option(help="Run the demo's own Kafka as local processes or in Docker.")
    ] = ClusterType.LOCAL,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Use an existing cluster, whose brokers must have broker.rack set. Its brokers "
            "and leaders are left alone: steps that would disturb them are skipped, and bytes are "
            "estimated. The demo's topic and groups are deleted at the end.",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print JSON, and only JSON, to stdout; progress and tables go to stderr.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            dir_okay=False,
            help="Write the JSON to FILE.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Random seed for the order of leaders, the leaders that move and the broker that "
            "dies.",
        ),
    ] = 1,
    partitions: Annotated[
        int, typer.Option(metavar="N", min=6, max=600, help="Number of partitions of the topic.")
    ] = 72,
    rate: Annotated[
        float,
        typer.Option(metavar="MB", min=0.1, max=20, help="Rate of the producer in MB per second."),
    ] = 2.0,
    step_seconds: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=1, max=600, help="Seconds of steady reading in each step."
        ),
    ] = 3.0,
    price: Annotated[
        float,
        typer.Option(
            metavar="PRICE",
            min=0,
            help="Price, in dollars, of 1 GB that crosses racks, both directions included.",
        ),
    ] = 0.02,
    keep_logs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", file_okay=False, help="Keep the logs of brokers and groups in DIR."
        ),
    ] = None,
) -> None:
    """Show what rackward does and saves: four consumer groups on one Kafka in three racks.

    Starts six brokers in three racks, creates a topic, produces to it, and lets four groups of
    six members read it: with kafka-python's Range and CooperativeSticky assignors, and with
    rackward's. All groups meet the same events at the same time: members start, a tenth of the
    leaders move, a member leaves, a member joins, a broker dies and returns. The brokers count
    the bytes that cross from one rack to another, which cloud providers bill.

    Kafka and a Java runtime are downloaded at the first use; nothing else is needed.
    """
    if bootstrap_server is not None and cluster is ClusterType.DOCKER:
        raise typer.BadParameter("--bootstrap-server and --cluster docker exclude each other")
    if output is not None and not output.absolute().parent.is_dir():
        raise DemoError(
            f"--output {output}: the folder {output.absolute().parent} does not exist; create it"
        )
    console = Console(stderr=as_json)
    with (
        _log_folder(keep_logs) as logs,
        progress_reporter(console, time.monotonic, os.environ) as progress,
    ):
        options = Options(
            partitions=partitions,
            rate=rate * 1e6,
            step_seconds=step_seconds,
            seed=seed,
            price_per_gb=price,
            logs=logs,
        )
        print_introduction(console, own_cluster=bootstrap_server is None)
        with closing(DemoRunner(options, progress)) as runner:
            if bootstrap_server is not None:
                result = runner.run(existing_cluster(bootstrap_server))
            else:
                with _own_cluster(cluster, progress, logs) as environment:
                    result = runner.run(environment)
                    progress.status("Stopping the brokers")
    print_result(result, console)
    if as_json:
        typer.echo(to_json(result), nl=False)
    if output is not None:
        output.write_text(to_json(result), encoding="utf-8")
    if not result.is_optimal:
        raise typer.Exit(1)


@contextmanager
def _own_cluster(
    cluster_type: ClusterType, progress: ProgressReporter, logs: Path
) -> Iterator[Environment]:
    """Start a cluster with a listener per strategy and rack; write the brokers' logs at the end."""
    progress.status("Starting Kafka")
    is_local = cluster_type is ClusterType.LOCAL
    strategies = [strategy.key for strategy in STRATEGIES]
    cluster: Cluster
    with (LocalCluster if is_local else DockerCluster)(
        DEFAULT_RACKS,
        client_racks=client_racks(strategies, sorted(set(DEFAULT_RACKS))),
        server_properties={
            # There are 13 listeners per broker, so one network thread for each is enough.
            "num.network.threads": "1",
            # The members of a group start within a second, so they form it in one rebalance.
            "group.initial.rebalance.delay.ms": "1000",
            # By default 9 s pass until the partitions of a dead broker get new leaders.
            "broker.session.timeout.ms": "6000",
        },
        progress=progress.log,
    ) as cluster:
        try:
            racks = {broker: rack for broker, rack in cluster.racks.items() if rack is not None}
            description = "a local cluster" if is_local else "a Docker cluster"
            yield Environment(description, cluster.bootstrap_servers, racks, cluster)
        finally:
            for broker in cluster.racks:
                (logs / f"broker-{broker}.log").write_text(cluster.log(broker), encoding="utf-8")


@contextmanager
def _log_folder(keep: Path | None) -> Iterator[Path]:
    """Yield the folder for logs: ``keep``, or a temporary folder that is removed at the end."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="rackward-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
