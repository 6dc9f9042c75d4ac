"""Read records of a topic in a separate process, and print the time and memory as JSON.

``python -m benchmarks.confluent_reader CLIENT METHOD QUEUE_BACKOFF_MS BOOTSTRAP TOPIC RECORDS``

CLIENT is ``confluent`` or ``rackward``, METHOD is ``poll`` or ``consume``.
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
"""Before the measurement, 1 / WARM_UP of the records are read."""

IDLE_TIMEOUT = 60.0
"""Seconds without a record after which the reader gives up."""


def make_consumer(client: str, bootstrap: str, queue_backoff_ms: int) -> Any:
    """Return confluent's consumer, or ours with the corresponding assignor."""
    import confluent_kafka

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"bench-{uuid.uuid4().hex[:8]}",
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "cooperative-sticky",
        "client.rack": "a",
        "fetch.queue.backoff.ms": queue_backoff_ms,
    }
    if client == "confluent":
        return confluent_kafka.Consumer(settings)
    # Imported here, so that it does not count as memory of confluent's consumer.
    import assignors.confluent

    strategy = {"partition.assignment.strategy": "leader-rack-aware-cooperative-sticky"}
    return assignors.confluent.Consumer(settings | strategy)


def batch_reader(consumer: Any, method: str) -> Callable[[int], Sequence[Any]]:
    """Return a function that reads up to a number of records, fewer after a second without any."""
    if method == "consume":
        return lambda max_records: consumer.consume(max_records, 1.0)

    def poll_batch(max_records: int) -> list[Any]:
        records = []
        for _ in range(max_records):
            message = consumer.poll(1.0)
            if message is None:
                break
            records.append(message)
        return records

    return poll_batch


def measure(consumer: Any, method: str, topic: str, records: int) -> dict[str, float]:
    """Return the seconds, CPU seconds and bytes of ``records`` records after the warm-up."""
    read_batch = batch_reader(consumer, method)
    consumer.subscribe([topic])
    read(read_batch, records // WARM_UP)
    started, cpu = time.perf_counter(), time.process_time()
    size = read(read_batch, records)
    return {
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "bytes": size,
    }


def read(read_batch: Callable[[int], Sequence[Any]], records: int) -> int:
    """Read the next ``records`` records, and return their size in bytes."""
    count = size = 0
    deadline = time.monotonic() + IDLE_TIMEOUT
    while count < records:
        # Not more than there are: consume waits for the number that it is called with.
        batch = read_batch(min(BATCH, records - count))
        if batch:
            deadline = time.monotonic() + IDLE_TIMEOUT
        elif time.monotonic() > deadline:
            sys.exit(f"{count} of {records} records, and none for {IDLE_TIMEOUT:g} s")
        for message in batch:
            if message.error() is not None:
                raise KafkaException(message.error())
            size += len(message)
        count += len(batch)
    return size


def peak_memory() -> int:
    """Return the maximum resident size of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux getrusage starts with the size of the parent process.
        (line,) = (each for each in status.read_text().splitlines() if each.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * BYTES_PER_KILOBYTE


def main() -> None:
    """Run the measurement that the arguments describe."""
    client, method, queue_backoff_ms, bootstrap, topic, records = sys.argv[1:]
    consumer = make_consumer(client, bootstrap, int(queue_backoff_ms))
    result = measure(consumer, method, topic, int(records))
    consumer.close()
    print(json.dumps(result | {"peak": peak_memory()}))


if __name__ == "__main__":
    main()
