"""``rackward demo``: the options, and the run from a cluster's start to the exit status."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rackward.clusters import LocalCluster
from rackward.clusters.base import Cluster
from rackward.demo.environment import Stage, doors, existing_stage
from rackward.demo.groups import DemoError
from rackward.demo.output import SCHEMA, Narrator, narrator_for, show, to_json
from rackward.demo.runner import Director, Options
from rackward.demo.steps import STRATEGIES

RACKS = ("a", "a", "b", "b", "c", "c")


class ClusterKind(StrEnum):
    """Where the demo's own cluster runs."""

    LOCAL = "local"
    DOCKER = "docker"


EPILOG = f"""
Exit status: 0; 1 where a group of ours was not at the proved optimum after a rebalance;
2 where the run broke off; 130 after Ctrl-C.

The file that --json writes (bytes are integers, shares run from 0 to 1):

\b
{SCHEMA}
"""


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=EPILOG)
def demo(
    cluster: Annotated[
        ClusterKind, typer.Option(help="Run the demo's own Kafka as processes or in Docker.")
    ] = ClusterKind.LOCAL,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Use a cluster that is there already. It must say its brokers' racks. Its "
            "brokers and leaders are left alone, so those steps are left out and bytes are "
            "estimated; the demo's topic and groups are deleted at the end.",
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", dir_okay=False, help="Write the result there; see below."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Decides the leaders' order, which of them move, and who dies.")
    ] = 1,
    partitions: Annotated[int, typer.Option(min=6, max=600, help="Partitions of the topic.")] = 72,
    rate: Annotated[
        float, typer.Option(min=0.1, max=20, help="MB per second that are produced.")
    ] = 2.0,
    step_seconds: Annotated[
        float, typer.Option(min=1, max=600, help="Steady reading per step, after its event.")
    ] = 5.0,
    price: Annotated[
        float, typer.Option(min=0, help="Dollars per GB that crosses racks, both ways together.")
    ] = 0.02,
    keep_logs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", file_okay=False, help="Keep the logs of brokers and groups there."
        ),
    ] = None,
) -> None:
    """Four consumer groups, one Kafka in three racks: who reads across racks, and what it costs.

    Starts six brokers in three racks, creates a topic and produces to it, and lets groups of
    six members read it: with kafka-python's Range and CooperativeSticky and with rackward's.
    All of them meet the same story: members start, a tenth of the leaders move, a member
    leaves, a member joins, a broker dies and returns. The brokers count the bytes.

    Needs nothing but Python: Kafka and a Java runtime are downloaded the first time.
    """
    console = Console()
    if bootstrap_server is not None and cluster is ClusterKind.DOCKER:
        raise typer.BadParameter("--bootstrap-server and --cluster exclude each other")
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise DemoError(f"--json {json_file}: there is no folder {json_file.absolute().parent}")
    with _logs(keep_logs) as logs:
        options = Options(
            partitions=partitions,
            rate=rate * 1e6,
            step_seconds=step_seconds,
            seed=seed,
            price_per_gb=price,
            logs=logs,
        )
        with narrator_for(console, time.monotonic, os.environ) as narrator:
            if bootstrap_server is not None:
                result = Director(existing_stage(bootstrap_server), options, narrator).run()
            else:
                with _own_stage(cluster, narrator, logs) as stage:
                    result = Director(stage, options, narrator).run()
                    narrator.now("Stopping the brokers")
    show(result, console)
    if json_file is not None:
        json_file.write_text(to_json(result), encoding="utf-8")
    if not result.at_optimum:
        raise typer.Exit(1)


@contextmanager
def _own_stage(kind: ClusterKind, narrator: Narrator, logs: Path) -> Iterator[Stage]:
    narrator.now("Starting a Kafka")
    client_racks = doors((strategy.key for strategy in STRATEGIES), sorted(set(RACKS)))
    with _start(kind, client_racks, narrator) as cluster:
        try:
            racks = {broker: rack for broker, rack in cluster.racks.items() if rack is not None}
            yield Stage(_NAMES[kind], cluster.bootstrap_servers, racks, cluster)
        finally:
            for broker in cluster.racks:
                (logs / f"broker-{broker}.log").write_text(cluster.log(broker), encoding="utf-8")


_NAMES = {
    ClusterKind.LOCAL: "a Kafka of its own",
    ClusterKind.DOCKER: "a Kafka of its own in Docker",
}


def _start(kind: ClusterKind, client_racks: tuple[str, ...], narrator: Narrator) -> Cluster:
    # One listener per strategy and rack: a thread for each is plenty here.
    properties = {"num.network.threads": "1"}
    if kind is ClusterKind.LOCAL:
        return LocalCluster(
            RACKS, client_racks=client_racks, server_properties=properties, progress=narrator.note
        )
    from rackward.clusters import DockerCluster

    return DockerCluster(
        RACKS, client_racks=client_racks, server_properties=properties, progress=narrator.note
    )


@contextmanager
def _logs(keep: Path | None) -> Iterator[Path]:
    """The folder for logs: the one that was asked for, or one that is removed at the end."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    folder = Path(tempfile.mkdtemp(prefix="rackward-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
