"""``rackward placement``: where replicas are, and where they should be."""

from __future__ import annotations

import typer

from rackward.commands import (
    placement_apply,
    placement_cancel,
    placement_check,
    placement_plan,
    placement_suggest,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Check where replicas are, and move them to where they should be.",
)
app.command(epilog=placement_check.EPILOG)(placement_check.check)
app.command(epilog=placement_plan.EPILOG)(placement_plan.plan)
app.command(epilog=placement_apply.EPILOG)(placement_apply.apply)
app.command(epilog=placement_cancel.EPILOG)(placement_cancel.cancel)
app.command(epilog=placement_suggest.EPILOG)(placement_suggest.suggest)
