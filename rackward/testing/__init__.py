"""Real Kafka clusters for tests and demos, with racks and a listener for each client rack."""

from rackward.testing.cluster import Cluster
from rackward.testing.docker import DockerCluster
from rackward.testing.errors import (
    BrokerError,
    BrokerStateError,
    ClusterClosedError,
    ClusterError,
    ClusterTimeoutError,
    DockerUnavailableError,
    DownloadError,
    MissingExtraError,
    UnknownBrokerError,
    UnknownClientRackError,
)
from rackward.testing.local import LocalCluster

__all__ = [
    "BrokerError",
    "BrokerStateError",
    "Cluster",
    "ClusterClosedError",
    "ClusterError",
    "ClusterTimeoutError",
    "DockerCluster",
    "DockerUnavailableError",
    "DownloadError",
    "LocalCluster",
    "MissingExtraError",
    "UnknownBrokerError",
    "UnknownClientRackError",
]
