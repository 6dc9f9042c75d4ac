"""The proposal's messages as kafka-python reads schemas: another codec to hold ours against.

The response has a key of its own here. kafka-python keeps one class for each key in the process,
and 68 is its ConsumerGroupHeartbeat.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class CreateReplicaPlacementRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg,misc]
    pass


class CreateReplicaPlacementResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg,misc]
    pass
