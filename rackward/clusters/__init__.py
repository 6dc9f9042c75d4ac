"""Real Kafka clusters for tests and demos, with racks and a listener for each client rack."""

from rackward.clusters.base import Cluster
from rackward.clusters.docker import DockerCluster
from rackward.clusters.errors import (
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
from rackward.clusters.local import LocalCluster

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
