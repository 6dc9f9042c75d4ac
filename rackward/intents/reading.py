"""Reading intents: the last record of each key is the intent, an empty one is its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from assignors.client_properties import kafka_python_settings
from rackward.admin import AdminTimeoutError
from rackward.admin.connection import CLIENT_ID, translated
from rackward.intents.model import Intent, IntentError, parse_intent
from rackward.intents.topic import INTENTS_TOPIC


class IntentReader:
    """Intents by key, out of records in their order.

    ``faults`` are the records that are none, by key: they count as absent.
    """

    def __init__(self) -> None:
        self.intents: dict[str, Intent] = {}
        self.faults: dict[bytes, str] = {}

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """One more record."""
        name = (key or b"").decode(errors="replace")
        self.faults.pop(key or b"", None)
        self.intents.pop(name, None)
        if value is None:
            return
        try:
            self.intents[name] = parse_intent(key, value)
        except IntentError as error:
            self.faults[key or b""] = str(error)


def read_intents(properties: Mapping[str, object], timeout: float) -> IntentReader:
    """All intents now, of a cluster that has their topic. Raises AdminError."""
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaError

    doing = f"reading {INTENTS_TOPIC}"
    reader = IntentReader()
    deadline = time.monotonic() + timeout
    consumer: Any = None
    try:
        consumer = KafkaConsumer(
            **{
                "client_id": CLIENT_ID,
                **kafka_python_settings(properties),
                "group_id": None,
                "auto_offset_reset": "earliest",
                "allow_auto_create_topics": False,
            }
        )
        place = TopicPartition(INTENTS_TOPIC, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            if time.monotonic() > deadline:
                raise AdminTimeoutError(f"{doing}: it was not read to its end in {timeout:g} s")
            for records in consumer.poll(timeout_ms=200).values():
                for record in records:
                    reader.take(record.key, record.value)
    except KafkaError as error:
        raise translated(doing, error) from error
    finally:
        if consumer is not None:
            consumer.close(autocommit=False)
    return reader
