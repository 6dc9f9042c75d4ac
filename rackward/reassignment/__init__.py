"""Plans of ``placement plan`` and ``leaders plan``, and carrying them out.

:mod:`~rackward.reassignment.planner` plans moves, :mod:`~rackward.reassignment.plan` reads and
writes plans, :mod:`~rackward.reassignment.run_plan` checks them,
:mod:`~rackward.reassignment.executor` executes and :mod:`~rackward.reassignment.cancel` cancels
them.
"""

from rackward.reassignment.executor import ExecutionOptions, Executor, LiveCluster
from rackward.reassignment.plan import (
    BatchLimits,
    Plan,
    PlanFileError,
    PlanKind,
    PlannedChange,
    RackSource,
)
from rackward.reassignment.progress import (
    Clock,
    Event,
    EventHandler,
    ExecutionResult,
    PartitionState,
)
from rackward.reassignment.run_plan import (
    ForeignReassignmentError,
    StalePlanError,
    check_preconditions,
)

__all__ = [
    "BatchLimits",
    "Clock",
    "Event",
    "EventHandler",
    "ExecutionOptions",
    "ExecutionResult",
    "Executor",
    "ForeignReassignmentError",
    "LiveCluster",
    "PartitionState",
    "Plan",
    "PlanFileError",
    "PlanKind",
    "PlannedChange",
    "RackSource",
    "StalePlanError",
    "check_preconditions",
]
