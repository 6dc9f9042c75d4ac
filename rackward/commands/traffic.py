"""``rackward traffic``: what crosses racks, what it costs, and what would change it."""

from __future__ import annotations

import typer

from rackward.commands.traffic_collect import COLLECT_EPILOG, collect

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="See what crosses racks, what it costs, and what would change it.",
)
app.command(epilog=COLLECT_EPILOG)(collect)
