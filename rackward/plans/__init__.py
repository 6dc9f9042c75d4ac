"""Plans: what `placement plan` and `leaders plan` write, and `apply` carries out."""

from rackward.plans.errors import PlanFileError, StalePlanError
from rackward.plans.model import Load, Pace, Plan, PlanKind, PlannedMove, RacksFrom
from rackward.plans.staleness import check_current
from rackward.plans.standing import Phase, Standing, phase_of
from rackward.plans.text import from_text, to_text

__all__ = [
    "Load",
    "Pace",
    "Phase",
    "Plan",
    "PlanFileError",
    "PlanKind",
    "PlannedMove",
    "RacksFrom",
    "StalePlanError",
    "Standing",
    "check_current",
    "from_text",
    "phase_of",
    "to_text",
]
