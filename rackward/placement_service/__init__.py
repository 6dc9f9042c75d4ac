"""``create_replica_placement`` of KIP-879: a service that holds the placer, and its client.

The messages are the proposal's, over Kafka's framing. Their api key, 68, is another request's in
the brokers of today: no such frame is ever sent to one.
"""

from rackward.placement_service.client import create_replica_placement
from rackward.placement_service.handler import PlacementQuestion, Placing, answer, answer_question
from rackward.placement_service.protocol import (
    DEFAULT_ADDRESS,
    Address,
    ListeningError,
    MalformedFrameError,
    NotAPlacementServiceError,
    PlacementServiceError,
    ServiceLimits,
    ServiceRefusedError,
    ServiceTlsError,
    ServiceUnreachableError,
)
from rackward.placement_service.server import PlacementService, ServiceCounts
from rackward.placement_service.tls import MutualTls

__all__ = [
    "DEFAULT_ADDRESS",
    "Address",
    "ListeningError",
    "MalformedFrameError",
    "MutualTls",
    "NotAPlacementServiceError",
    "PlacementQuestion",
    "PlacementService",
    "PlacementServiceError",
    "Placing",
    "ServiceCounts",
    "ServiceLimits",
    "ServiceRefusedError",
    "ServiceTlsError",
    "ServiceUnreachableError",
    "answer",
    "answer_question",
    "create_replica_placement",
]
