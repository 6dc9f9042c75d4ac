"""CPU per record of partitioners.confluent.Producer and of confluent's, in interleaved runs.

``python -m benchmarks.confluent_producer`` starts six brokers in three racks. For each producer it
prints the least CPU of the producing thread in microseconds per record, with and without a key, and
the bytes and records per batch that librdkafka's statistics give.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka

from integration.support.topics import create_topic
from partitioners.confluent import Producer
from rackward.testing import LocalCluster

RECORDS = 100_000
ROUNDS = 15
VALUE = bytes(100)
TOPIC = "records"


def cpu_per_record(producer: confluent_kafka.Producer, key: bytes | None) -> float:
    """Return the microseconds of CPU of this thread for ``produce``, without ``poll``."""
    produce = producer.produce
    started = time.thread_time()
    for _ in range(RECORDS):
        produce(TOPIC, VALUE, key=key)
    spent = time.thread_time() - started
    producer.flush(60)
    return spent / RECORDS * 1e6


def batches(make: Callable[..., Any], config: dict[str, Any]) -> tuple[float, float]:
    """Return the mean bytes and records of a batch, at 50,000 records per second for 6 seconds."""
    seen: list[dict[str, Any]] = []
    producer = make(
        {
            **config,
            "statistics.interval.ms": 1000,
            "stats_cb": lambda text: seen.append(json.loads(text)),
        }
    )
    until = time.monotonic() + 6
    while time.monotonic() < until:
        for _ in range(500):
            producer.produce(TOPIC, VALUE)
        producer.poll(0)
        time.sleep(0.01)
    producer.flush(60)
    windows = [window["topics"][TOPIC] for window in seen[2:]]
    batch_count = sum(window["batchcnt"]["cnt"] for window in windows)
    return (
        sum(window["batchsize"]["sum"] for window in windows) / batch_count,
        sum(window["batchcnt"]["sum"] for window in windows) / batch_count,
    )


def run(bootstrap: str) -> None:
    """Print the measurements."""
    config = {"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 2 * RECORDS}
    arms: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "confluent": (confluent_kafka.Producer, config),
        "rackward": (Producer, {**config, "client.rack": "a"}),
    }
    producers = {name: make(properties) for name, (make, properties) in arms.items()}
    for producer in producers.values():
        producer.produce(TOPIC, VALUE)
        producer.flush(60)
    time.sleep(1)
    for key in (None, b"key"):
        spent: dict[str, list[float]] = {name: [] for name in producers}
        for _ in range(ROUNDS):
            for name, producer in producers.items():
                spent[name].append(cpu_per_record(producer, key))
        least = {name: min(values) for name, values in spent.items()}
        print(
            f"{'without' if key is None else 'with'} key: "
            + ", ".join(f"{name} {value:.3f}" for name, value in least.items())
            + f" us, difference {least['rackward'] - least['confluent']:+.3f} us"
        )
    for name, (make, properties) in [*arms.items()] * 2:
        size, count = batches(make, properties)
        print(f"{name}: {size:.0f} bytes, {count:.1f} records a batch")


def main() -> None:
    """Print the measurements on a cluster of this program."""
    with LocalCluster(["a", "b", "c"] * 2) as cluster:
        rows = [[(start + step) % 6 for step in range(3)] for start in range(12)]
        create_topic(cluster, TOPIC, rows)
        run(cluster.bootstrap_servers)


if __name__ == "__main__":
    main()
