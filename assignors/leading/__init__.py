"""What the leader of a group does with what members said, whatever client it is.

An adapter reads members and metadata in its client's words, has :class:`Rebalance` decide, and
sends the shares in its client's words again.
"""

from assignors.leading.about import About
from assignors.leading.assignment import Assignment, MemberShare
from assignors.leading.leaders import Leaders, Metadata, read_leaders
from assignors.leading.patience import HAND_OVER_PATIENCE, METADATA_PATIENCE
from assignors.leading.rebalance import (
    Joined,
    Outcome,
    Rebalance,
    Shares,
    WeightSource,
)
from assignors.leading.records import Records
from assignors.leading.remarks import Remarks, log
from assignors.leading.remembering import Remembering
from assignors.leading.topic_names import is_topic_name
from assignors.leading.watch import LeaderWatch
from assignors.model import Assignor

__all__ = [
    "HAND_OVER_PATIENCE",
    "METADATA_PATIENCE",
    "About",
    "Assignment",
    "Assignor",
    "Joined",
    "LeaderWatch",
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
