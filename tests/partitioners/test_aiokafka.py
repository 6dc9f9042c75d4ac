from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.structs import BrokerMetadata, PartitionMetadata

from partitioners.aiokafka import RackAwareProducer

RACKS: dict[int, str | None] = {1: "a", 2: "b", 3: "c"}


def fill(producer: Any, racks: dict[int, str | None] = RACKS) -> None:
    """Give the producer's own metadata 12 partitions, without brokers that could send them."""
    cluster = producer._metadata
    cluster._brokers = {n: BrokerMetadata(n, "h", 1, rack) for n, rack in racks.items()}
    cluster._partitions = {
        "t": {p: PartitionMetadata("t", p, p % 3 + 1, [], [], 0) for p in range(12)}
    }


def with_producer(test: Callable[[Any], None], **options: Any) -> None:
    async def run() -> None:
        producer = RackAwareProducer(bootstrap_servers="127.0.0.1:1", **options)
        fill(producer)
        test(producer)
        await producer.stop()

    asyncio.run(run())


def unkeyed(producer: Any, value: bytes = b"v" * 976) -> int:
    return int(producer._partition("t", None, None, value, None, value))


def test_a_partition_gets_a_batch_of_bytes_then_the_next() -> None:
    def test(producer: Any) -> None:
        chosen = [unkeyed(producer) for _ in range(16 * 8)]
        assert Counter(chosen) == dict.fromkeys((0, 3, 6, 9), 32)
        assert sum(a != b for a, b in pairwise(chosen)) == 7

    with_producer(test, rack="a", max_batch_size=16_000)


def test_a_record_larger_than_a_batch_is_sent() -> None:
    def test(producer: Any) -> None:
        assert {unkeyed(producer, b"v" * 100_000) for _ in range(9)} == {0, 3, 6, 9}

    with_producer(test, rack="a")


def test_a_moved_leader_is_left_at_once() -> None:
    def test(producer: Any) -> None:
        chosen = unkeyed(producer)
        partitions = producer._metadata._partitions["t"]
        partitions[chosen] = PartitionMetadata("t", chosen, 2, [], [], 0)
        assert unkeyed(producer) != chosen
        for partition in partitions:
            partitions[partition] = PartitionMetadata("t", partition, -1, [], [], 0)
        assert unkeyed(producer) in range(12)

    with_producer(test, rack="a")


def test_without_rack_records_go_to_all_partitions() -> None:
    def test(producer: Any) -> None:
        assert {unkeyed(producer) for _ in range(500)} == set(range(12))

    with_producer(test, rack="/")


def test_keyed_and_explicit_records_are_as_in_aiokafka() -> None:
    def test(producer: Any) -> None:
        rng = random.Random(5)
        stock = AIOKafkaProducer._partition
        for _ in range(20_000):
            key = rng.randbytes(rng.randrange(24))
            arguments = ("t", None, key, None, key, None)
            assert producer._partition(*arguments) == stock(producer, *arguments)
        assert producer._partition("t", 5, None, None, None, None) == 5

    with_producer(test, rack="a")
