"""When leaders that moved are worth a rebalance: a pure policy over the plan, the leaders and time.

No client rebalances when a leader moves, and a group's locality decays with every one that does.
The leader of the group looks at the metadata from time to time and steps a :class:`RefreshPolicy`,
which says when to ask for a rebalance. docs/leader-moves.md has a worked example.
"""

from assignors.refresh.gain import NO_GAIN, Gain, crossing_gain
from assignors.refresh.observation import Observation, PartitionState, observe
from assignors.refresh.policy import (
    DEFAULT_REFRESH,
    RefreshPolicy,
    RefreshState,
    checked_refresh,
)

__all__ = [
    "DEFAULT_REFRESH",
    "NO_GAIN",
    "Gain",
    "Observation",
    "PartitionState",
    "RefreshPolicy",
    "RefreshState",
    "checked_refresh",
    "crossing_gain",
    "observe",
]
