"""Reading and changing a live cluster through kafka-python (the extra ``kafka-python``)."""

from rackward.kafka.client import TIMEOUT_SECONDS, AdminConnection, connect
from rackward.kafka.errors import (
    AdminError,
    AdminTimeoutError,
    CredentialsError,
    RefusedError,
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
    "TooOldError",
    "UnauthorizedError",
    "UnreachableError",
    "check_topics",
    "connect",
    "read_partition_sizes",
    "read_reassignments",
    "read_replica_sizes",
    "read_state",
]
