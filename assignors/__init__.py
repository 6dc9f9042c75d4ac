"""Leader-rack-aware assignors: balanced first, then local, then sticky."""

from assignors.model import LeaderRacks, Member, Plan, Weights

__all__ = ["LeaderRacks", "Member", "Plan", "Weights"]
