"""``rackward leaders``: plan and change the leaders of partitions."""

from rackward.cli.console import command_group
from rackward.cli.leaders import apply as leaders_apply
from rackward.cli.leaders import cancel as leaders_cancel
from rackward.cli.leaders import plan as leaders_plan

app = command_group("Move partition leaders to the racks of their consumers.")
app.command(epilog=leaders_plan.EPILOG)(leaders_plan.plan)
app.command(epilog=leaders_apply.EPILOG)(leaders_apply.apply)
app.command(epilog=leaders_cancel.EPILOG)(leaders_cancel.cancel)
