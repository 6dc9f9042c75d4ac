"""Leader-rack-aware assignors: balanced first, then local, then sticky."""

from typing import TYPE_CHECKING

from placement_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from assignors.cooperative_sticky import LeaderRackAwareCooperativeSticky
    from assignors.leader_moves import RefreshPolicy
    from assignors.model import LeaderRacks, Member, Plan, Weights
    from assignors.range import LeaderRackAwareRange
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "assignors.cooperative_sticky": ["LeaderRackAwareCooperativeSticky"],
            "assignors.leader_moves": ["RefreshPolicy"],
            "assignors.model": ["LeaderRacks", "Member", "Plan", "Weights"],
            "assignors.range": ["LeaderRackAwareRange"],
        },
    )

__all__ = [
    "LeaderRackAwareCooperativeSticky",
    "LeaderRackAwareRange",
    "LeaderRacks",
    "Member",
    "Plan",
    "RefreshPolicy",
    "Weights",
]
