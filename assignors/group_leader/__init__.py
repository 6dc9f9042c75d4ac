"""What the leader of a group does with what members said, whatever client it is.

An adapter reads members and metadata in its client's words, has :class:`Rebalance` decide, and
sends the shares in its client's words again.
"""

from assignors.group_leader.history import Assignment, MemberShare, Records
from assignors.group_leader.logs import About, Remarks, log
from assignors.group_leader.metadata import Leaders, Metadata, is_topic_name, read_leaders
from assignors.group_leader.rebalance import (
    HAND_OVER_PATIENCE,
    METADATA_PATIENCE,
    Joined,
    Outcome,
    Rebalance,
    Remembering,
    Shares,
    WeightSource,
)
from assignors.model import Assignor

__all__ = [
    "HAND_OVER_PATIENCE",
    "METADATA_PATIENCE",
    "About",
    "Assignment",
    "Assignor",
    "Joined",
    "Leaders",
    "MemberShare",
    "Metadata",
    "Outcome",
    "Rebalance",
    "Records",
    "Remarks",
    "Remembering",
    "Shares",
    "WeightSource",
    "is_topic_name",
    "log",
    "read_leaders",
]
