"""The assignors for kafka-python, as ``partition_assignment_strategy``.

>>> from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
>>> strategy = [LeaderRackAwareCooperativeStickyAssignor(rack="use1-az1")]

Import this before the consumer is made; see :mod:`assignors.kafka_python.coordinator`.
"""

from assignors.kafka_python.coordinator import harden, install
from assignors.kafka_python.nearest import NearestPolicy, NearestReplicas, read_from_nearest
from assignors.kafka_python.reporting import TrafficReporter
from assignors.kafka_python.strategies import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)

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
