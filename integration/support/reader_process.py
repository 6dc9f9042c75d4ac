"""A consumer in its own process that reports each batch when ``consume`` has returned it.

Usage: python -m integration.support.reader_process VARIANT BOOTSTRAP GROUP TOPIC COUNT SECONDS

VARIANT is a name of `integration.support.confluent.Variant`, with ``-aio`` for the AIOConsumer.
Each line of standard output is a JSON list for one batch: topic, partition and next offset of each
partition in it. The process ends when it is killed, or when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterable
from typing import Any

import confluent_kafka.aio

import assignors.confluent
from integration.support.confluent import VARIANTS

AIO = {
    "confluent": confluent_kafka.aio.AIOConsumer,
    "rackward": assignors.confluent.AIOConsumer,
}


def main() -> None:
    """Read until killed."""
    name, bootstrap, group, topic, count, seconds = sys.argv[1:]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    variant = VARIANTS[name.removesuffix("-aio")]
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 300,
        "partition.assignment.strategy": variant.cooperative,
        "client.rack": "a",
        "log_level": 0,
    }
    if name.endswith("-aio"):
        asyncio.run(_read(AIO[variant.name], settings, topic, int(count), float(seconds)))
        return
    consumer = variant.consumer(settings)
    consumer.subscribe([topic])
    while True:
        _report(consumer.consume(int(count), float(seconds)))


async def _read(
    make: Any, settings: dict[str, Any], topic: str, count: int, seconds: float
) -> None:
    consumer = make(settings)
    await consumer.subscribe([topic])
    while True:
        _report(await consumer.consume(count, seconds))


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
