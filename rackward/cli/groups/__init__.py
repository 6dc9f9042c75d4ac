"""``rackward groups``: locality of consumer groups."""

from __future__ import annotations

import typer

from rackward.cli.groups import explain as groups_explain

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Explain why consumer groups read partitions from other racks.",
)


@app.callback()
def _groups() -> None:
    # Without a callback, typer would merge a single command into the group.
    pass


app.command(epilog=groups_explain.EPILOG)(groups_explain.explain)
