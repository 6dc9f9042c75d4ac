"""``rackward rack``: the rack that a consumer would find here, and where it found it."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated

import typer

from assignors.rack_discovery import discover
from assignors.rack_discovery.resolve import (
    FILE_VARIABLE,
    FROM_VARIABLE,
    GROUP,
    NAMES,
    RACK_VARIABLE,
    Search,
    search,
    sources,
)
from rackward.cli import options
from rackward.cli.console import print_json, stderr, stdout

EPILOG = f"""
Asked in this order: {RACK_VARIABLE}, the rack itself; {FILE_VARIABLE}, a file with the rack, or
FILE#KEY for a label in it; {FROM_VARIABLE}, a name as --from takes it; the plug-ins of
{GROUP}. A cloud's metadata service is where RACKWARD_METADATA_ENDPOINT says, else at the
cloud's address.

Exit status: 0 found; 1 not found, with the reason on stderr; 2 an error of usage.

\b
JSON: {{schema_version: 1, command, rack, source,
 failures: [{{source, why}}], silent: [source, ...]}}
"""

From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="NAME", help=f"Ask this source alone: one of {', '.join(NAMES)}"
    ),
]


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=EPILOG)
def rack(name: From = None, as_json: options.Json = False) -> None:
    """Print the rack that a consumer which is given none would find here.

    The rack alone goes to stdout, and whose it is to stderr. Nothing is asked of a cloud, and no
    command is run, unless it is named.
    """
    found = search(sources(os.environ) if name is None else [discover(name)])
    _tell(found)
    if as_json:
        print_json("rack", asdict(found))
    elif found.rack is not None:
        stdout().print(found.rack)
    if found.rack is None:
        raise typer.Exit(1)


def _tell(found: Search) -> None:
    console = stderr()
    for failure in found.failures:
        console.print(f"No rack from {failure.source}, which {failure.why}.", style="yellow")
    for source in found.silent:
        console.print(f"No rack from {source}, which knows of none.")
    if found.rack is not None:
        console.print(f"From {found.source}.")
    elif not found.failures and not found.silent:
        console.print(
            f"No rack: {RACK_VARIABLE}, {FILE_VARIABLE} and {FROM_VARIABLE} are not set, and there"
            f" is no plug-in of {GROUP}."
        )
    else:
        console.print("A consumer here starts without a rack.")
