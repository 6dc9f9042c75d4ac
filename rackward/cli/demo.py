"""``rackward demo``: the options, the cluster to run on, and the exit status."""

from __future__ import annotations

import os
import time
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rackward.bench.demo import DEMO_STRATEGIES, DemoResult, demo_batch, demo_result
from rackward.bench.measured import Progress
from rackward.bench.results import Options
from rackward.bench.runner import BatchRunner
from rackward.bench.sites import existing_site, log_folder, own_site
from rackward.cli.commands import single_command
from rackward.cli.demo_output import print_introduction, print_result, progress_on
from rackward.cli.output import check_folder
from rackward.testing.cluster import DEFAULT_RACKS


class ClusterType(StrEnum):
    """Where the demo's own cluster runs."""

    LOCAL = "local"
    DOCKER = "docker"


EPILOG = """
\b
Examples:
  rackward demo
  rackward demo --seed 2 --output demo.json

Exit status: 0 success; 1 a group with an assignor of rackward was not optimal after a rebalance;
2 error; 130 interrupted with Ctrl-C.

The JSON of --json and --output has the cluster, is_optimal and, for each strategy, a result in the
form of the results of "rackward bench run". Bytes are integers, shares are between 0 and 1.
"""


app = single_command()


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
    if output is not None:
        check_folder("--output", output)
    console = Console(stderr=as_json)
    options = Options(
        seed=seed, partitions=partitions, rate=rate, step_seconds=step_seconds, price=price
    )
    with (
        log_folder(keep_logs) as logs,
        progress_on(console, time.monotonic, os.environ) as progress,
    ):
        print_introduction(console, own_cluster=bootstrap_server is None)
        if bootstrap_server is None:
            docker = cluster is ClusterType.DOCKER
            result = _on_own_cluster(options, docker, logs, progress)
        else:
            result = _on_existing_cluster(options, bootstrap_server, logs, progress)
    print_result(result, console)
    if as_json:
        typer.echo(result.to_json(), nl=False)
    if output is not None:
        output.write_text(result.to_json(), encoding="utf-8")
    if not result.is_optimal:
        raise typer.Exit(1)


def _on_own_cluster(options: Options, docker: bool, logs: Path, progress: Progress) -> DemoResult:
    racks = sorted(set(DEFAULT_RACKS))
    batch = demo_batch(racks, own_cluster=True)
    # The processes of the groups import for seconds: meanwhile the cluster starts.
    with (
        closing(BatchRunner(batch, options, logs, progress)) as runner,
        own_site(DEFAULT_RACKS, len(DEMO_STRATEGIES), logs, progress, docker=docker) as site,
    ):
        results = runner.run(site)
        progress.status("Stopping the brokers")
    return demo_result(site, batch, results, options.price)


def _on_existing_cluster(
    options: Options, bootstrap_server: str, logs: Path, progress: Progress
) -> DemoResult:
    site = existing_site(bootstrap_server)
    batch = demo_batch(site.rack_names, own_cluster=False)
    with closing(BatchRunner(batch, options, logs, progress)) as runner:
        return demo_result(site, batch, runner.run(site), options.price)
