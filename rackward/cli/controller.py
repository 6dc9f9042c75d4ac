"""``rackward controller``: keep intents, answer for placements, lay leaders out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from placement_core import InvalidOptionError
from placement_core.locators import RackLocator
from placement_core.placers import ReplicaPlacer, load_placer
from rackward.cli import options
from rackward.cli.connect import read_config_file
from rackward.cli.console import logged
from rackward.controller.config import Settings, SettingsError, read_settings
from rackward.rack_locators import load_locator

EPILOG = """
One process for a cluster; a second one stands by, and takes over within seconds where the first
is gone. Ctrl-C ends it; what it has begun, the next one goes on with.

\b
The file (YAML, JSON or TOML); only "cluster" must be there:
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
  leaders:
    every: off
    groups: [orders]
    least_gain: 0.05

Exit status: 2 where it could not begin, with the reason in one line; 130 after Ctrl-C.
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=EPILOG)
def controller(
    config: Annotated[
        Path, typer.Option("--config", metavar="FILE", help="The controller's settings: see below.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Read the settings, say what is wrong, and end.")
    ] = False,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Watch over a cluster: fill the placeholders of under-replicated topics, and answer for
    placements.

    Topics made by rackward topics create --allow-under-replicated get their missing replicas when
    brokers join, racks in mind. create_replica_placement (KIP-879) is answered with the configured
    placer: see rackward placement suggest. Health and Prometheus metrics are on a port.
    """
    try:
        from rackward.controller.app import Controller, Plugins
    except ImportError as error:
        raise InvalidOptionError(
            f"the controller needs {error.name}: pip install 'rackward[controller]'"
        ) from error

    settings = read_settings(config, read_config_file)
    plugins = Plugins(*_plugins(settings, config))
    if check:
        typer.echo(f"{config}: sound")
        return
    with logged("rackward"):
        Controller(settings, plugins, timeout).run()


def _plugins(settings: Settings, path: Path) -> tuple[Callable[[], ReplicaPlacer], RackLocator]:
    def placer() -> ReplicaPlacer:
        return load_placer(settings.placer, settings.placer_properties)

    try:
        placer()
        return placer, load_locator(settings.locator, settings.locator_properties)
    except InvalidOptionError as error:
        raise SettingsError(f"{path}: placement: {error}") from error
