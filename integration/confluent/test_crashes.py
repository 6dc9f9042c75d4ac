"""Offsets that are committed when a consumer is killed during a call of ``consume``.

Each consumer is this module, run as a program that reports a batch when ``consume`` has returned
it:

    python -m integration.confluent.test_crashes CLASS BOOTSTRAP GROUP TOPIC

CLASS is Consumer or AIOConsumer. Each line of standard output is a JSON list for one batch: topic,
partition and next offset of each partition in it. The process ends when it is killed, or when its
standard input is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest

from assignors.confluent import AIOConsumer, Consumer
from integration.confluent.programs import Program
from integration.support.confluent import RACKWARD, new_group
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import committed, create_topic, new_name, produce_steadily
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

READERS = ("Consumer", "AIOConsumer")
PARTITIONS = 6
MAX_RECORDS = 1_000_000
CALL_SECONDS = 5.0
"""Timeout of one call of ``consume``, for more records than the topic has."""


class Reader(Program):
    """A consumer, and the batches that it has reported."""

    def __init__(self, name: str, cluster: Cluster, topic: str) -> None:
        self.group = new_group()
        arguments = (name, cluster.bootstrap_servers, self.group, topic)
        super().__init__("integration.confluent.test_crashes", *arguments)

    def await_commit(self, cluster: Cluster) -> None:
        wait_until(lambda: bool(self.lines), TEST_TIMEOUT, "a batch")
        wait_until(
            lambda: sum(committed(cluster, self.group).values()) > 0, TEST_TIMEOUT, "a commit"
        )

    def lost(self, cluster: Cluster) -> int:
        """Return the number of records that are committed and were not returned."""
        batches = map(json.loads, self.lines)
        delivered = {(topic, number): end for batch in batches for topic, number, end in batch}
        offsets = committed(cluster, self.group)
        return sum(max(0, offset - delivered.get(key, 0)) for key, offset in offsets.items())


def test_records_that_consume_has_not_returned_are_not_committed(cluster: Cluster) -> None:
    topic = create_topic(cluster, new_name("crash"), replicas_led_from(evenly(PARTITIONS)))
    readers: dict[str, Reader] = {}
    with produce_steadily(cluster, topic, PARTITIONS, every=0.005):
        try:
            for name in READERS:
                readers[name] = Reader(name, cluster, topic)
            for reader in readers.values():
                reader.await_commit(cluster)
            # After several commit intervals each is in a call that has collected records.
            time.sleep(CALL_SECONDS / 2)
        finally:
            for reader in readers.values():
                reader.kill()
    lost = {name: reader.lost(cluster) for name, reader in readers.items()}
    assert lost == dict.fromkeys(READERS, 0)


# The consumer: this module as a program.


def main() -> None:
    """Read until killed."""
    name, bootstrap, group, topic = sys.argv[1:]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 300,
        "partition.assignment.strategy": RACKWARD.cooperative,
        "client.rack": "a",
        "log_level": 0,
    }
    if name == "AIOConsumer":
        asyncio.run(_read(settings, topic))
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    while True:
        _report(consumer.consume(MAX_RECORDS, CALL_SECONDS))


async def _read(settings: dict[str, Any], topic: str) -> None:
    consumer = AIOConsumer(settings)
    await consumer.subscribe([topic])
    while True:
        _report(await consumer.consume(MAX_RECORDS, CALL_SECONDS))


def _report(batch: Iterable[Any]) -> None:
    ends: dict[tuple[str, int], int] = {}
    for message in batch:
        assert message.error() is None, message.error()
        ends[message.topic(), message.partition()] = message.offset() + 1
    if ends:
        line = json.dumps([[*key, end] for key, end in ends.items()]) + "\n"
        os.write(sys.stdout.fileno(), line.encode())


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
