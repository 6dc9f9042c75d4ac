"""confluent's producers on six brokers in three racks, with leaders moved and a broker killed.

Bytes per broker are librdkafka's own statistics of the producer.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.serialization import StringSerializer

from integration.support.confluent import read_to_end
from integration.support.racks import BROKERS, evenly, replicas_led_from
from integration.support.topics import create_topic, delete_topic, new_name
from partitioners.confluent import AIOProducer, Producer, SerializingProducer
from rackward.testing import Cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

PARTITIONS = 12
VALUE = bytes(1000)
PER_SECOND = 4000


@pytest.fixture
def topic(cluster: Cluster) -> Iterator[str]:
    """A topic whose leaders are evenly in all racks."""
    name = new_name("produced")
    create_topic(cluster, name, replicas_led_from(evenly(PARTITIONS)), min_insync_replicas="1")
    yield name
    delete_topic(cluster, name)


class Writer:
    """Produces at a steady rate, and counts acknowledged records and bytes by broker."""

    def __init__(self, make: Callable[..., Any], cluster: Cluster, topic: str) -> None:
        self.acknowledged: list[tuple[int, int]] = []
        self.failed: list[Any] = []
        self._bytes: dict[int, int] = {}
        self._topic = topic
        properties = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "statistics.interval.ms": 200,
            "stats_cb": self._count_bytes,
        }
        if make is Producer:
            properties["client.rack"] = "a"
            # A move and a kill may leave rack a with one leader, of which others would get a part.
            properties["rackward.max_share"] = PARTITIONS
        self._producer = make(properties)
        self._producer.produce(topic, b"first")
        self._producer.flush(30)
        self.write(1.5)
        self._start = self._totals()

    def write(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(PER_SECOND // 50):
                self._producer.produce(self._topic, VALUE, on_delivery=self._delivered)
            self._producer.poll(0.02)

    def crossing(self) -> float:
        """Return the share of bytes that were sent to other racks than a."""
        sent = {
            broker: total - self._start.get(broker, 0) for broker, total in self._totals().items()
        }
        return 1 - sum(sent.get(broker, 0) for broker in BROKERS["a"]) / sum(sent.values())

    def _totals(self) -> dict[int, int]:
        assert self._producer.flush(60) == 0
        self._producer.poll(0.5)
        self._producer.poll(0.5)
        return dict(self._bytes)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append((message.partition(), message.offset()))
        else:
            self.failed.append(error)

    def _count_bytes(self, text: str) -> None:
        for broker in json.loads(text)["brokers"].values():
            if broker["nodeid"] >= 0:
                self._bytes[broker["nodeid"]] = max(
                    broker["txbytes"], self._bytes.get(broker["nodeid"], 0)
                )


def led_from_a(cluster: Cluster, topic: str) -> set[int]:
    """Return the partitions whose leaders are in rack a."""
    leaders = cluster.view([topic]).known_leaders
    return {tp.partition for tp, leader in leaders.items() if leader in BROKERS["a"]}


def stored(cluster: Cluster, topic: str) -> set[tuple[int, int]]:
    """Return partition and offset of all committed records."""
    return {(record.partition(), record.offset()) for record in read_to_end(cluster, topic)}


def test_stock_crosses_and_rackward_does_not(cluster: Cluster, topic: str) -> None:
    stock = Writer(confluent_kafka.Producer, cluster, topic)
    stock.write(5)
    rackward = Writer(Producer, cluster, topic)
    rackward.write(5)
    crossing = stock.crossing(), rackward.crossing()
    print("across: confluent {:.2%}, rackward {:.2%}".format(*crossing))
    assert crossing[0] > 0.5
    assert crossing[1] <= 0.01


def test_moved_leaders_and_a_killed_broker(cluster: Cluster, topic: str) -> None:
    writer = Writer(Producer, cluster, topic)
    writer.write(6)
    # One partition leaves the rack, while the others of its broker stay.
    view = cluster.view([topic])
    leaders = {tp: replicas[0] for tp, replicas in view.replicas.items()}
    moved = next(tp for tp, leader in leaders.items() if leader in BROKERS["a"])
    target = next(broker for broker in view.replicas[moved] if broker not in BROKERS["a"])
    move = threading.Thread(target=cluster.move_leaders, args=({moved: target},))
    move.start()
    writer.write(10)
    move.join()
    cluster.kill_broker(BROKERS["a"][0])
    try:
        writer.write(15)
    finally:
        cluster.start_broker(BROKERS["a"][0])
    writer.write(5)
    crossing = writer.crossing()
    print(f"{crossing:.2%} across, {len(writer.acknowledged)} acknowledged")
    assert not writer.failed
    assert set(writer.acknowledged) <= stored(cluster, topic)
    # Half a second of 36 after each fault, and more on a busy machine.
    assert crossing <= 0.03


def test_keyed_records_go_where_stock_sends_them(cluster: Cluster, topic: str) -> None:
    def partitions(producer: confluent_kafka.Producer) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for number in range(20_000):
            producer.produce(
                topic,
                b"",
                b"%d" % number,
                on_delivery=lambda _, m: found.__setitem__(m.key(), m.partition()),
            )
        assert producer.flush(60) == 0
        return found

    config = {"bootstrap.servers": cluster.bootstrap_servers}
    stock = partitions(confluent_kafka.Producer(config))
    assert len(stock) == 20_000
    assert partitions(Producer({**config, "client.rack": "a"})) == stock


def test_explicit_partitions_and_batches(cluster: Cluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.rack": "a"})
    near = prepare(cluster, producer, topic)
    seen: list[int] = []
    for partition in range(PARTITIONS):
        producer.produce(topic, b"", None, partition, lambda _, m: seen.append(m.partition()))
    assert producer.flush(30) == 0
    assert sorted(seen) == list(range(PARTITIONS))
    seen.clear()
    messages: list[dict[str, Any]] = [{"value": b"v"} for _ in range(100)]
    keyed: dict[str, Any] = {"key": b"k", "value": b"v"}
    assert (
        producer.produce_batch(
            topic, [*messages, keyed], on_delivery=lambda _, m: seen.append(m.partition())
        )
        == 101
    )
    assert producer.flush(30) == 0
    assert len(seen) == 101
    assert sum(partition in near for partition in seen) >= 100


def prepare(cluster: Cluster, producer: Any, topic: str, value: Any = b"") -> set[int]:
    """Wait until the producer knows the leaders; return the partitions that rack a leads."""
    near = led_from_a(cluster, topic)
    seen: list[int] = []

    def only_near() -> bool:
        seen.clear()
        for _ in range(20):
            producer.produce(
                topic, value=value, on_delivery=lambda _, m: seen.append(m.partition())
            )
        producer.flush(10)
        return set(seen) <= near

    wait_until(only_near, 30, "unkeyed records go to rack a")
    return near


def test_transactions_commit_and_abort(cluster: Cluster, topic: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "client.rack": "a",
            "transactional.id": new_name("transaction"),
        }
    )
    producer.init_transactions(30)
    committed: set[tuple[int, int]] = set()
    for commit in (True, False, True):
        written: set[tuple[int, int]] = set()
        producer.begin_transaction()
        for _ in range(100):
            producer.produce(
                topic, b"", on_delivery=lambda _, m, w=written: w.add((m.partition(), m.offset()))
            )
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
            committed |= written
        else:
            producer.abort_transaction(30)
    assert len(committed) == 200
    assert stored(cluster, topic) == committed


def test_serializing_producer(cluster: Cluster, topic: str) -> None:
    producer = SerializingProducer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "client.rack": "a",
            "value.serializer": StringSerializer(),
        }
    )
    seen: list[Any] = []
    near = prepare(cluster, producer, topic, "text")
    producer.produce(topic, value="text", on_delivery=lambda _, m: seen.append(m.partition()))
    producer.flush(30)
    assert set(seen) <= near


def test_aio_producer(cluster: Cluster, topic: str) -> None:
    async def produce() -> set[int]:
        producer = AIOProducer(
            {"bootstrap.servers": cluster.bootstrap_servers, "client.rack": "a"}, batch_size=10
        )
        for _ in range(10):
            await producer.produce(topic, b"")
        await asyncio.sleep(1)
        futures = [await producer.produce(topic, b"") for _ in range(100)]
        await producer.flush(30)
        seen = {(await future).partition() for future in futures}
        await producer.close()
        return seen

    near = led_from_a(cluster, topic)
    assert asyncio.run(produce()) <= near
