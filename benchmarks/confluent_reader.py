"""Read so many records in a process of its own, and print what that took as JSON.

``python -m benchmarks.confluent_reader own|ours poll|consume REST_MS BOOTSTRAP TOPIC RECORDS``
"""

from __future__ import annotations

import json
import resource
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from benchmarks.measure import BYTES_PER_KILOBYTE

BATCH = 1000
WARM_UP = 4
"""A quarter as many records are read before those that count."""

LONGEST_WAIT = 60.0
"""Seconds without a record after which the reader gives up."""


def consumer(who: str, bootstrap: str, rest_ms: int) -> Any:
    """confluent's own consumer, or ours with the assignor that matches."""
    from confluent_kafka import Consumer as Own

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"bench-{uuid.uuid4().hex[:8]}",
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "cooperative-sticky",
        "client.rack": "a",
        "fetch.queue.backoff.ms": rest_ms,
    }
    if who == "own":
        return Own(settings)
    # Only here: whose memory is measured holds nothing of ours.
    from assignors.confluent import Consumer as Ours

    strategy = {"partition.assignment.strategy": "leader-rack-aware-cooperative-sticky"}
    return Ours(settings | strategy)


def batches(reader: Any, how: str) -> Callable[[int], Sequence[Any]]:
    """The next records, at most so many; nothing where none come for a second."""
    if how == "consume":
        return lambda most: reader.consume(most, 1.0)

    def polled(most: int) -> list[Any]:
        found = []
        for _ in range(most):
            message = reader.poll(1.0)
            if message is None:
                break
            found.append(message)
        return found

    return polled


def read(reader: Any, how: str, topic: str, records: int) -> dict[str, float]:
    """Seconds, CPU seconds and bytes that ``records`` took after those of the warm-up."""
    next_batch = batches(reader, how)
    reader.subscribe([topic])
    collect(next_batch, records // WARM_UP)
    started, cpu = time.perf_counter(), time.process_time()
    size = collect(next_batch, records)
    return {
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "bytes": size,
    }


def collect(next_batch: Callable[[int], Sequence[Any]], records: int) -> int:
    """The bytes of the next so many records."""
    count = size = 0
    patience = time.monotonic() + LONGEST_WAIT
    while count < records:
        # No more than there are: consume waits for all that it is asked for.
        batch = next_batch(min(BATCH, records - count))
        if batch:
            patience = time.monotonic() + LONGEST_WAIT
        elif time.monotonic() > patience:
            sys.exit(f"{count} of {records} records, and no more for {LONGEST_WAIT:g} s")
        for message in batch:
            if message.error() is not None:
                raise KafkaException(message.error())
            size += len(message)
        count += len(batch)
    return size


def peak_memory() -> int:
    """The most bytes that this program has held at once."""
    status = Path("/proc/self/status")
    if status.exists():
        # What getrusage says on Linux begins with the size of the process that started this one.
        (line,) = (each for each in status.read_text().splitlines() if each.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * BYTES_PER_KILOBYTE


def main() -> None:
    """See the module's text."""
    who, how, rest_ms, bootstrap, topic, records = sys.argv[1:]
    reader = consumer(who, bootstrap, int(rest_ms))
    figures = read(reader, how, topic, int(records))
    reader.close()
    print(json.dumps(figures | {"peak": peak_memory()}))


if __name__ == "__main__":
    main()
