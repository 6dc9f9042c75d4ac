"""``rackward traffic collect`` and ``flows sample``: snapshots of clusters, and flow records."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from assignors.connection import server_list
from placement_core import InvalidOptionError
from rackward.cli import options
from rackward.cli.commands import command_group
from rackward.cli.options import read_config_file
from rackward.cli.output import escape_controls, log_to_stderr, print_json, stdout, table
from rackward.collector import (
    ClusterResult,
    ClusterSource,
    Collector,
    ParquetSink,
    Patterns,
    Selection,
    Sink,
    TopicSink,
    read_sources,
)
from rackward.flow_sampling import sample_flows
from rackward.groups.host_racks import HostRacks
from rackward.kafka import AdminConnection, connect

COLLECT_EPILOG = """
\b
Examples:
  rackward traffic collect --cluster prod=kafka:9092 -o snapshots
  rackward traffic collect --clusters clusters.yaml -o snapshots --once

Exit status: 0 success; 1 no snapshot of one of the clusters could be taken; 2 error at the start
(reason on stderr); 130 stopped with Ctrl-C, after the snapshot in progress has been written.

\b
The file for --clusters (YAML, JSON or TOML):
  clusters:
    prod-east:
      command_config: prod-east.properties
      bootstrap_servers: kafka-1:9092,kafka-2:9092
      requests_per_second: 10
      exclude_groups: [test-*]
      racks: {10.1.0.0/16: use1-az1, 10.2.0.0/16: use1-az2}
"""


class Collected(msgspec.Struct, frozen=True):
    """What was collected from each cluster."""

    clusters: Sequence[ClusterResult]


COLLECT_RESULTS = (Collected,)


def collect(
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=HOST:PORT,...]",
            help="Name of a cluster in the tables, and its bootstrap brokers, by default those of "
            "--bootstrap-server; may be repeated.",
        ),
    ] = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    clusters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with clusters and settings for each; see below.",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Only these groups; * matches any characters. Default: all groups.",
        ),
    ] = None,
    exclude_groups: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Exclude these groups; * matches any characters."),
    ] = None,
    topics: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Only these topics; * matches any characters. Default: all topics.",
        ),
    ] = None,
    exclude_topics: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Exclude these topics; * matches any characters."),
    ] = None,
    mapping: options.RackMapping = None,
    requests_per_second: Annotated[
        float,
        typer.Option(metavar="RATE", min=0.01, help="Maximum rate of requests to each cluster."),
    ] = 50.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Write Parquet files to this folder, beside existing ones.",
        ),
    ] = None,
    output_topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", help="Send snapshots to this topic instead, for traffic stream."
        ),
    ] = None,
    output_bootstrap_server: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...", help="Bootstrap brokers of the cluster of --output-topic."
        ),
    ] = None,
    output_command_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Connection settings of that cluster."),
    ] = None,
    interval: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.5,
            help="Time between the starts of two snapshots of a cluster.",
        ),
    ] = 60.0,
    once: Annotated[
        bool, typer.Option("--once", help="Take one snapshot of each cluster and exit.")
    ] = False,
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.0, help="Exit after this time. Default: run until Ctrl-C."
        ),
    ] = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
    as_json: options.Json = False,
) -> None:
    """Take snapshots of clusters: brokers, partitions, groups, members and committed offsets.

    Changes nothing on the clusters. Several collectors may run at once; a collector may be killed
    and started again.
    """
    if (output is None) == (output_topic is None):
        raise InvalidOptionError("give either --output FOLDER or --output-topic TOPIC")
    defaults = ClusterSource(
        name="",
        properties={},
        selection=Selection(
            Patterns(_split_names(groups), _split_names(exclude_groups)),
            Patterns(_split_names(topics), _split_names(exclude_topics)),
        ),
        racks=HostRacks.parse_option("--mapping", mapping),
        requests_per_second=requests_per_second,
    )
    properties = {} if command_config is None else read_config_file(command_config)
    sources = [
        replace(defaults, name=name, properties={**properties, "bootstrap.servers": servers})
        for name, servers in (_parse_cluster(text, bootstrap_server) for text in cluster or ())
    ]
    if clusters is not None:
        sources += read_sources(
            clusters, read_config_file, replace(defaults, properties=properties)
        )
    if not sources:
        raise InvalidOptionError(
            "no cluster: give --cluster NAME=HOST:PORT (may be repeated), --clusters FILE, or "
            "--cluster NAME with --bootstrap-server or RACKWARD_BOOTSTRAP_SERVER"
        )
    # Before the sink creates the output folder.
    _check_names(sources)

    def open_source(source: ClusterSource) -> AdminConnection:
        return connect(source.properties, timeout=timeout)

    sink: Sink
    if output is not None:
        sink = _file_sink(output)
    else:
        sink = _topic_sink(
            str(output_topic), output_bootstrap_server, output_command_config, timeout
        )
    collector = Collector(sources, sink, open_source, interval=interval)
    with log_to_stderr("rackward.collector"):
        try:
            collector.run(once=once, duration=duration)
        finally:
            _print_results(collector.results, as_json)
    if any(not each.snapshots for each in collector.results):
        raise typer.Exit(1)


def _parse_cluster(text: str, bootstrap_server: str | None) -> tuple[str, str]:
    name, equals, servers = text.partition("=")
    if not name.strip() or not (equals or bootstrap_server):
        raise InvalidOptionError(f"--cluster {text}: write NAME=HOST:PORT,...")
    if not equals:
        servers = str(bootstrap_server)
    server_list(servers, "--cluster")
    return name.strip(), servers


def _check_names(sources: Sequence[ClusterSource]) -> None:
    names = [source.name for source in sources]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidOptionError(
            f"two clusters have the name {repeated[0]!r}: give each cluster a name of its own"
        )


def _split_names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _file_sink(folder: Path) -> Sink:
    try:
        return ParquetSink(folder)
    except ImportError as error:
        raise InvalidOptionError(
            f"--output needs {error.name}: pip install 'rackward[collect]'"
        ) from error


def _topic_sink(
    topic: str, bootstrap_server: str | None, config: Path | None, timeout: float
) -> Sink:
    properties: dict[str, object] = {} if config is None else {**read_config_file(config)}
    if bootstrap_server is not None:
        server_list(bootstrap_server, "--output-bootstrap-server")
        properties["bootstrap.servers"] = bootstrap_server
    if "bootstrap.servers" not in properties:
        raise InvalidOptionError(
            f"--output-topic {topic} needs its cluster: give --output-bootstrap-server "
            "HOST:PORT, or --output-command-config FILE"
        )
    return TopicSink(properties, topic, timeout)


def _print_results(results: Sequence[ClusterResult], as_json: bool) -> None:
    """Print the counts of each cluster, and the error of its last attempt."""
    if as_json:
        print_json("traffic collect", Collected(results))
        return
    rows = table(title="Collected")
    for name in ("cluster", "snapshots", "failures", "requests", "rows", "faults"):
        rows.add_column(name, justify="left" if name == "cluster" else "right")
    for each in results:
        row_count = sum(each.rows.values())
        counts = (each.snapshots, each.failures, each.requests, row_count, each.faults)
        rows.add_row(escape_controls(each.cluster), *map(str, counts))
    console = stdout()
    console.print(rows)
    for each in results:
        if each.error is not None:
            console.print(f"{each.cluster}: the last attempt failed: {each.error}")


# ---- Flow records, from the kernel's own counters.

SAMPLE_EPILOG = """
\b
Examples:
  rackward traffic flows sample -o flows
  rackward traffic flows sample -o flows --interval 1 --duration 60

Needs Linux, root (CAP_NET_ADMIN), and sysctl -w net.netfilter.nf_conntrack_acct=1 before clients
and brokers connect. Reads the TCP connections of this network namespace: on a Docker host also
those of all containers, if br_netfilter is loaded. In another namespace:

\b
  nsenter --net=/proc/PID/ns/net rackward traffic flows sample -o flows

Exit status: 0 after --duration; 2 error (reason on stderr); 130 stopped with Ctrl-C, after the last
sample.
"""

flows_app = command_group("Flow records: what each connection sent, as the network saw it.")


@flows_app.command(epilog=SAMPLE_EPILOG)
def sample(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Write .json.gz files to this folder."
        ),
    ],
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Time between two samples.")
    ] = 5.0,
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.0, help="Exit after this time. Default: run until Ctrl-C."
        ),
    ] = None,
) -> None:
    """Write flow records of this machine's connections, from the kernel's counters (conntrack).

    For test clusters and demos; clouds have flow logs.
    """
    stop = threading.Event()
    # A signal ends the wait of this thread, and lets the other one finish its sample.
    with log_to_stderr("rackward.flow_sampling"), ThreadPoolExecutor(1) as pool:
        sampling = pool.submit(
            sample_flows, output, interval=interval, duration=duration, stop=stop
        )
        try:
            sampling.result()
        finally:
            stop.set()
            sampling.result()
