"""Requests to a broker that is missing from the latest metadata.

kafka-python 3.0.12 raises `UnknownBrokerIdError` out of ``KafkaConnectionManager.send`` where a
broker is absent from one metadata answer, as it is for a moment after its death, while there is
no connection to it. The fetcher has by then marked that broker's request as pending, and never
clears the mark: the consumer stops reading from this broker for good, and the fetch sessions
of the brokers after it have lost their requests. The error comes out of ``poll`` too, with the
records that this poll had already taken. A failed future that may be retried is what callers
of ``send`` know how to deal with: they ask again when the new metadata has come.
"""

from __future__ import annotations

from typing import Any

from kafka.errors import NodeNotReadyError, UnknownBrokerIdError
from kafka.future import Future


def outlive_missing_brokers(manager: Any) -> None:
    """Have ``manager``, a KafkaConnectionManager, answer with a failed future instead."""
    send = manager.send

    def send_or_fail(request: Any, node_id: Any = None, request_timeout_ms: Any = None) -> Any:
        try:
            return send(request, node_id=node_id, request_timeout_ms=request_timeout_ms)
        except UnknownBrokerIdError:
            manager.cluster.request_update()
            return Future().failure(NodeNotReadyError(node_id))

    manager.send = send_or_fail
