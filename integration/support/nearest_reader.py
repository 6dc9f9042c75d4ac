"""A KafkaConsumer that reads from the nearest of three partitions' replicas, on four brokers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from kafka import KafkaConsumer, TopicPartition

from assignors.kafka_python import NearestPolicy, read_from_nearest
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE

RACKS = ("/dc1/r1", "/dc2/r1", "/dc2/r2", "/dc3/r1")
HERE = "/dc2/r9"
"""No broker's rack: what is near is near by its data centre."""

REPLICAS = ([0, 1, 3], [3, 1, 0], [0, 2, 3])
"""The first of each leads, and none of these is in the consumer's data centre."""
NEAREST = (1, 1, 2)
AWAY = {0, 3}

POLICY = NearestPolicy(back_off=0.5, most_back_off=1, patience=3, refresh=0.5)
RECORD_BYTES = 20_000
PHASE = 20
"""Records of each partition that are read between two looks at the brokers' counts."""
ENOUGH = len(REPLICAS) * PHASE * RECORD_BYTES


class Reader:
    """A consumer that nobody told of followers but us, and the offsets that it read."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.places = [TopicPartition(topic, number) for number in range(len(REPLICAS))]
        self.offsets: dict[int, list[int]] = {place.partition: [] for place in self.places}
        self._cluster = cluster
        self.consumer = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap(HERE).split(","),
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
        )
        self.consumer.assign(self.places)
        self._reading = read_from_nearest(self.consumer, rack=HERE, policy=POLICY)

    def reads_from(self) -> list[int | None]:
        """The broker that each partition was asked of last."""
        return [self._reading.read_from.get(place) for place in self.places]

    def read(self, until: Callable[[], bool], what: str) -> None:
        """Poll until that is so."""
        deadline = time.monotonic() + PATIENCE
        while not until():
            assert time.monotonic() < deadline, (what, self.reads_from(), self.counts())
            for place, records in self.consumer.poll(timeout_ms=100).items():
                self.offsets[place.partition].extend(record.offset for record in records)

    def comes_to(self, brokers: Sequence[int | None], what: str) -> None:
        """Poll until it is these that each partition is asked of; None: whichever leads it.

        A busy machine may keep a leader from its heartbeats, and another one leads from then on.
        """

        def there() -> bool:
            leaders = self._cluster.view([place.topic for place in self.places]).leaders
            return self.reads_from() == [
                leaders.get(place) if broker is None else broker
                for place, broker in zip(self.places, brokers, strict=True)
            ]

        self.read(there, what)

    def counts(self) -> list[int]:
        """How many records of each partition have been read."""
        return [len(self.offsets[place.partition]) for place in self.places]

    def crosses(
        self, share: Callable[[float], bool], brokers: Sequence[int | None], what: str
    ) -> None:
        """Come to read from these; of the bytes sent from then on ``share`` is from elsewhere."""
        wait_for_share(self._cluster, lambda: self.comes_to(brokers, what), self.read_more, share)

    def read_more(self) -> None:
        """Read on for a while."""
        wanted = [count + PHASE for count in self.counts()]
        self.read(
            lambda: all(count >= want for count, want in zip(self.counts(), wanted, strict=True)),
            "more records of each partition",
        )


def wait_for_share(
    cluster: Cluster,
    settle: Callable[[], None],
    read_more: Callable[[], None],
    share: Callable[[float], bool],
) -> None:
    """Settle, read on, and see that the share of bytes of other data centres is right.

    A follower that a busy machine keeps from its heartbeats is out of sync for a moment, and
    not read from: so this is done again for a while.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        settle()
        found = crossing(cluster, read_more)
        if share(found):
            return
        assert time.monotonic() < deadline, f"{found:.0%} of the bytes cross data centres"


def crossing(cluster: Cluster, read_more: Callable[[], None]) -> float:
    """Of the bytes sent while more is read, `ENOUGH` at least, the share of other data centres."""
    before = cluster.bytes_out()
    deadline = time.monotonic() + PATIENCE
    while True:
        # What was fetched before may be read for a while.
        read_more()
        sent: Counter[bool] = Counter()
        for (door, broker), count in cluster.bytes_out().items():
            sent[broker in AWAY] += count - before.get((door, broker), 0)
        if sent.total() > ENOUGH:
            return sent[True] / sent.total()
        assert time.monotonic() < deadline, f"only {sent.total()} bytes were sent"
