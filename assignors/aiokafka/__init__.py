"""The assignors for aiokafka, as ``partition_assignment_strategy``.

>>> from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor
>>> strategy = [LeaderRackAwareCooperativeStickyAssignor(rack="use1-az1")]

Importing this package changes nothing in aiokafka. Constructing an assignor makes the
AIOKafkaConsumers that are started afterwards use rackward's coordinator, as ``install()`` does;
see :mod:`assignors.aiokafka.coordinator`. Pass instances: a class is only accepted after
``install()``.

aiokafka has no cooperative rebalancing: a member revokes all partitions before each rebalance, and
reads nothing until it is over. The sticky assignor is sticky all the same (a member gets back what
it had, as far as balance and locality permit), and it shares its protocol, and so its group, with
the members of other clients, which do read on from what they keep.
"""

import assignors.aiokafka.internals  # noqa: F401 - first: reports an unsupported aiokafka
from assignors.aiokafka.assignors import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from assignors.aiokafka.coordinator import install, uninstall
from assignors.client_assignor import CoordinatorNotPatchedError
from assignors.library_internals import UnsupportedClientError

__all__ = [
    "CoordinatorNotPatchedError",
    "LeaderRackAwareCooperativeStickyAssignor",
    "LeaderRackAwareRangeAssignor",
    "UnsupportedClientError",
    "install",
    "uninstall",
]
