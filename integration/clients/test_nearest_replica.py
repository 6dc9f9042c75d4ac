"""KafkaConsumers that read from followers in their data centre, while brokers fail and return."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor

from assignors.kafka_python import NearestPolicy, read_from_nearest
from assignors.kafka_python.nearest_replica import NearestReplicas
from integration.support.clients import KafkaPython, KafkaPythonClient, MemberConfig
from integration.support.groups import ConsumerGroup
from integration.support.topics import SteadyProducer, create_topic, new_name
from rackward.testing import Cluster, LocalCluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

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


OTHER_LEADERS = [3, 0, 3]


@pytest.fixture(scope="module")
def stretched() -> Iterator[Cluster]:
    """Four brokers in three data centres; a dead broker is noticed after six seconds."""
    with LocalCluster(
        RACKS, client_racks=(CLIENT_RACK,), server_properties={"broker.session.timeout.ms": "6000"}
    ) as cluster:
        yield cluster


def almost_none(share: float) -> bool:
    return share < 0.1


def test_leaders_are_read_while_a_follower_is_unavailable(
    stretched: Cluster,
) -> None:
    topic = create_topic(stretched, new_name("nearest"), REPLICAS)
    value = random.Random(1).randbytes(RECORD_BYTES)
    with SteadyProducer(stretched, topic, len(REPLICAS), every=0.05, value=value) as sent:
        reader = Reader(stretched, topic)
        try:
            reader.wait_for_remote_share(almost_none, NEAREST, "followers of its data centre")

            stretched.kill_broker(1)
            # Two of the three partitions.
            leaders = (None, None, 2)
            reader.wait_for_remote_share(
                lambda share: share > 0.4, leaders, "leaders, for a dead follower"
            )
            reader.wait_for_brokers(leaders, "leaders still")

            stretched.start_broker(1)
            reader.wait_for_remote_share(almost_none, NEAREST, "the follower that is back")

            stretched.pause_broker(2)
            reader.wait_for_brokers((1, 1, None), "a leader, for one that hangs")
            stretched.resume_broker(2)
            reader.wait_for_brokers(NEAREST, "the follower that goes on")

            stretched.move_leaders(dict(zip(reader.tps, OTHER_LEADERS, strict=True)))
            # Its metadata has the old leaders: leaders are read for a moment.
            reader.read_more()
            reader.wait_for_brokers(NEAREST, "followers of other leaders")

            sent.stop()
            last = {number: max(offsets) for number, offsets in sent.acknowledged.items()}
            reader.read(
                lambda: all(reader.offsets[number][-1] >= end for number, end in last.items()),
                "the end",
            )
        finally:
            reader.consumer.close()
    for offsets in reader.offsets.values():
        assert offsets == list(range(len(offsets)))


def test_members_read_followers_while_others_join_and_leave(stretched: Cluster) -> None:
    topic = create_topic(stretched, new_name("group"), REPLICAS)
    tps = [(topic, number) for number in range(len(REPLICAS))]
    readings: dict[str, NearestReplicas] = {}

    def nearest(config: MemberConfig) -> KafkaPythonClient:
        client = KafkaPython(lambda _: [RangePartitionAssignor])(config)
        readings[config.name] = read_from_nearest(client.consumer, rack=CLIENT_RACK, policy=POLICY)
        return client

    def read_from(group: ConsumerGroup) -> list[int | None]:
        """Return the broker that the owner of each partition fetches it from."""
        owner = {tp: name for name, each in group.members.items() for tp in each.owned}
        return [
            readings[owner[tp]].read_from.get(TopicPartition(*tp)) if tp in owner else None
            for tp in tps
        ]

    def wait_until_settled(group: ConsumerGroup) -> None:
        """Wait until each partition is read from its nearest replica."""
        group.settle(tps)
        wait_until(
            lambda: read_from(group) == [*NEAREST],
            TEST_TIMEOUT,
            f"{topic} is read from followers in the data centre of the consumers",
        )

    value = random.Random(2).randbytes(RECORD_BYTES)
    with (
        SteadyProducer(stretched, topic, len(REPLICAS), every=0.05, value=value) as sent,
        ConsumerGroup(stretched, topics=[topic], client=nearest) as group,
    ):
        group.start("one", CLIENT_RACK)
        wait_until_settled(group)
        group.start("two", CLIENT_RACK)
        wait_until_settled(group)

        def read() -> list[int]:
            return [len(group.reads_of(tp).seen) for tp in tps]

        def read_more() -> None:
            expected = [count + RECORDS_BETWEEN_COUNTS for count in read()]
            wait_until(
                lambda: all(count >= end for count, end in zip(read(), expected, strict=True)),
                TEST_TIMEOUT,
                "more records of each partition",
            )

        wait_for_share(stretched, lambda: wait_until_settled(group), read_more, almost_none)

        led = [TopicPartition(*tp) for tp in tps]
        stretched.move_leaders(dict(zip(led, OTHER_LEADERS, strict=True)))
        wait_until_settled(group)
        group.stop("one")
        wait_until_settled(group)
        sent.stop()
        ends = [max(sent.acknowledged[number]) + 1 for _, number in tps]
        wait_until(
            lambda: all(
                group.reads_of(tp).offsets() >= set(range(end))
                for tp, end in zip(tps, ends, strict=True)
            ),
            TEST_TIMEOUT,
            "every record is read",
        )
    for tp in tps:
        # If the coordinator moves during a commit, records are read again; none is skipped.
        offsets = [offset for _, offset, _ in group.reads_of(tp).seen]
        assert all(after <= before + 1 for before, after in itertools.pairwise(offsets))
