"""Leader-rack-aware assignors: balanced first, then local, then sticky."""

from assignors.cooperative_sticky import LeaderRackAwareCooperativeSticky
from assignors.leader_moves import RefreshPolicy
from assignors.model import LeaderRacks, Member, Plan, Weights
from assignors.range import LeaderRackAwareRange

__all__ = [
    "LeaderRackAwareCooperativeSticky",
    "LeaderRackAwareRange",
    "LeaderRacks",
    "Member",
    "Plan",
    "RefreshPolicy",
    "Weights",
]
