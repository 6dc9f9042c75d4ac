"""The coordinator of a group is killed: members still read from other brokers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pytest

from integration.support.clients import KafkaPython, KafkaPythonClient, MemberConfig, PartitionId
from integration.support.groups import ConsumerGroup, everything_is_read
from integration.support.topics import SteadyProducer, coordinator_of, create_topic
from rackward.testing import Cluster, LocalCluster
from rackward.testing.pytest_plugin import UniqueName
from tests.support.waiting import TEST_TIMEOUT, wait_until

PARTITIONS = 12
SESSION_MS = 30_000
DOWN_SECONDS = 8.0
LONGEST_GAP = 4.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers. They fence a dead broker only later than this test takes."""
    properties = {"broker.session.timeout.ms": "12000"}
    with LocalCluster(("a", "b", "c"), server_properties=properties) as cluster:
        yield cluster


class ShortPolls(KafkaPythonClient):
    """A client whose polls are too short to find a coordinator."""

    def poll(self, seconds: float) -> Iterable[tuple[PartitionId, int]]:
        return super().poll(min(seconds, 0.1))


def with_short_polls(config: MemberConfig) -> ShortPolls:
    return ShortPolls(KafkaPython()(config).consumer)


@pytest.mark.slow
def test_partitions_of_other_brokers_are_still_read(
    cluster: Cluster, unique_name: UniqueName
) -> None:
    # One replica each: with dead followers, new records are not visible for a while.
    topic = create_topic(cluster, unique_name("unattended"), [[n % 3] for n in range(PARTITIONS)])
    tps = {(topic, number) for number in range(PARTITIONS)}
    with (
        SteadyProducer(cluster, topic, PARTITIONS, every=0.1) as sent,
        ConsumerGroup(
            cluster, topics=[topic], client=with_short_polls, session_timeout_ms=SESSION_MS
        ) as group,
    ):
        group.start("a1", "a")
        group.start("b1", "b")
        group.settle(tps)
        generation = group.generation
        wait_until(
            lambda: all(group.reads_of(tp).seen for tp in tps),
            TEST_TIMEOUT,
            "every partition is read",
        )
        broker = coordinator_of(cluster, group.id)
        leaders = cluster.view([topic]).known_leaders
        other_leaders = [tp for tp, leader in leaders.items() if leader != broker]
        assert len(other_leaders) == PARTITIONS * 2 // 3
        died = time.monotonic()
        cluster.kill_broker(broker)
        try:
            time.sleep(DOWN_SECONDS)
            until = time.monotonic()
        finally:
            cluster.start_broker(broker)
        gaps = [
            group.reads_of((p.topic, p.partition)).longest_gap(died, until) for p in other_leaders
        ]
        assert max(gaps) < LONGEST_GAP
        sent.stop()
        everything_is_read(group.reads_of, topic, sent)
        group.settle(tps)
        assert group.generation == generation, "no rebalance"
