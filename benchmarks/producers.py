"""CPU per record and bytes per request of rack-aware producers, beside unmodified ones.

``python -m benchmarks.producers``: six brokers in three racks, a topic of 12 partitions, records
of 200 bytes without a key. Rounds alternate; medians are printed.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from integration.support.racks import replicas_led_from
from integration.support.topics import create_topic
from partitioners.aiokafka import RackAwareProducer
from partitioners.kafka_python import RackAwarePartitioner
from rackward.testing import Cluster, LocalCluster

RECORDS = 60_000
ROUNDS = 5
VALUE = b"v" * 200


def kafka_python(cluster: Cluster, topic: str, is_rack_aware: bool) -> tuple[float, float]:
    """Return microseconds of CPU per record and bytes per request."""
    options = {"partitioner": RackAwarePartitioner(rack="a")} if is_rack_aware else {}
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **options)
    producer.partitions_for(topic)
    start = time.process_time()
    for _ in range(RECORDS):
        producer.send(topic, VALUE)
    producer.flush()
    cpu = time.process_time() - start
    size = producer.metrics()["producer-metrics"]["request-size-avg"]
    producer.close()
    return cpu / RECORDS * 1e6, size


def aiokafka(cluster: Cluster, topic: str, is_rack_aware: bool) -> tuple[float, float]:
    """Return microseconds of CPU per record and bytes of values per request."""

    async def run() -> tuple[float, float]:
        servers = cluster.bootstrap_servers
        producer: Any = (
            RackAwareProducer(rack="a", bootstrap_servers=servers)
            if is_rack_aware
            else AIOKafkaProducer(bootstrap_servers=servers)
        )
        await producer.start()
        await producer.partitions_for(topic)
        send, requests = producer.client.send, 0

        async def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal requests
            requests += type(arguments[1]).__name__.startswith("Produce")
            return await send(*arguments, **options)

        producer.client.send = counted
        start = time.process_time()
        for _ in range(RECORDS):
            await producer.send(topic, VALUE)
        await producer.flush()
        cpu = time.process_time() - start
        await producer.stop()
        return cpu / RECORDS * 1e6, RECORDS * len(VALUE) / max(requests, 1)

    return asyncio.run(run())


def main() -> None:
    """Print a line for each client."""
    with LocalCluster(["a", "a", "b", "b", "c", "c"]) as cluster:
        create_topic(cluster, "produced", replicas_led_from("aabbccaabbcc"))
        for measure in (kafka_python, aiokafka):
            rounds = [
                [measure(cluster, "produced", is_rack_aware) for is_rack_aware in (False, True)]
                for _ in range(ROUNDS)
            ]
            stock_cpu, stock_size, cpu, size = (
                statistics.median(one[arm][figure] for one in rounds)
                for arm in (0, 1)
                for figure in (0, 1)
            )
            print(
                f"{measure.__name__}: CPU per record {stock_cpu:.1f} us stock, {cpu:.1f} us"
                f" rack-aware ({cpu / stock_cpu - 1:+.1%}); bytes per request {stock_size:,.0f}"
                f" stock, {size:,.0f} rack-aware",
                flush=True,
            )


if __name__ == "__main__":
    main()
