"""``rackward traffic collect``: snapshots of live clusters, to files or to a topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from assignors.connection import server_list
from placement_core import InvalidOptionError
from rackward.admin import AdminConnection, connect
from rackward.cli import options
from rackward.cli.connect import read_config_file
from rackward.cli.console import for_people, logged, print_json, table
from rackward.collector import (
    ClusterSource,
    Collector,
    Outcome,
    Patterns,
    Selection,
    Sink,
    read_rack_map,
    read_sources,
)

# ---- What a collection says of itself: lines while it goes on, and what it came to.


def show_outcomes(outcomes: Sequence[Outcome], as_json: bool) -> None:
    """A row for each cluster, and what its last attempt failed of; or JSON."""
    if as_json:
        print_json("traffic collect", {"clusters": [asdict(each) for each in outcomes]})
        return
    console: Console = for_people(as_json)
    shown = table("Collected")
    for name in ("cluster", "snapshots", "failures", "requests", "rows", "faults"):
        shown.add_column(name, justify="left" if name == "cluster" else "right")
    for each in outcomes:
        shown.add_row(
            each.cluster,
            *map(
                str,
                (
                    each.snapshots,
                    each.failures,
                    each.requests,
                    sum(each.rows.values()),
                    each.faults,
                ),
            ),
        )
    console.print(shown)
    for each in outcomes:
        if each.error is not None:
            console.print(f"{each.cluster}: the last attempt failed: {each.error}")


COLLECT_EPILOG = """
Exit status: 0 done; 1 where no snapshot of one of the clusters could be taken; 2 where it could
not begin, with the reason in one line; 130 after Ctrl-C, which finishes what is being written.

\b
The file of --clusters (YAML, JSON or TOML):
  clusters:
    prod-east:
      command_config: prod-east.properties
      bootstrap_servers: kafka-1:9092,kafka-2:9092
      requests_per_second: 10
      exclude_groups: [test-*]
      racks: {10.1.0.0/16: use1-az1, 10.2.0.0/16: use1-az2}
      reports_topic: rackward-client-reports

\b
JSON: {schema_version: 1, command,
 clusters: [{cluster, snapshots, failures, requests, faults, rows: {table: rows}, error}]}
"""

_SOURCES = "What to ask"
_OUTPUT = "Where to"
_TIMES = "When"


def collect(
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster",
            metavar="NAME=HOST:PORT,...",
            help="A cluster and the name for its rows; may be given several times.",
            rich_help_panel=_SOURCES,
        ),
    ] = None,
    command_config: options.CommandConfig = None,
    clusters: Annotated[
        Path | None,
        typer.Option(
            "--clusters",
            metavar="FILE",
            help="A file of clusters, each with settings of its own: see below.",
            rich_help_panel=_SOURCES,
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="These groups only; * stands for any letters. Default: all.",
            rich_help_panel=_SOURCES,
        ),
    ] = None,
    exclude_groups: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="But not these groups.", rich_help_panel=_SOURCES),
    ] = None,
    topics: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...", help="These topics only, likewise.", rich_help_panel=_SOURCES
        ),
    ] = None,
    exclude_topics: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="But not these topics.", rich_help_panel=_SOURCES),
    ] = None,
    rack_map: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Racks of clients that do not say theirs: host, address or subnet to rack, in "
            "YAML, JSON or TOML.",
            rich_help_panel=_SOURCES,
        ),
    ] = None,
    reports_topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            help="Take exact bytes that members report to this topic of their cluster as well.",
            rich_help_panel=_SOURCES,
        ),
    ] = None,
    requests_per_second: Annotated[
        float,
        typer.Option(
            metavar="RATE",
            min=0.01,
            help="The most that each cluster is asked.",
            rich_help_panel=_SOURCES,
        ),
    ] = 50.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Append Parquet files to this folder.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    snapshots_per_file: Annotated[
        int,
        typer.Option(
            metavar="COUNT",
            min=1,
            max=10_000,
            help="Fewer and larger files; snapshots not yet in one are lost if this is killed.",
            rich_help_panel=_OUTPUT,
        ),
    ] = 1,
    output_topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            help="Send to this topic instead, for the streaming job.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    output_bootstrap_server: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...",
            help="The topic's cluster.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    output_command_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="How to connect to it.", rich_help_panel=_OUTPUT),
    ] = None,
    interval: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.5, help="From one to the next.", rich_help_panel=_TIMES
        ),
    ] = 60.0,
    jitter: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Up to this share of the interval later, so that not all ask at once.",
            rich_help_panel=_TIMES,
        ),
    ] = 0.1,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Decides how much later within the jitter; the same seed, the same times.",
            rich_help_panel=_TIMES,
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="One of each cluster.", rich_help_panel=_TIMES)
    ] = False,
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="End after so long. Default: not before Ctrl-C.",
            rich_help_panel=_TIMES,
        ),
    ] = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
    as_json: options.Json = False,
) -> None:
    """Take snapshots of clusters: who is where, who reads what, and how far.

    Reads brokers, partitions, groups and committed offsets; changes nothing. Safe to run twice
    at once, to kill and to start again.
    """
    defaults = ClusterSource(
        name="",
        properties={},
        selection=Selection(
            Patterns(_names(groups), _names(exclude_groups)),
            Patterns(_names(topics), _names(exclude_topics)),
        ),
        requests_per_second=requests_per_second,
        reports_topic=reports_topic,
    )
    if rack_map is not None:
        defaults = replace(defaults, racks=read_rack_map(rack_map))
    properties = {} if command_config is None else read_config_file(command_config)
    sources = [
        replace(defaults, name=name, properties={**properties, "bootstrap.servers": servers})
        for name, servers in map(_named_cluster, cluster or ())
    ]
    if clusters is not None:
        sources += read_sources(
            clusters, read_config_file, replace(defaults, properties=properties)
        )
    if not sources:
        raise InvalidOptionError(
            "no cluster is named: give --cluster NAME=HOST:PORT, or --clusters FILE"
        )

    def open_source(source: ClusterSource) -> AdminConnection:
        return connect(source.properties, timeout=timeout)

    def sink() -> Sink:
        if output is not None and output_topic is None:
            return _files(output, snapshots_per_file)
        if output_topic is None or output is not None:
            raise InvalidOptionError("say where to, once: --output FOLDER, or --output-topic TOPIC")
        return _topic(output_topic, output_bootstrap_server, output_command_config, timeout)

    collector = Collector(sources, sink(), open_source, interval=interval, jitter=jitter, seed=seed)
    with logged("rackward.collector"):
        try:
            collector.run(once=once, duration=duration)
        finally:
            show_outcomes(collector.outcomes, as_json)
    if any(not each.snapshots for each in collector.outcomes):
        raise typer.Exit(1)


def _named_cluster(text: str) -> tuple[str, str]:
    name, equals, servers = text.partition("=")
    if not equals or not name.strip():
        raise InvalidOptionError(f"--cluster {text}: write NAME=HOST:PORT,...")
    server_list(servers, "--cluster")
    return name.strip(), servers


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _files(folder: Path, per_file: int) -> Sink:
    try:
        from rackward.collector.parquet_sink import ParquetSink
    except ImportError as error:
        raise InvalidOptionError(
            f"--output needs {error.name}: pip install 'rackward[collect]'"
        ) from error
    return ParquetSink(folder, per_file)


def _topic(topic: str, bootstrap_server: str | None, config: Path | None, timeout: float) -> Sink:
    from rackward.collector.topic_sink import TopicSink

    properties: dict[str, object] = {} if config is None else {**read_config_file(config)}
    if bootstrap_server is not None:
        server_list(bootstrap_server, "--output-bootstrap-server")
        properties["bootstrap.servers"] = bootstrap_server
    if "bootstrap.servers" not in properties:
        raise InvalidOptionError(
            f"where is topic {topic}: give --output-bootstrap-server HOST:PORT, or "
            "--output-command-config FILE"
        )
    return TopicSink(properties, topic, timeout)
