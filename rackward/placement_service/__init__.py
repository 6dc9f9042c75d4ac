"""``create_replica_placement`` of KIP-879: a service that holds the placer, and its client.

The messages are the proposal's, in Kafka's framing. In today's brokers their api key, 68, is that
of another request, so the service has a port of its own, and clients never send it to a broker.
"""

from rackward.placement_service.client import create_replica_placement
from rackward.placement_service.messages import (
    DEFAULT_ADDRESS,
    Address,
    ListeningError,
    MalformedFrameError,
    NotAPlacementServiceError,
    PlacementServiceError,
    ServiceRefusedError,
    ServiceTlsError,
    ServiceUnreachableError,
)
from rackward.placement_service.server import (
    PlacementHandler,
    PlacementRequest,
    PlacementService,
    ServiceMetrics,
    ServiceThread,
    place_replicas,
)
from rackward.placement_service.tls import MutualTls

__all__ = [
    "DEFAULT_ADDRESS",
    "Address",
    "ListeningError",
    "MalformedFrameError",
    "MutualTls",
    "NotAPlacementServiceError",
    "PlacementHandler",
    "PlacementRequest",
    "PlacementService",
    "PlacementServiceError",
    "ServiceMetrics",
    "ServiceRefusedError",
    "ServiceThread",
    "ServiceTlsError",
    "ServiceUnreachableError",
    "create_replica_placement",
    "place_replicas",
]
