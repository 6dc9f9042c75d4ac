"""CPU per record of partitioners.confluent.Producer and of confluent's, in interleaved runs.

``python -m benchmarks.confluent_producer BOOTSTRAP TOPIC RACK`` produces to an existing topic.
Without arguments it starts a cluster of six brokers in three racks. For each producer it prints
the least CPU of the producing thread in microseconds per record, with and without a key, and the
bytes and records per batch that librdkafka's statistics give.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka

from partitioners.confluent import Producer

RECORDS = 100_000
ROUNDS = 15
VALUE = bytes(100)


def cpu_per_record(producer: confluent_kafka.Producer, topic: str, key: bytes | None) -> float:
    """Return the microseconds of CPU of this thread for ``produce``, without ``poll``."""
    produce = producer.produce
    started = time.thread_time()
    for _ in range(RECORDS):
        produce(topic, VALUE, key=key)
    spent = time.thread_time() - started
    producer.flush(60)
    return spent / RECORDS * 1e6


def batches(make: Callable[..., Any], config: dict[str, Any], topic: str) -> tuple[float, float]:
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
            producer.produce(topic, VALUE)
        producer.poll(0)
        time.sleep(0.01)
    producer.flush(60)
    windows = [window["topics"][topic] for window in seen[2:]]
    batch_count = sum(window["batchcnt"]["cnt"] for window in windows)
    return (
        sum(window["batchsize"]["sum"] for window in windows) / batch_count,
        sum(window["batchcnt"]["sum"] for window in windows) / batch_count,
    )


def run(bootstrap: str, topic: str, rack: str) -> None:
    """Print the measurements."""
    config = {"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 2 * RECORDS}
    producers = {
        "confluent": confluent_kafka.Producer(config),
        "rackward": Producer({**config, "client.rack": rack}),
    }
    for producer in producers.values():
        producer.produce(topic, VALUE)
        producer.flush(60)
    time.sleep(1)
    for key in (None, b"key"):
        spent: dict[str, list[float]] = {name: [] for name in producers}
        for _ in range(ROUNDS):
            for name, producer in producers.items():
                spent[name].append(cpu_per_record(producer, topic, key))
        least = {name: min(values) for name, values in spent.items()}
        print(
            f"{'without' if key is None else 'with'} key: "
            + ", ".join(f"{name} {value:.3f}" for name, value in least.items())
            + f" us, difference {least['rackward'] - least['confluent']:+.3f} us"
        )
    arms: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
        ("confluent", confluent_kafka.Producer, config),
        ("rackward", Producer, {**config, "client.rack": rack}),
    ]
    for name, make, properties in arms * 2:
        size, count = batches(make, properties, topic)
        print(f"{name}: {size:.0f} bytes, {count:.1f} records a batch")


def main() -> None:
    """Run on the given topic, or on a cluster of this program."""
    if len(sys.argv) == 4:
        run(*sys.argv[1:])
        return
    from integration.support.topics import create_topic
    from rackward.testing import LocalCluster

    with LocalCluster(["a", "b", "c"] * 2) as cluster:
        create_topic(
            cluster, "records", [[(start + step) % 6 for step in range(3)] for start in range(12)]
        )
        run(cluster.bootstrap_servers, "records", "a")


if __name__ == "__main__":
    main()
