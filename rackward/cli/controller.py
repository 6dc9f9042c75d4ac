"""``rackward controller``: add missing replicas, serve placement requests, move leaders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from placement_core import InvalidOptionError, RackwardError
from placement_core.locators import RackLocator
from placement_core.placers import ReplicaPlacer, load_placer
from rackward.cli import options
from rackward.cli.commands import single_command
from rackward.cli.options import ClusterOptions, read_config_file
from rackward.cli.output import log_to_stderr
from rackward.config_files import ConfigError, properties_as_text
from rackward.controller.config import Placement, read_config
from rackward.rack_locators import load_locator

EPILOG = """
\b
Examples:
  rackward controller --config controller.yaml --check
  rackward controller --config controller.yaml
  rackward --context prod controller --config controller.yaml

One process per cluster is active; further ones are on standby and take over within seconds. Ctrl-C
stops it; the next process resumes what is in progress.

\b
The configuration file (YAML, JSON or TOML). Options override its "cluster";
without it, the cluster is that of the settings, as for other commands:
  cluster:
    bootstrap_servers: kafka-1:9092,kafka-2:9092
    command_config: client.properties
  placement:
    placer: rack-alternating
    properties: {seed: 7}
    locator: metadata
    locator_properties: {}
    ignore_racks: false
  under_replicated:
    allowed: false
    partitions_at_once: 100
    throttle: off
  service:
    listen: 127.0.0.1:9480
    ca_file: ca.pem
    cert_file: controller.pem
    key_file: controller.key
  health:
    listen: 127.0.0.1:9481
    ca_file: ca.pem
    cert_file: controller.pem
    key_file: controller.key
  leaders:
    follow: [orders]
    min_gain: 0.1
    min_rate: 1kB
    settle: 30s
    rest: 10m
    elections_per_hour: 1000
    max_imbalance: 1.0
    writers: ["a=60,b=40"]
  lead:
    groups: [payments, team-a-*]
    take_over: wait
    remove_static: false
    mapping: {10.0.1.0/24: az1}
    protocols: {}

Exit status: 2 error at the start (reason on stderr); 130 stopped with Ctrl-C.
"""

app = single_command()


@app.command(epilog=EPILOG)
def controller(
    context: typer.Context,
    config: Annotated[
        Path, typer.Option(metavar="FILE", help="The configuration file; see below.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Check the configuration file and exit.")
    ] = False,
    log_format: options.Logging = options.LogFormat.TEXT,
    *,
    cluster: ClusterOptions,
) -> None:
    """Run the controller of a cluster: add missing replicas, and serve placement requests.

    When brokers join, topics created with rackward topics create --allow-under-replicated get
    their missing replicas, by rack. The placement service answers create_replica_placement
    (KIP-879) with the configured placement strategy: see rackward placement suggest. A health port
    has Prometheus metrics.
    """
    try:
        from rackward.controller.app import Controller, Plugins, check_config
    except ImportError as error:
        raise InvalidOptionError(
            f"the controller needs {error.name}: pip install 'rackward[controller]'"
        ) from error

    sources = map(context.get_parameter_source, ("bootstrap_server", "command_config"))
    given = any(source is not None and source.name == "COMMANDLINE" for source in sources)
    settings = read_config(config, read_config_file, cluster.properties, overridden=given)
    plugins = Plugins(*_plugins(settings.placement, config))
    try:
        check_config(settings)
    except RackwardError as error:
        raise ConfigError(f"{config}: {error}") from error
    if check:
        typer.echo(f"{config}: valid")
        return
    with log_to_stderr("rackward", log_format):
        Controller(settings, plugins, cluster.timeout).run()


def _plugins(placement: Placement, path: Path) -> tuple[Callable[[], ReplicaPlacer], RackLocator]:
    def placer() -> ReplicaPlacer:
        return load_placer(placement.placer, properties_as_text(placement.properties))

    try:
        placer()
        properties = properties_as_text(placement.locator_properties)
        return placer, load_locator(placement.locator, properties)
    except InvalidOptionError as error:
        raise ConfigError(f"{path}: placement: {error}") from error
