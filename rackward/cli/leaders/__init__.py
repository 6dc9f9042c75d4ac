"""``rackward leaders``: plan and change the leaders of partitions."""

import typer

from rackward.cli.leaders import apply as leaders_apply
from rackward.cli.leaders import plan as leaders_plan

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Move partition leaders to the racks of their consumers.",
)
app.command(epilog=leaders_plan.EPILOG)(leaders_plan.plan)
app.command(epilog=leaders_apply.EPILOG)(leaders_apply.apply)
