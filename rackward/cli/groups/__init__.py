"""``rackward groups``: what consumer groups read, and from where."""

from __future__ import annotations

import typer

from rackward.cli.groups import explain as groups_explain

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="See what consumer groups read from other racks, and why.",
)


@app.callback()
def _groups() -> None:
    # With this, a command of the only name is still called by its name.
    pass


app.command(epilog=groups_explain.EPILOG)(groups_explain.explain)
