"""``rackward placement throttle``: the replication throttle that is in force, and its removal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rackward.cli import options
from rackward.cli.console import confirm, print_json, require_confirmation, table_console
from rackward.cli.options import ClusterOptions
from rackward.reassignment.throttle import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    Rates,
    ReplicationThrottle,
    ThrottleSettings,
)

EPILOG = """
\b
Examples:
  rackward placement throttle
  rackward placement throttle --remove

Shown are the settings that throttle replication, whichever tool has made them: the rates of all
brokers and of single ones, and the topics whose replicas are listed. A run of rackward (placement
apply, or the controller) marks its own. While that run goes on it sets its throttle again at its
next batch.

Exit status: 0 success; 1 declined at the prompt; 2 error (reason on stderr).

\b
JSON: {schema_version: 1, command, in_force: text or null, removed,
 of_rackward: [rate], leader_rate, follower_rate,
 brokers: [{id, leader_rate, follower_rate}],
 topics: [{name, leader_replicas, follower_replicas}],
 hidden_topics: [topic that this user may not read]};
 rates in bytes per second.
"""

COMMAND = "placement throttle"


def throttle(
    remove: Annotated[
        bool,
        typer.Option(
            "--remove",
            help="Delete all settings that throttle replication, whichever tool has made them.",
        ),
    ] = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Show the replication throttle that is in force, or remove it."""
    if remove:
        require_confirmation(yes, dry_run, None)
    console = table_console(as_json)
    with ClusterOptions(bootstrap_server, command_config, timeout).connect() as admin:
        throttle = ReplicationThrottle(admin)
        settings = throttle.read_all()
        if settings.in_force:
            console.print(
                f"A replication throttle is in force: {settings.text}.",
                style="yellow",
                soft_wrap=True,
                markup=False,
            )
        elif settings.not_read is None:
            console.print("No replication throttle is in force.")
        if settings.not_read is not None:
            console.print(
                f"Not known: {settings.not_read}.", style="yellow", soft_wrap=True, markup=False
            )
        removed = remove and settings.in_force and not dry_run
        if removed:
            confirm("Remove it?", yes)
            throttle.remove_all(settings)
            console.print("Removed.", style="green")
    if as_json:
        print_json(COMMAND, {"removed": removed, **_settings_json(settings)})


def _settings_json(settings: ThrottleSettings) -> dict[str, Any]:
    return {
        "in_force": settings.summary,
        "of_rackward": [marker.rate for marker in settings.default.markers],
        **_rates_json(settings.default.rates),
        "brokers": [
            {"id": broker, **_rates_json(rates)} for broker, rates in settings.overrides.items()
        ],
        "topics": [
            {
                "name": topic,
                "leader_replicas": values.get(LEADER_REPLICAS),
                "follower_replicas": values.get(FOLLOWER_REPLICAS),
            }
            for topic, values in sorted(settings.lists.items())
        ],
        "hidden_topics": list(settings.hidden),
    }


def _rates_json(rates: Rates) -> dict[str, int | None]:
    return {"leader_rate": rates.leader, "follower_rate": rates.follower}
