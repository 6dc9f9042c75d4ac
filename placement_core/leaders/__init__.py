"""Which replica should lead, given where the consumers are. Only the order of replicas changes.

Two consumers in rack a, one in b and none in c, balanced, read two thirds of a topic in a and one
in b: so that is where its leaders should be, 2 : 1 : 0, and evenly over each rack's brokers.
"""

from placement_core.leaders.model import LeaderLayout, Locality, Readers
from placement_core.leaders.plan import plan_leaders

__all__ = ["LeaderLayout", "Locality", "Readers", "plan_leaders"]
