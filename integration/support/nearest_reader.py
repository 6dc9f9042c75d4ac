"""A KafkaConsumer that reads three partitions from their nearest replicas, on four brokers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from kafka import KafkaConsumer, TopicPartition

from assignors.kafka_python import NearestPolicy, read_from_nearest
from rackward.clusters import Cluster
from tests.support.waiting import TEST_TIMEOUT

RACKS = ("/dc1/r1", "/dc2/r1", "/dc2/r2", "/dc3/r1")
CLIENT_RACK = "/dc2/r9"
"""No broker is in this rack; brokers 1 and 2 are in its data centre."""

REPLICAS = ([0, 1, 3], [3, 1, 0], [0, 2, 3])
"""The first of each leads; no leader is in the consumer's data centre."""
NEAREST = (1, 1, 2)
REMOTE_BROKERS = {0, 3}

POLICY = NearestPolicy(backoff=0.5, max_backoff=1, response_timeout=3, metadata_interval=0.5)
RECORD_BYTES = 20_000
RECORDS_BETWEEN_COUNTS = 20
"""Records of each partition that are read before the brokers' byte counts are compared again."""
MIN_BYTES = len(REPLICAS) * RECORDS_BETWEEN_COUNTS * RECORD_BYTES


class Reader:
    """A consumer that reads from the nearest replicas, and the offsets that it read."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.tps = [TopicPartition(topic, number) for number in range(len(REPLICAS))]
        self.offsets: dict[int, list[int]] = {tp.partition: [] for tp in self.tps}
        self._cluster = cluster
        self.consumer = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap(CLIENT_RACK).split(","),
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
        )
        self.consumer.assign(self.tps)
        self._reading = read_from_nearest(self.consumer, rack=CLIENT_RACK, policy=POLICY)

    def reads_from(self) -> list[int | None]:
        """Return the broker that each partition was last fetched from."""
        return [self._reading.read_from.get(tp) for tp in self.tps]

    def read(self, until: Callable[[], bool], what: str) -> None:
        """Poll until ``until()`` is true; ``what`` describes it."""
        deadline = time.monotonic() + TEST_TIMEOUT
        while not until():
            assert time.monotonic() < deadline, (what, self.reads_from(), self.counts())
            for tp, records in self.consumer.poll(timeout_ms=100).items():
                self.offsets[tp.partition].extend(record.offset for record in records)

    def wait_for_brokers(self, brokers: Sequence[int | None], what: str) -> None:
        """Poll until each partition is fetched from its broker in ``brokers``; None: its leader.

        On a busy machine a leader may miss heartbeats, and another broker becomes the leader.
        """

        def reached() -> bool:
            leaders = self._cluster.view([tp.topic for tp in self.tps]).known_leaders
            return self.reads_from() == [
                leaders.get(tp) if broker is None else broker
                for tp, broker in zip(self.tps, brokers, strict=True)
            ]

        self.read(reached, what)

    def counts(self) -> list[int]:
        """Return the number of records read of each partition."""
        return [len(self.offsets[tp.partition]) for tp in self.tps]

    def wait_for_remote_share(
        self, share: Callable[[float], bool], brokers: Sequence[int | None], what: str
    ) -> None:
        """Wait until ``brokers`` are read and ``share`` accepts the share of remote bytes."""
        wait_for_share(
            self._cluster, lambda: self.wait_for_brokers(brokers, what), self.read_more, share
        )

    def read_more(self) -> None:
        """Read more records of each partition."""
        expected = [count + RECORDS_BETWEEN_COUNTS for count in self.counts()]
        self.read(
            lambda: all(count >= end for count, end in zip(self.counts(), expected, strict=True)),
            "more records of each partition",
        )


def wait_for_share(
    cluster: Cluster,
    settle: Callable[[], None],
    read_more: Callable[[], None],
    share: Callable[[float], bool],
) -> None:
    """Settle, read more, and check the share of bytes from other data centres; retry for a while.

    On a busy machine a follower may miss heartbeats. Then it is out of sync for a moment, and is
    not read.
    """
    deadline = time.monotonic() + TEST_TIMEOUT
    while True:
        settle()
        actual = remote_share(cluster, read_more)
        if share(actual):
            return
        assert time.monotonic() < deadline, f"{actual:.0%} of the bytes are from other data centres"


def remote_share(cluster: Cluster, read_more: Callable[[], None]) -> float:
    """Return the share of remote brokers in the bytes sent while more is read."""
    before = cluster.bytes_out()
    deadline = time.monotonic() + TEST_TIMEOUT
    while True:
        # Records that were fetched before may be read for a while.
        read_more()
        sent: Counter[bool] = Counter()
        for (listener, broker), count in cluster.bytes_out().items():
            sent[broker in REMOTE_BROKERS] += count - before.get((listener, broker), 0)
        if sent.total() > MIN_BYTES:
            return sent[True] / sent.total()
        assert time.monotonic() < deadline, f"only {sent.total()} bytes were sent"
