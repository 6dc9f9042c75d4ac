"""Asking a live cluster, and changing it, through kafka-python (the extra ``kafka-python``)."""

from rackward.admin.client import TIMEOUT_SECONDS, AdminConnection, connect
from rackward.admin.configs import min_in_sync, read_broker_configs, read_topic_configs
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
from rackward.admin.metadata import ClusterState, Ongoing, check_topics, read_ongoing, read_state
from rackward.admin.offsets import ReplicaSize, Sizes, read_sizes

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
