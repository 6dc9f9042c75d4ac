"""``rackward placement throttle``: the replication throttle that is in force, and its removal."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from rackward.cli.options import ClusterOptions, RunOptions
from rackward.cli.output import confirm, print_json, require_confirmation, table_console
from rackward.reassignment.throttle import ReplicationThrottle, ThrottleSettings

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

"""


class ThrottleResult(msgspec.Struct, frozen=True):
    """Whether the settings were removed; ``in_force`` in words, null: there is no throttle."""

    removed: bool
    in_force: str | None


RESULTS = (ThrottleResult, ThrottleSettings)


def throttle(
    *,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove",
            help="Delete all settings that throttle replication, whichever tool has made them.",
        ),
    ] = False,
    run: RunOptions,
    cluster: ClusterOptions,
) -> None:
    """Show the replication throttle that is in force, or remove it."""
    if remove:
        require_confirmation(run)
    console = table_console(run.as_json)
    with cluster.connect() as admin:
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
        removed = remove and settings.in_force and not run.dry_run
        if removed:
            confirm("Remove it?", run.yes)
            throttle.remove_all(settings)
            console.print("Removed.", style="green")
    if run.as_json:
        print_json("placement throttle", ThrottleResult(removed, settings.summary), settings)
