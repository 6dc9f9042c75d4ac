"""Leader layouts: which replica should lead, given the racks of the consumers.

Two consumers in rack a, one in b and none in c read two thirds of a topic in a and one third in b.
So its leaders should be in the proportion 2 : 1 : 0, and even over the brokers of each rack. Only
the order of replicas changes.

A group whose assignor does not consider leaders keeps its assignment when they move. For such a
group each partition should be led in the rack of the member that owns it.

Producers count as well (:class:`WriterDemand`): what they write to a leader in another rack crosses
like what is read from one. The layout is the best for writers and readers together, in bytes.
"""

from placement_core.leaders.model import (
    BytesAcross,
    ConsumerDemand,
    CurrentAssignment,
    LeaderLayout,
    Locality,
    Obstacle,
    UnmetReads,
    WriterDemand,
)
from placement_core.leaders.plan import DEFAULT_MAX_IMBALANCE, components, plan_leaders

__all__ = [
    "DEFAULT_MAX_IMBALANCE",
    "BytesAcross",
    "ConsumerDemand",
    "CurrentAssignment",
    "LeaderLayout",
    "Locality",
    "Obstacle",
    "UnmetReads",
    "WriterDemand",
    "components",
    "plan_leaders",
]
