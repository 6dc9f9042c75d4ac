"""Reading and changing a live cluster through kafka-python (the extra ``kafka-python``)."""

from rackward.admin.client import TIMEOUT_SECONDS, AdminConnection, connect
from rackward.admin.configs import parse_min_isr, read_broker_configs, read_topic_configs
from rackward.admin.errors import (
    AdminError,
    AdminTimeoutError,
    CredentialsError,
    RefusedError,
    TooLargeError,
    TooOldError,
    UnauthorizedError,
    UnreachableError,
)
from rackward.admin.metadata import (
    ClusterState,
    Reassignment,
    ReplicaSize,
    ReplicaSizes,
    check_topics,
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
    "ReplicaSize",
    "ReplicaSizes",
    "TooLargeError",
    "TooOldError",
    "UnauthorizedError",
    "UnreachableError",
    "check_topics",
    "connect",
    "parse_min_isr",
    "read_broker_configs",
    "read_reassignments",
    "read_replica_sizes",
    "read_state",
    "read_topic_configs",
]
