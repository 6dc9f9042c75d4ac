"""``rackward rack``: the rack that a consumer on this host would use, and its source."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
import typer

from assignors.rack_discovery import discover
from assignors.rack_discovery.resolve import (
    FILE_VARIABLE,
    RACK_VARIABLE,
    SOURCE_NAMES,
    SOURCE_VARIABLE,
    SearchResult,
    search,
    sources,
)
from assignors.rack_discovery.sources import PLUGIN_GROUP
from rackward.cli import options
from rackward.cli.commands import single_command
from rackward.cli.output import escape_controls, print_json, stderr

EPILOG = f"""
\b
Examples:
  rackward rack
  rackward rack --from aws-zone-id

Sources, in this order: {RACK_VARIABLE} (the rack itself); {FILE_VARIABLE} (a file with the rack,
or FILE#KEY for a label in it); {SOURCE_VARIABLE} (a name as for --from); plug-ins of the entry
point {PLUGIN_GROUP}. RACKWARD_METADATA_ENDPOINT replaces the address of a cloud's metadata
service.

Exit status: 0 found; 1 not found (reason on stderr); 2 usage error (reason on stderr).

"""


class SourceFailure(msgspec.Struct, frozen=True):
    """A source that could not be read, and why."""

    source: str
    why: str


class FoundRack(msgspec.Struct, frozen=True):
    """The rack of this host and its source, null if there is none.

    failures, silent
        The sources before it that could not be read, and those that have no rack.
    """

    rack: str | None
    source: str | None
    failures: list[SourceFailure]
    silent: list[str]


app = single_command()


@app.command(epilog=EPILOG, results=(FoundRack,))
def rack(
    name: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="NAME", help=f"Use this source only: one of {', '.join(SOURCE_NAMES)}"
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print the rack that a consumer on this host uses if its configuration has none.

    Prints the rack to stdout and its source to stderr. Cloud metadata services and commands are
    used only if they are named.
    """
    result = search(sources(os.environ) if name is None else [discover(name)])
    _print_sources(result)
    if as_json:
        failures = [SourceFailure(source, reason) for source, reason in result.failures.items()]
        found = FoundRack(result.rack, result.source, failures, list(result.without_rack))
        print_json("rack", found)
    elif result.rack is not None:
        typer.echo(escape_controls(result.rack))
    if result.rack is None:
        raise typer.Exit(1)


def _print_sources(result: SearchResult) -> None:
    console = stderr()
    for source, reason in result.failures.items():
        console.print(f"No rack from {source}: it {reason}.", style="yellow")
    for source in result.without_rack:
        console.print(f"No rack from {source}: it has none.")
    if result.rack is not None:
        console.print(f"Source: {result.source}.")
    elif not result.failures and not result.without_rack:
        console.print(
            f"No rack: {RACK_VARIABLE}, {FILE_VARIABLE} and {SOURCE_VARIABLE} are not set, and "
            f"there is no plug-in of {PLUGIN_GROUP}."
        )
    else:
        console.print("A consumer on this host starts without a rack.")
