"""``rackward placement``: check, plan, execute and cancel replica placement, and throttles."""

from rackward.cli.console import command_group
from rackward.cli.placement import apply as placement_apply
from rackward.cli.placement import cancel as placement_cancel
from rackward.cli.placement import check as placement_check
from rackward.cli.placement import plan as placement_plan
from rackward.cli.placement import suggest as placement_suggest
from rackward.cli.placement import throttle as placement_throttle

app = command_group("Check the placement of replicas, and reassign them.")
app.command(epilog=placement_check.EPILOG)(placement_check.check)
app.command(epilog=placement_plan.EPILOG)(placement_plan.plan)
app.command(epilog=placement_apply.EPILOG)(placement_apply.apply)
app.command(epilog=placement_cancel.EPILOG)(placement_cancel.cancel)
app.command(epilog=placement_throttle.EPILOG)(placement_throttle.throttle)
app.command(epilog=placement_suggest.EPILOG)(placement_suggest.suggest)
