"""The assignors for aiokafka, as ``partition_assignment_strategy``.

>>> from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor
>>> strategy = [LeaderRackAwareCooperativeStickyAssignor(rack="use1-az1")]

Import this before the consumer is started; see :mod:`assignors.aiokafka.coordinator`. Where no
option is needed the class itself will do, as for aiokafka's own assignors.

aiokafka has no cooperative rebalancing: a member gives up everything before each rebalance and
reads nothing until it is over. The sticky assignor is sticky all the same (a member gets back
what it had, as far as balance and locality permit), and it shares its protocol, and so its group,
with the members of other clients, who do go on reading what they keep.
"""

from assignors.aiokafka.assignors import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
    UnseatedAssignorError,
    UnsupportedAiokafkaError,
)
from assignors.aiokafka.coordinator import install

__all__ = [
    "LeaderRackAwareCooperativeStickyAssignor",
    "LeaderRackAwareRangeAssignor",
    "UnseatedAssignorError",
    "UnsupportedAiokafkaError",
]

install()
