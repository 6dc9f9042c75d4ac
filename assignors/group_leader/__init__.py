"""What the leader of a consumer group does in a rebalance, for any client library.

An adapter reads the members' subscriptions and the client's metadata, calls :meth:`Rebalance.run`,
and sends the assignments that it returns.
"""

from typing import TYPE_CHECKING

from assignors.group_leader.logs import (
    GroupContext,
    LogOnce,
    format_error,
    format_list,
    format_traceback,
    log,
    sanitize,
)
from assignors.group_leader.metadata import (
    Leaders,
    is_topic_name,
    read_leaders,
)
from placement_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from assignors.group_leader.history import (
        Assignment,
        AssignmentHistory,
        AssignmentInputs,
        MemberAssignment,
    )
    from assignors.group_leader.ownership import Ownership
    from assignors.group_leader.rebalance import (
        METADATA_TIMEOUT,
        REVOCATION_TIMEOUT,
        Assignments,
        HasAssignmentHistory,
        Rebalance,
        RebalanceResult,
    )
    from assignors.group_leader.subscriptions import JoinedMember, JoinedMembers, read_members
    from assignors.model import Assignor, WeightSource
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "assignors.group_leader.history": [
                "Assignment",
                "AssignmentHistory",
                "AssignmentInputs",
                "MemberAssignment",
            ],
            "assignors.group_leader.ownership": ["Ownership"],
            "assignors.group_leader.rebalance": [
                "METADATA_TIMEOUT",
                "REVOCATION_TIMEOUT",
                "Assignments",
                "HasAssignmentHistory",
                "Rebalance",
                "RebalanceResult",
            ],
            "assignors.group_leader.subscriptions": [
                "JoinedMember",
                "JoinedMembers",
                "read_members",
            ],
            "assignors.model": ["Assignor", "WeightSource"],
        },
    )

__all__ = [
    "METADATA_TIMEOUT",
    "REVOCATION_TIMEOUT",
    "Assignment",
    "AssignmentHistory",
    "AssignmentInputs",
    "Assignments",
    "Assignor",
    "GroupContext",
    "HasAssignmentHistory",
    "JoinedMember",
    "JoinedMembers",
    "Leaders",
    "LogOnce",
    "MemberAssignment",
    "Ownership",
    "Rebalance",
    "RebalanceResult",
    "WeightSource",
    "format_error",
    "format_list",
    "format_traceback",
    "is_topic_name",
    "log",
    "read_leaders",
    "read_members",
    "sanitize",
]
