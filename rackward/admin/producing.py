"""A producer whose records are kept, or whose caller hears that they were not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assignors.client_properties import kafka_python_settings
from rackward.admin.connection import CLIENT_ID, translated


def reliable_producer(
    properties: Mapping[str, object], timeout: float, doing: str, **settings: object
) -> Any:
    """kafka-python's KafkaProducer: idempotent, acknowledged by all replicas in sync.

    ``properties`` say how to connect, in Java's or librdkafka's words; ``timeout`` is in seconds;
    ``doing`` begins the error; ``settings`` are more of the producer's own.

    Raises AdminError where it cannot be made.
    """
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    every: dict[str, Any] = {
        "client_id": CLIENT_ID,
        **kafka_python_settings(properties),
        "acks": "all",
        "enable_idempotence": True,
        "max_block_ms": int(timeout * 1000),
        "delivery_timeout_ms": max(int(timeout * 1000), 5000),
        "request_timeout_ms": max(int(timeout * 500), 2000),
        **settings,
    }
    try:
        return KafkaProducer(**every)
    except KafkaError as error:
        raise translated(doing, error) from error
