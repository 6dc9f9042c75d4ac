"""Groups of subcommands, such as ``rackward topics``."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


class _WholeSummaries(TyperGroup):
    """A group whose help shows the first sentence of each subcommand in full.

    Typer would cut it to the width of the terminal.
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(limit=1000))
                    for name in self.list_commands(ctx)
                    if (command := self.get_command(ctx, name)) is not None
                ]
            )


def command_group(summary: str) -> typer.Typer:
    """Return a group without subcommands yet; ``summary`` is its help."""
    group = typer.Typer(
        cls=_WholeSummaries,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        help=summary,
    )
    # Without a callback, typer would merge a single command into the group.
    group.callback()(lambda: None)
    return group
