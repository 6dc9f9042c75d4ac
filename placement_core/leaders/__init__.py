"""Leader layouts: which replica should lead, given the racks of the consumers.

Two consumers in rack a, one in b and none in c read two thirds of a topic in a and one third in b.
So its leaders should be in the proportion 2 : 1 : 0, and even over the brokers of each rack. Only
the order of replicas changes.
"""

from placement_core.leaders.model import ConsumerDemand, LeaderLayout, Locality
from placement_core.leaders.plan import plan_leaders

__all__ = ["ConsumerDemand", "LeaderLayout", "Locality", "plan_leaders"]
