"""Reading and changing a live cluster through kafka-python (the extra ``kafka-python``)."""

from rackward.kafka.client import TIMEOUT_SECONDS, AdminConnection, connect
from rackward.kafka.configs import read_broker_configs, read_topic_configs
from rackward.kafka.errors import (
    AdminError,
    AdminTimeoutError,
    CredentialsError,
    RefusedError,
    TooLargeError,
    TooOldError,
    UnauthorizedError,
    UnreachableError,
)
from rackward.kafka.metadata import (
    ClusterState,
    Reassignment,
    ReplicaSizes,
    check_topics,
    read_partition_sizes,
    read_reassignments,
    read_replica_sizes,
    read_state,
)

__all__ = [
    "TIMEOUT_SECONDS",
    "AdminConnection",
    "AdminError",
    "AdminTimeoutError",
    "ClusterState",
    "CredentialsError",
    "Reassignment",
    "RefusedError",
    "ReplicaSizes",
    "TooLargeError",
    "TooOldError",
    "UnauthorizedError",
    "UnreachableError",
    "check_topics",
    "connect",
    "read_broker_configs",
    "read_partition_sizes",
    "read_reassignments",
    "read_replica_sizes",
    "read_state",
    "read_topic_configs",
]
