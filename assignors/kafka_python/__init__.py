"""The assignors for kafka-python, as ``partition_assignment_strategy``.

>>> from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
>>> strategy = [LeaderRackAwareCooperativeStickyAssignor(rack="use1-az1")]

Importing this package changes nothing in kafka-python. Constructing an assignor makes the
KafkaConsumers that are constructed afterwards use rackward's coordinator, as ``install()`` does;
see :mod:`assignors.kafka_python.coordinator`. Pass instances: a class is only accepted after
``install()``.
"""

import assignors.kafka_python.internals  # noqa: F401 - first: reports an unsupported kafka-python
from assignors.client_assignor import CoordinatorNotPatchedError
from assignors.kafka_python.assignors import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
    install,
    uninstall,
)
from assignors.kafka_python.coordinator import enable_workarounds
from assignors.kafka_python.nearest_replica import (
    NearestPolicy,
    NearestReplicas,
    read_from_nearest,
)
from assignors.library_internals import UnsupportedClientError

__all__ = [
    "CoordinatorNotPatchedError",
    "LeaderRackAwareCooperativeStickyAssignor",
    "LeaderRackAwareRangeAssignor",
    "NearestPolicy",
    "NearestReplicas",
    "UnsupportedClientError",
    "enable_workarounds",
    "install",
    "read_from_nearest",
    "uninstall",
]
