from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, Producer

from assignors.confluent.group_metadata import group_metadata


@pytest.mark.parametrize(
    ("group", "instance"), [("g", None), ("größe", None), ("g", "instance-1"), ("g" * 249, None)]
)
def test_it_is_what_librdkafka_writes(group: str, instance: str | None) -> None:
    settings: dict[str, Any] = {"group.id": group, "log_level": 0}
    if instance is not None:
        settings["group.instance.id"] = instance
    consumer = confluent_kafka.Consumer(settings)
    try:
        assert group_metadata(group, instance_id=instance) == consumer.consumer_group_metadata()
    finally:
        consumer.close()


def test_librdkafka_reads_it() -> None:
    producer = Producer({"transactional.id": "x", "log_level": 0})
    told = group_metadata("g", 7, "member-1", "i")
    producer.send_offsets_to_transaction([], told, 1)
    for cut in (told[:-3], told[1:], told.replace(b"g", b"\7")):
        with pytest.raises(KafkaException, match="_BAD_MSG"):
            producer.send_offsets_to_transaction([], cut, 1)
