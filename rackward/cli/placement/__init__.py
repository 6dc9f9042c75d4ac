"""``rackward placement``: check, plan, execute and cancel replica placement, and throttles."""

from rackward.cli.commands import command_group
from rackward.cli.placement import apply as placement_apply
from rackward.cli.placement import cancel as placement_cancel
from rackward.cli.placement import check as placement_check
from rackward.cli.placement import plan as placement_plan
from rackward.cli.placement import suggest as placement_suggest
from rackward.cli.placement import throttle as placement_throttle

app = command_group("Check the placement of replicas, and reassign them.")
for module, function in (
    (placement_check, placement_check.check),
    (placement_plan, placement_plan.plan),
    (placement_apply, placement_apply.apply),
    (placement_cancel, placement_cancel.cancel),
    (placement_throttle, placement_throttle.throttle),
    (placement_suggest, placement_suggest.suggest),
):
    app.command(function.__name__, epilog=module.EPILOG, results=module.RESULTS)(function)
