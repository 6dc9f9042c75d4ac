"""What the leader of a group does with what members said, whatever client it is.

An adapter reads members and metadata in its client's words, has :class:`Rebalance` decide, and
sends the shares in its client's words again.
"""

from assignors.leading.leaders import Leaders, Metadata, read_leaders
from assignors.leading.patience import HAND_OVER_PATIENCE, METADATA_PATIENCE
from assignors.leading.rebalance import (
    Assignor,
    Joined,
    Outcome,
    Rebalance,
    Shares,
    WeightSource,
)
from assignors.leading.remarks import Remarks, log
from assignors.leading.topic_names import is_topic_name

__all__ = [
    "HAND_OVER_PATIENCE",
    "METADATA_PATIENCE",
    "Assignor",
    "Joined",
    "Leaders",
    "Metadata",
    "Outcome",
    "Rebalance",
    "Remarks",
    "Shares",
    "WeightSource",
    "is_topic_name",
    "log",
    "read_leaders",
]
