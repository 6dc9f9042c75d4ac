"""Read a topic to its end in a process of its own, and print what that took as JSON.

``python -m benchmarks.confluent_reader own|ours poll|consume BOOTSTRAP TOPIC RECORDS``
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
LONGEST_WAIT = 60.0
"""Seconds without a record after which the reader gives up."""


def consumer(who: str, bootstrap: str) -> Any:
    """confluent's own consumer, or ours with the assignor that matches."""
    from confluent_kafka import Consumer as Own

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"bench-{uuid.uuid4().hex[:8]}",
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "cooperative-sticky",
        "client.rack": "a",
    }
    if who == "own":
        return Own(settings)
    # Only here: whose memory is measured holds nothing of ours.
    from assignors.confluent import Consumer as Ours

    strategy = {"partition.assignment.strategy": "leader-rack-aware-cooperative-sticky"}
    return Ours(settings | strategy)


def batches(reader: Any, how: str) -> Callable[[], Sequence[Any]]:
    """The next records, at most BATCH of them; nothing where none come for a second."""
    if how == "consume":
        return lambda: reader.consume(BATCH, 1.0)

    def polled() -> list[Any]:
        found = []
        for _ in range(BATCH):
            message = reader.poll(1.0)
            if message is None:
                break
            found.append(message)
        return found

    return polled


def read(reader: Any, how: str, topic: str, records: int) -> dict[str, float]:
    """Seconds, CPU seconds and bytes from the first batch on until there were so many records."""
    next_batch = batches(reader, how)
    reader.subscribe([topic])
    patience = time.monotonic() + LONGEST_WAIT
    while not (first := next_batch()):
        if time.monotonic() > patience:
            sys.exit(f"no record of {topic} within {LONGEST_WAIT:g} s")
    count, size = len(first), sum(map(len, first))
    started, cpu = time.perf_counter(), time.process_time()
    before = count, size
    while count < records:
        batch = next_batch()
        if batch:
            patience = time.monotonic() + LONGEST_WAIT
        elif time.monotonic() > patience:
            sys.exit(f"{count} of {records} records, and no more for {LONGEST_WAIT:g} s")
        for message in batch:
            if message.error() is not None:
                raise KafkaException(message.error())
            size += len(message)
        count += len(batch)
    return {
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "records": count - before[0],
        "bytes": size - before[1],
    }


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
    who, how, bootstrap, topic, records = sys.argv[1:]
    reader = consumer(who, bootstrap)
    figures = read(reader, how, topic, int(records))
    reader.close()
    print(json.dumps(figures | {"peak": peak_memory()}))


if __name__ == "__main__":
    main()
