"""Asking a live cluster, and changing it, through kafka-python (the extra ``kafka-python``)."""

from rackward.admin.configs import min_in_sync, read_broker_configs, read_topic_configs
from rackward.admin.connection import TIMEOUT_SECONDS, AdminConnection, connect
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
from rackward.admin.reads import check_topics, read_ongoing, read_state
from rackward.admin.replica_sizes import ReplicaSize, Sizes, read_sizes
from rackward.admin.state import ClusterState, Ongoing

__all__ = [
    "TIMEOUT_SECONDS",
    "AdminConnection",
    "AdminError",
    "AdminTimeoutError",
    "ClusterState",
    "CredentialsError",
    "Ongoing",
    "RefusedError",
    "ReplicaSize",
    "Sizes",
    "TooLargeError",
    "TooOldError",
    "UnauthorizedError",
    "UnreachableError",
    "check_topics",
    "connect",
    "min_in_sync",
    "read_broker_configs",
    "read_ongoing",
    "read_sizes",
    "read_state",
    "read_topic_configs",
]
