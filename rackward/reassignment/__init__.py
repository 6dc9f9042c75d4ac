"""Plans: what `placement plan` and `leaders plan` write, and `apply` carries out."""

from rackward.reassignment.cancel import Cancellation, cancel
from rackward.reassignment.cluster import LiveCluster, MovableCluster
from rackward.reassignment.events import Event, Outcome, Tell
from rackward.reassignment.executor import Engine
from rackward.reassignment.plan import Load, Pace, Plan, PlanKind, PlannedMove, RacksFrom
from rackward.reassignment.plan_file import PlanFileError, StalePlanError, from_text, to_text
from rackward.reassignment.preconditions import check_current
from rackward.reassignment.progress import Settings, Timing
from rackward.reassignment.status import Phase, Standing, phase_of

__all__ = [
    "Cancellation",
    "Engine",
    "Event",
    "LiveCluster",
    "Load",
    "MovableCluster",
    "Outcome",
    "Pace",
    "Phase",
    "Plan",
    "PlanFileError",
    "PlanKind",
    "PlannedMove",
    "RacksFrom",
    "Settings",
    "StalePlanError",
    "Standing",
    "Tell",
    "Timing",
    "cancel",
    "check_current",
    "from_text",
    "phase_of",
    "to_text",
]
