"""Records that are known, so that it shows when one is lost, changed or doubled."""

from __future__ import annotations

import hashlib
import random
import time
from dataclasses import dataclass

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from integration.waiting import PATIENCE
from rackward.clusters import Cluster

RECORD_BYTES = 20_000


@dataclass(frozen=True)
class Content:
    """Per partition: the number of records, and a digest of them in order."""

    counts: tuple[int, ...]
    digests: tuple[str, ...]


def fill(cluster: Cluster, topic: str, partitions: int, records: int, seed: int = 1) -> Content:
    """Write ``records`` records, that nothing compresses, to each partition."""
    rng = random.Random(seed)
    digests = [hashlib.sha256() for _ in range(partitions)]
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all", batch_size=60_000
    )
    try:
        for _ in range(records):
            for partition in range(partitions):
                value = rng.randbytes(RECORD_BYTES)
                digests[partition].update(value)
                producer.send(topic, value, partition=partition)
        producer.flush(timeout=PATIENCE)
    finally:
        producer.close()
    return Content((records,) * partitions, tuple(each.hexdigest() for each in digests))


def content(cluster: Cluster, topic: str, partitions: int) -> Content:
    """Everything that the topic holds, from the first record to the last."""
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    counts = [0] * partitions
    digests = [hashlib.sha256() for _ in range(partitions)]
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers.split(","),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        left = {place for place in places if ends[place] > 0}
        deadline = time.monotonic() + PATIENCE
        while left:
            found = consumer.poll(timeout_ms=1000)
            now = time.monotonic()
            deadline = now + PATIENCE if found else deadline
            assert now < deadline, f"nothing more comes, and {sorted(left)} are not at their end"
            for place, records in found.items():
                for record in records:
                    counts[place.partition] += 1
                    digests[place.partition].update(record.value)
                if records[-1].offset + 1 >= ends[place]:
                    left.discard(place)
    finally:
        consumer.close()
    return Content(tuple(counts), tuple(each.hexdigest() for each in digests))
