"""The assignors for kafka-python, as ``partition_assignment_strategy``.

>>> from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
>>> strategy = [LeaderRackAwareCooperativeStickyAssignor(rack="use1-az1")]

Importing this package changes nothing in kafka-python. Constructing an assignor makes the
KafkaConsumers that are constructed afterwards use a coordinator of ours, as ``install()`` does;
see :mod:`assignors.kafka_python.coordinator`. Pass instances: a class is only accepted after
``install()``.
"""

from assignors.client_assignor import CoordinatorNotPatchedError
from assignors.kafka_python.assignors import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from assignors.kafka_python.coordinator import enable_workarounds, install, uninstall
from assignors.kafka_python.nearest_fetcher import NearestReplicas, read_from_nearest
from assignors.kafka_python.nearest_replica import NearestPolicy
from assignors.kafka_python.traffic_reporter import TrafficReporter
from assignors.library_internals import UnsupportedClientError

__all__ = [
    "CoordinatorNotPatchedError",
    "LeaderRackAwareCooperativeStickyAssignor",
    "LeaderRackAwareRangeAssignor",
    "NearestPolicy",
    "NearestReplicas",
    "TrafficReporter",
    "UnsupportedClientError",
    "enable_workarounds",
    "install",
    "read_from_nearest",
    "uninstall",
]
