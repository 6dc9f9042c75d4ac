"""Read records of a topic in a separate process, and print the time and memory as JSON.

``python -m benchmarks.confluent_reader CLIENT METHOD BOOTSTRAP GROUP TOPIC RECORDS FREEZE``

This module imports nothing that confluent's consumer does not need: neither numpy nor rackward.
CLIENT is ``confluent`` or ``rackward``. METHOD is ``poll`` or the number of records per call of
``consume``. FREEZE is 1 to call
``gc.freeze()`` before reading, else 0.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

WARM_UP = 4
"""Before the measurement, 1 / WARM_UP of the records are read."""

IDLE_CALLS = 60
"""Calls of a second without a record after which the reader gives up."""


def make_consumer(client: str, bootstrap: str, group: str) -> Any:
    """Return confluent's consumer, or rackward's with the corresponding assignor."""
    import confluent_kafka

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "cooperative-sticky",
        "client.rack": "a",
        # librdkafka's pause when its queue is full; by default (1000) readers mostly wait for it.
        "fetch.queue.backoff.ms": 10,
        # Most of the memory, and by default (64 MB) its size varies from run to run.
        "queued.max.messages.kbytes": 8192,
    }
    if client == "confluent":
        return confluent_kafka.Consumer(settings)
    # Imported here, so that it does not count as memory of confluent's consumer.
    import assignors.confluent

    strategy = {"partition.assignment.strategy": "leader-rack-aware-cooperative-sticky"}
    return assignors.confluent.Consumer(settings | strategy)


def measure(
    consumer: Any, method: str, topic: str, records: int, *, freeze: bool
) -> dict[str, float]:
    """Return the CPU seconds of ``records`` records after the warm-up, and the memory in bytes."""
    read = poll if method == "poll" else partial(consume, batch_size=int(method))
    consumer.subscribe([topic])
    read(consumer, records // WARM_UP)
    if freeze:
        gc.freeze()
    started, cpu = time.perf_counter(), time.process_time()
    read(consumer, records)
    return {
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "memory": peak_memory(),
    }


def consume(consumer: Any, records: int, *, batch_size: int) -> None:
    """Read the next ``records`` records in batches of up to ``batch_size``."""
    idle = 0
    while records and idle < IDLE_CALLS:
        # Not more than there are: consume waits for the number that it is called with.
        batch = consumer.consume(min(batch_size, records), 1.0)
        for message in batch:
            if message.error() is not None:
                raise KafkaException(message.error())
        records -= len(batch)
        idle = 0 if batch else idle + 1
    _check_end(records)


def poll(consumer: Any, records: int) -> None:
    """Read the next ``records`` records one by one."""
    idle = 0
    while records and idle < IDLE_CALLS:
        message = consumer.poll(1.0)
        if message is None:
            idle += 1
            continue
        if message.error() is not None:
            raise KafkaException(message.error())
        records -= 1
    _check_end(records)


def _check_end(missing: int) -> None:
    if missing:
        sys.exit(f"{missing} records were not read in {IDLE_CALLS} calls of 1 s")


def peak_memory() -> int:
    """Return the maximum resident size of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux getrusage starts with the size of the parent process.
        (line,) = (each for each in status.read_text().splitlines() if each.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def main() -> None:
    """Run the measurement that the arguments describe."""
    client, method, bootstrap, group, topic, records, freeze = sys.argv[1:]
    consumer = make_consumer(client, bootstrap, group)
    result = measure(consumer, method, topic, int(records), freeze=freeze == "1")
    consumer.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
