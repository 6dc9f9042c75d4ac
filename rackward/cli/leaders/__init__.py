"""``rackward leaders``: which replica of each partition leads."""

import typer

from rackward.cli.leaders import apply as leaders_apply
from rackward.cli.leaders import plan as leaders_plan

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Let replicas lead in the racks where their consumers are.",
)
app.command(epilog=leaders_plan.EPILOG)(leaders_plan.plan)
app.command(epilog=leaders_apply.EPILOG)(leaders_apply.apply)
