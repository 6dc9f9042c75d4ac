"""The assignors for kafka-python, as ``partition_assignment_strategy``.

>>> from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
>>> strategy = [LeaderRackAwareCooperativeStickyAssignor(rack="use1-az1")]

Import this before the consumer is made; see :mod:`assignors.kafka_python.coordinator`.
"""

from assignors.kafka_python.assignors import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from assignors.kafka_python.coordinator import harden, install
from assignors.kafka_python.nearest_fetcher import NearestReplicas, read_from_nearest
from assignors.kafka_python.nearest_replica import NearestPolicy
from assignors.kafka_python.traffic_reporter import TrafficReporter

__all__ = [
    "LeaderRackAwareCooperativeStickyAssignor",
    "LeaderRackAwareRangeAssignor",
    "NearestPolicy",
    "NearestReplicas",
    "TrafficReporter",
    "harden",
    "read_from_nearest",
]

install()
