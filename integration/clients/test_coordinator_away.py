"""A broker that coordinates a group dies: members go on reading what other brokers lead."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pytest

from integration.support.clients import Joining, KafkaPython, KafkaPythonClient, Place
from integration.support.groups import ConsumerGroup, everything_is_read
from integration.support.topics import Trickle, coordinator_of, create_topic
from rackward.clusters import Cluster, LocalCluster
from rackward.clusters.pytest_plugin import UniqueName
from tests.support.waiting import PATIENCE, wait_until

PARTITIONS = 12
SESSION_MS = 30_000
DOWN_SECONDS = 8.0
LONGEST_GAP = 4.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers that miss one only when it has been away for longer than here."""
    properties = {"broker.session.timeout.ms": "12000"}
    with LocalCluster(("a", "b", "c"), server_properties=properties) as made:
        yield made


class Impatient(KafkaPythonClient):
    """One whose polls are too short for a coordinator to be found in."""

    def poll(self, seconds: float) -> Iterable[tuple[Place, int]]:
        return super().poll(min(seconds, 0.1))


def impatient(joining: Joining) -> Impatient:
    return Impatient(KafkaPython()(joining).consumer)


@pytest.mark.slow
def test_what_others_lead_is_read_on(cluster: Cluster, unique_name: UniqueName) -> None:
    # One replica each: where followers have died, nobody sees new records for a while.
    topic = create_topic(cluster, unique_name("unattended"), [[n % 3] for n in range(PARTITIONS)])
    places = {(topic, number) for number in range(PARTITIONS)}
    with (
        Trickle(cluster, topic, PARTITIONS, every=0.1) as sent,
        ConsumerGroup(
            cluster, topics=[topic], client=impatient, session_timeout_ms=SESSION_MS
        ) as group,
    ):
        group.start("a1", "a")
        group.start("b1", "b")
        group.settle(places)
        generation = group.generation
        wait_until(
            lambda: all(group.reads_of(place).seen for place in places),
            PATIENCE,
            "every partition is read",
        )
        broker = coordinator_of(cluster, group.id)
        leaders = cluster.view([topic]).leaders
        elsewhere = [place for place, leader in leaders.items() if leader != broker]
        assert len(elsewhere) == PARTITIONS * 2 // 3
        died = time.monotonic()
        cluster.kill_broker(broker)
        try:
            time.sleep(DOWN_SECONDS)
            until = time.monotonic()
        finally:
            cluster.start_broker(broker)
        gaps = [group.reads_of((p.topic, p.partition)).longest_gap(died, until) for p in elsewhere]
        assert max(gaps) < LONGEST_GAP
        sent.stop()
        everything_is_read(group.reads_of, topic, sent)
        group.settle(places)
        assert group.generation == generation, "nobody had to join again"
