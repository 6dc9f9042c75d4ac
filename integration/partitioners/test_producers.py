"""Producers on the shared cluster: bytes that brokers receive, while leaders change and die."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer, TopicPartition

from integration.support.program_clients import go_consumer
from integration.support.racks import BROKERS, replicas_led_from
from integration.support.topics import create_topic, records_of
from partitioners.aiokafka import RackAwareProducer
from partitioners.kafka_python import RackAwarePartitioner
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

Produce = Callable[[Cluster, str, bool, Iterable[int], float], "dict[int, int]"]
"""Sends numbers, pauses after each, and returns the partition of each when all are acknowledged."""

RACKS = [*"aabbccaabbcc"]
MAX_SHARE = len(RACKS)
"""A broker that is killed leaves its rack with few leaders, of which others would get a part."""


def with_kafka_python(
    cluster: Cluster, topic: str, is_rack_aware: bool, numbers: Iterable[int], pause: float
) -> dict[int, int]:
    options = (
        {"partitioner": RackAwarePartitioner(rack="a", max_share=MAX_SHARE)}
        if is_rack_aware
        else {}
    )
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap("a"),
        acks="all",
        # It asks for new leaders after each attempt to connect to a dead broker. By default these
        # become as rare as every 30 s.
        reconnect_backoff_max_ms=500,
        **options,
    )
    futures = {}
    for number in numbers:
        futures[number] = producer.send(topic, b"%08d" % number + b"v" * 492)
        time.sleep(pause)
    producer.flush(timeout=60)
    partitions = {number: future.get(timeout=60).partition for number, future in futures.items()}
    producer.close()
    return partitions


def with_aiokafka(
    cluster: Cluster, topic: str, is_rack_aware: bool, numbers: Iterable[int], pause: float
) -> dict[int, int]:
    async def run() -> dict[int, int]:
        settings: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap("a"),
            "acks": "all",
            # After which unsent records fail.
            "request_timeout_ms": int(TEST_TIMEOUT * 1000),
        }
        producer = (
            RackAwareProducer(rack="a", max_share=MAX_SHARE, **settings)
            if is_rack_aware
            else AIOKafkaProducer(**settings)
        )
        await producer.start()
        futures = {}
        for number in numbers:
            futures[number] = await producer.send(topic, b"%08d" % number + b"v" * 492)
            if pause:
                await asyncio.sleep(pause)
        done = await asyncio.gather(*futures.values())
        await producer.stop()
        return {number: each.partition for number, each in zip(futures, done, strict=True)}

    return asyncio.run(run())


def with_franz_go(
    cluster: Cluster, topic: str, is_rack_aware: bool, numbers: Iterable[int], pause: float
) -> dict[int, int]:
    """Produce with a peer: franz-go's RackAwarePartitioning. Needs Go."""
    rack = "a" if is_rack_aware else ""
    command = [str(go_consumer()), "produce", cluster.bootstrap("a"), topic, rack]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, text=True)
        with process:
            assert process.stdin is not None
            for number in numbers:
                process.stdin.write(f"{number:08d}" + "v" * 492 + "\n")
                if pause:
                    process.stdin.flush()
                    time.sleep(pause)
        assert process.returncode == 0
        output.seek(0)
        records = [json.loads(line) for line in output]
    return {int(record["value"]): record["partition"] for record in records}


def clients(in_ci: Produce) -> pytest.MarkDecorator:
    """Return the parameter ``produce``; all but ``in_ci`` are slow tests."""
    names = {
        "kafka-python": with_kafka_python,
        "aiokafka": with_aiokafka,
        "franz-go": with_franz_go,
    }
    return pytest.mark.parametrize(
        "produce",
        [
            pytest.param(each, id=name, marks=() if each is in_ci else pytest.mark.slow)
            for name, each in names.items()
        ],
    )


def crossing(cluster: Cluster, topic: str, partitions: Iterable[int]) -> float:
    """Return the share of records, by their partitions, whose leader is not in rack a."""
    leaders = cluster.view([topic]).known_leaders
    counts = Counter(partitions)
    across = sum(
        count
        for partition, count in counts.items()
        if leaders[TopicPartition(topic, partition)] not in BROKERS["a"]
    )
    return across / counts.total()


class Received:
    """Bytes from clients in rack a, as the brokers count them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._before = cluster.bytes_in()

    def crossing(self) -> float:
        """Return the share in brokers of other racks since the last call."""
        after = self._cluster.bytes_in()
        grown: Counter[bool] = Counter()
        for (rack, broker), size in after.items():
            if rack == "a":
                grown[broker in BROKERS["a"]] += size - self._before.get((rack, broker), 0)
        self._before = after
        return grown[False] / grown.total()


def other_leaders_than(cluster: Cluster, topic: str, broker: int) -> None:
    """Return when other brokers lead all partitions."""
    wait_until(
        lambda: broker not in cluster.view([topic]).known_leaders.values(),
        60,
        f"other brokers lead the partitions of broker {broker}, which was killed",
    )


@clients(in_ci=with_kafka_python)
def test_bytes_stay_in_the_rack_when_leaders_change(
    cluster: Cluster, unique_name: Callable[[str], str], produce: Produce
) -> None:
    topic = unique_name("produced")
    create_topic(cluster, topic, replicas_led_from(RACKS))
    received = Received(cluster)
    stock = produce(cluster, topic, False, range(6_000), 0)
    assert 0.5 < crossing(cluster, topic, stock.values()) < 0.8
    stock_share = received.crossing()
    rackward = produce(cluster, topic, True, range(6_000, 12_000), 0)
    assert crossing(cluster, topic, rackward.values()) <= 0.01
    share = received.crossing()
    print(f"bytes across: stock {stock_share:.1%}, rackward {share:.2%}")
    assert 0.5 < stock_share < 0.8
    assert share <= 0.01

    replicas = cluster.view([topic]).replicas
    others = {
        partition: next(b for b in brokers if b in BROKERS["a" if index >= 8 else "c"])
        for index, (partition, brokers) in enumerate(sorted(replicas.items()))
    }
    cluster.move_leaders(others)
    moved = produce(cluster, topic, True, range(12_000, 18_000), 0)
    assert crossing(cluster, topic, moved.values()) <= 0.01
    assert received.crossing() <= 0.01

    cluster.kill_broker(4)
    try:
        other_leaders_than(cluster, topic, 4)
        received = Received(cluster)
        killed = produce(cluster, topic, True, range(18_000, 24_000), 0)
        assert crossing(cluster, topic, killed.values()) <= 0.01
        assert received.crossing() <= 0.01
    finally:
        cluster.start_broker(4)
    values = {record.value[:8] for record in records_of(cluster, topic)}
    assert values == {b"%08d" % n for n in range(24_000)}


class Numbers:
    """Numbers from 0 on until stopped; ``count`` is how many were taken."""

    def __init__(self) -> None:
        self.count = 0
        self.stopped = threading.Event()

    def __iter__(self) -> Iterator[int]:
        while not self.stopped.is_set():
            self.count += 1
            yield self.count - 1

    def wait_for(self, more: int) -> None:
        """Return when so many more were taken."""
        until = self.count + more
        wait_until(lambda: self.count >= until, TEST_TIMEOUT, f"{more} more records are sent")


@clients(in_ci=with_aiokafka)
def test_a_broker_in_the_rack_is_killed_during_writes(
    cluster: Cluster, unique_name: Callable[[str], str], produce: Produce
) -> None:
    topic = unique_name("killed")
    create_topic(cluster, topic, replicas_led_from(RACKS))
    killed = cluster.view([topic]).known_leaders[TopicPartition(topic, 0)]
    assert killed in BROKERS["a"]
    numbers = Numbers()
    with ExitStack() as cleanup:
        executor = cleanup.enter_context(ThreadPoolExecutor(1))
        cleanup.callback(numbers.stopped.set)
        future = executor.submit(produce, cluster, topic, True, numbers, 0.002)
        numbers.wait_for(500)
        before = numbers.count
        cluster.kill_broker(killed)
        cleanup.callback(cluster.start_broker, killed)
        other_leaders_than(cluster, topic, killed)
        # What waits for the dead leader goes to the new one, in another rack, and the client asks
        # for the new leaders within its pause between attempts.
        numbers.wait_for(1_000)
        after = numbers.count
        received = Received(cluster)
        numbers.wait_for(2_000)
        share = received.crossing()
        numbers.stopped.set()
        partitions = future.result(timeout=120)
        meanwhile, afterwards = (
            crossing(cluster, topic, (partitions[n] for n in part))
            for part in (range(before, after), range(after, numbers.count))
        )
    print(
        f"across: {meanwhile:.1%} of {after - before} records until the new leaders were known, "
        f"then {afterwards:.1%} of the records, {share:.2%} of the bytes"
    )
    assert afterwards <= 0.01
    assert share <= 0.01
    assert len(partitions) == numbers.count
    values = {record.value[:8] for record in records_of(cluster, topic)}
    assert values == {b"%08d" % n for n in range(numbers.count)}
