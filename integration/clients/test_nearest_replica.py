"""A KafkaConsumer that reads from the followers of its data centre, while brokers come and go."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import OffsetOutOfRangeError

from assignors.kafka_python import NearestPolicy, read_from_nearest
from assignors.kafka_python.nearest_fetcher import NearestReplicas
from integration.support.clients import Joining, KafkaPython, KafkaPythonClient
from integration.support.groups import ConsumerGroup
from integration.support.nearest_reader import (
    HERE,
    NEAREST,
    PHASE,
    POLICY,
    RACKS,
    RECORD_BYTES,
    REPLICAS,
    Reader,
    wait_for_share,
)
from integration.support.topics import Trickle, create_topic, fill, new_name, with_admin
from rackward.clusters import Cluster, LocalCluster
from tests.support.waiting import PATIENCE, wait_until

OTHER_LEADERS = [3, 0, 3]


@pytest.fixture(scope="module")
def stretched() -> Iterator[Cluster]:
    """Four brokers in three data centres; a broker that dies is missed after six seconds."""
    with LocalCluster(
        RACKS, client_racks=(HERE,), server_properties={"broker.session.timeout.ms": "6000"}
    ) as made:
        yield made


def hardly_any(share: float) -> bool:
    return share < 0.1


def test_it_reads_in_its_data_centre_and_from_leaders_while_a_follower_is_away(
    stretched: Cluster,
) -> None:
    topic = create_topic(stretched, new_name("nearest"), REPLICAS)
    value = random.Random(1).randbytes(RECORD_BYTES)
    with Trickle(stretched, topic, len(REPLICAS), every=0.05, value=value) as sent:
        reader = Reader(stretched, topic)
        try:
            reader.crosses(hardly_any, NEAREST, "followers of its data centre")

            stretched.kill_broker(1)
            # Of two partitions of three.
            leaders = (None, None, 2)
            reader.crosses(lambda share: share > 0.4, leaders, "leaders, for a dead follower")
            reader.comes_to(leaders, "leaders still")

            stretched.start_broker(1)
            reader.crosses(hardly_any, NEAREST, "the follower that is back")

            stretched.pause_broker(2)
            reader.comes_to((1, 1, None), "a leader, for one that hangs")
            stretched.resume_broker(2)
            reader.comes_to(NEAREST, "the follower that goes on")

            stretched.move_leaders(dict(zip(reader.places, OTHER_LEADERS, strict=True)))
            # Followers say that what it knows of leaders is old: those are asked for a moment.
            reader.read_more()
            reader.comes_to(NEAREST, "followers of other leaders")

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


def test_members_of_a_group_do_so_while_others_come_and_go(stretched: Cluster) -> None:
    topic = create_topic(stretched, new_name("group"), REPLICAS)
    places = [(topic, number) for number in range(len(REPLICAS))]
    readings: dict[str, NearestReplicas] = {}

    def nearest(joining: Joining) -> KafkaPythonClient:
        client = KafkaPython(lambda _: [RangePartitionAssignor])(joining)
        readings[joining.name] = read_from_nearest(client.consumer, rack=HERE, policy=POLICY)
        return client

    def read_from(group: ConsumerGroup) -> list[int | None]:
        """The broker that each partition is asked of by its owner."""
        owner = {place: name for name, each in group.members.items() for place in each.owned}
        return [
            readings[owner[place]].read_from.get(TopicPartition(*place)) if place in owner else None
            for place in places
        ]

    def settled(group: ConsumerGroup) -> None:
        """Return when each partition is read from its nearest replica by its one owner."""
        group.settle(places)
        wait_until(
            lambda: read_from(group) == [*NEAREST],
            PATIENCE,
            f"all of {topic} is read from followers of its data centre",
        )

    value = random.Random(2).randbytes(RECORD_BYTES)
    with (
        Trickle(stretched, topic, len(REPLICAS), every=0.05, value=value) as sent,
        ConsumerGroup(stretched, topics=[topic], client=nearest) as group,
    ):
        group.start("one", HERE)
        settled(group)
        group.start("two", HERE)
        settled(group)

        def read() -> list[int]:
            return [len(group.reads_of(place).seen) for place in places]

        def read_more() -> None:
            wanted = [count + PHASE for count in read()]
            wait_until(
                lambda: all(count >= want for count, want in zip(read(), wanted, strict=True)),
                PATIENCE,
                "more records of each partition",
            )

        wait_for_share(stretched, lambda: settled(group), read_more, hardly_any)

        led = [TopicPartition(*place) for place in places]
        stretched.move_leaders(dict(zip(led, OTHER_LEADERS, strict=True)))
        settled(group)
        group.stop("one")
        settled(group)
        sent.stop()
        ends = [max(sent.acknowledged[number]) + 1 for _, number in places]
        wait_until(
            lambda: all(
                group.reads_of(place).offsets() >= set(range(end))
                for place, end in zip(places, ends, strict=True)
            ),
            PATIENCE,
            "every record is read",
        )
    for place in places:
        # Where the coordinator moves while they commit, some are read again; none is passed over.
        offsets = [offset for _, offset, _ in group.reads_of(place).seen]
        assert all(after <= before + 1 for before, after in itertools.pairwise(offsets))


@pytest.mark.slow
def test_a_follower_that_lags_does_not_reset_the_position(stretched: Cluster) -> None:
    """It lags by megabytes while metadata calls it in sync: offset 210 is out of its range."""
    topic = create_topic(stretched, new_name("lags"), [[0, 1]])
    place = TopicPartition(topic, 0)
    throttle_replicas(stretched, topic)
    fill(stretched, topic, 1, 10)
    stretched.kill_broker(1)
    wait_until(lambda: 1 not in broker_ids(stretched), 30, "the brokers miss it")
    fill(stretched, topic, 1, 200)
    stretched.start_broker(1)

    consumer = KafkaConsumer(
        bootstrap_servers=stretched.bootstrap(HERE).split(","), auto_offset_reset="earliest"
    )
    try:
        update = consumer._cluster.update_metadata

        def as_of_before(answer: Any) -> None:
            for told in answer.topics:
                for partition in told.partitions:
                    partition.isr_nodes = partition.replica_nodes
            update(answer)

        consumer._cluster.update_metadata = as_of_before
        reading = read_from_nearest(consumer, rack=HERE, policy=NearestPolicy(back_off=60))
        errors = errors_of(consumer)
        consumer.assign([place])
        consumer.seek_to_end(place)
        deadline = time.monotonic() + PATIENCE
        while reading.read_from.get(place) != 0:
            assert time.monotonic() < deadline, (reading.read_from, errors)
            assert not consumer.poll(timeout_ms=100)
        assert errors == [(1, OffsetOutOfRangeError.errno)]
        assert consumer.position(place) == 210
        fill(stretched, topic, 1, 1)
        found: list[int] = []
        while not found:
            assert time.monotonic() < deadline, "what is written next"
            found += [each.offset for each in consumer.poll(timeout_ms=100).get(place, [])]
        assert found == [210]
    finally:
        consumer.close()


def broker_ids(cluster: Cluster) -> set[int]:
    return {broker.id for broker in cluster.view([]).brokers}


def throttle_replicas(cluster: Cluster, topic: str) -> None:
    """Have broker 0 send out of the topic, to followers out of sync, a byte per second at most."""
    kind = ConfigResourceType
    changes = [
        ConfigResource(kind.BROKER, "0", {"leader.replication.throttled.rate": "1"}),
        ConfigResource(kind.TOPIC, topic, {"leader.replication.throttled.replicas": "*"}),
    ]
    with_admin(cluster, lambda admin: admin.alter_configs(changes, raise_on_unknown=False))


def errors_of(consumer: Any) -> list[tuple[int, int]]:
    """Broker and code of each error that a partition has in an answer, as they come."""
    errors: list[tuple[int, int]] = []
    fetcher = consumer._fetcher
    handle = fetcher._handle_fetch_response

    def listen(broker: int, offsets: Any, sent: float, response: Any) -> None:
        for topic in response.responses:
            errors.extend((broker, said.error_code) for said in topic.partitions if said.error_code)
        handle(broker, offsets, sent, response)

    fetcher._handle_fetch_response = listen
    return errors
