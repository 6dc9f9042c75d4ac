"""CreateReplicaPlacement of KIP-879, version 0, as JSON in the notation that kafka-python reads.

The proposal's response has no field for an error. Its version is flexible, so errors travel as
tagged fields, which a reader that does not know them skips: tag 0 is one of Kafka's error codes,
tag 1 the message. A successful response has neither, and its bytes are the proposal's.

The api key in the response's definition is not the request's: kafka-python has one class for the
responses of each key, 68 is its ConsumerGroupHeartbeat, and a response does not carry its key.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class CreateReplicaPlacementRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg,misc]
    """Requests a placement of ``num_partitions`` partitions."""


class CreateReplicaPlacementResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg,misc]
    """The placement, or an error."""


__all__ = ["CreateReplicaPlacementRequest", "CreateReplicaPlacementResponse"]
