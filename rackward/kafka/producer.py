"""A producer that returns only once its records are stored on all in-sync replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from rackward.kafka.client import client_settings, responding_settings
from rackward.kafka.errors import wrap
from rackward.units import Deadline

Record = tuple[bytes, bytes | None]
"""Key and value; a value of None is a tombstone."""


class ReliableProducer:
    """An idempotent producer with ``acks=all`` for one topic.

    ``properties`` are connection settings with Java's or librdkafka's names; ``timeout`` is in
    seconds; ``settings`` are further keyword arguments of kafka-python's KafkaProducer. Raises
    AdminError if the cluster cannot be reached.
    """

    def __init__(
        self, properties: Mapping[str, object], topic: str, timeout: float, **settings: object
    ) -> None:
        self._topic, self._timeout = topic, timeout
        arguments: dict[str, Any] = {
            **responding_settings(client_settings(properties), Deadline.after(timeout)),
            "acks": "all",
            "enable_idempotence": True,
            "max_block_ms": int(timeout * 1000),
            "delivery_timeout_ms": max(int(timeout * 1000), 5000),
            "request_timeout_ms": max(int(timeout * 500), 2000),
            **settings,
        }
        try:
            self._producer = KafkaProducer(**arguments)
        except KafkaError as error:
            raise wrap(f"connecting the producer of topic {topic}", error) from error

    def send(self, records: Iterable[Record], partition: int | None = None) -> None:
        """Send the records; return when all of them are acknowledged.

        Raises AdminError; some of the records may be stored then.
        """
        try:
            futures = [
                self._producer.send(self._topic, key=key, value=value, partition=partition)
                for key, value in records
            ]
            self._producer.flush(timeout=self._timeout)
            for future in futures:
                future.get(timeout=self._timeout)
        except KafkaError as error:
            acl = f"Write on {self._topic}"
            raise wrap(f"writing to topic {self._topic}", error, topic_acl=acl) from error

    def close(self) -> None:
        """Close the connections."""
        self._producer.close(timeout=5)
