"""Reading from the nearest replica in sync, without any configuration of brokers.

>>> from assignors.kafka_python import NearestPolicy, read_from_nearest

Off unless asked for: it costs consistency. docs/nearest-replica.md says how much.
"""

from assignors.kafka_python.nearest.policy import DEFAULT_NEAREST, NearestPolicy
from assignors.kafka_python.nearest.reading import NearestReplicas, read_from_nearest

__all__ = ["DEFAULT_NEAREST", "NearestPolicy", "NearestReplicas", "read_from_nearest"]
