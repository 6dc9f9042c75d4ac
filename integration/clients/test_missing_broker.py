"""A broker that one metadata answer lacks: kafka-python's stall, and that ours has none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import UnknownBrokerIdError

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import Trickle, create_topic, new_name
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE

PARTITIONS = 12


class Reader:
    """One consumer, the offsets that it read of each partition, and the errors it outlived."""

    def __init__(self, cluster: Cluster, topic: str, *, hardened: bool) -> None:
        self.offsets: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        self.errors = 0
        self.consumer = KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap("a").split(","),
            group_id=new_name("missing"),
            partition_assignment_strategy=[
                LeaderRackAwareCooperativeStickyAssignor(rack="a", hardened=hardened)
            ],
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            metadata_max_age_ms=2000,
        )

    def read(self, until: Callable[[], bool]) -> bool:
        """Poll until that is so; False if it is not within `PATIENCE`."""
        deadline = time.monotonic() + PATIENCE
        while not until():
            if time.monotonic() > deadline:
                return False
            try:
                found = self.consumer.poll(timeout_ms=200)
            except UnknownBrokerIdError:
                self.errors += 1
                continue
            for place, records in found.items():
                self.offsets[place.partition].extend(record.offset for record in records)
        return True

    def everything(self, sent: Trickle) -> bool:
        """Whether each record that was acknowledged has been read."""
        return all(offsets <= set(self.offsets[p]) for p, offsets in sent.acknowledged.items())

    def forget(self, broker: int, until: Callable[[], bool]) -> Callable[[], bool]:
        """Have the next metadata answer lack ``broker``, and the connection to it be closed.

        So the answers after it, ``until`` that is so. Returns whether the first was given.
        """
        manager = self.consumer._client._manager
        update = manager.cluster.update_metadata
        done: list[int] = []

        def without(answer: Any) -> Any:
            if done and until():
                return update(answer)
            answer.brokers = [each for each in answer.brokers if each.node_id != broker]
            updated = update(answer)
            if not done and (connection := manager._conns.get(broker)) is not None:
                connection.close()
            done.append(broker)
            return updated

        manager.cluster.update_metadata = without
        return lambda: bool(done)


@contextmanager
def reading(cluster: Cluster, *, hardened: bool) -> Iterator[tuple[Reader, Trickle, list[int]]]:
    """A reader that has read of every partition, and the partitions that broker 3 leads."""
    rows = replicas_led_from(evenly(PARTITIONS))
    topic = create_topic(cluster, new_name("missing"), rows)
    with Trickle(cluster, topic, PARTITIONS) as sent:
        reader = Reader(cluster, topic, hardened=hardened)
        try:
            assert reader.read(lambda: all(len(each) > 3 for each in reader.offsets.values()))
            led = [number for number, row in enumerate(rows) if row[0] == 3]
            assert led
            # An answer that a busy reader does not look at in time shows nothing.
            forgotten = reader.forget(3, lambda: hardened or reader.errors > 0)
            assert reader.read(forgotten), "no metadata answer"
            yield reader, sent, led
        finally:
            reader.consumer.close()


def test_without_the_workaround_what_it_leads_is_read_no_more(cluster: Cluster) -> None:
    with reading(cluster, hardened=False) as (reader, sent, led):
        assert reader.read(lambda: reader.errors > 0), "it did not notice"
        until = time.monotonic() + 8
        others = reader.offsets.keys() - set(led)

        def goes_on(since: dict[int, int]) -> bool:
            return any(len(reader.offsets[number]) > since[number] + 20 for number in others)

        # What it had fetched by then comes before what was sent afterwards.
        sent_by_then = {number: len(offsets) for number, offsets in sent.acknowledged.items()}
        assert reader.read(lambda: goes_on(sent_by_then)), "nothing is read of the others"
        before = {number: len(offsets) for number, offsets in reader.offsets.items()}
        assert reader.read(
            lambda: (
                time.monotonic() > until
                and all(len(sent.acknowledged[number]) > before[number] + 20 for number in led)
                and goes_on(before)
            )
        ), "not as much is sent and read as ought to be"
        assert [len(reader.offsets[number]) for number in led] == [before[n] for n in led]


def test_with_it_everything_is_read_once_and_in_order(cluster: Cluster) -> None:
    with reading(cluster, hardened=True) as (reader, sent, led):
        before = {number: len(reader.offsets[number]) for number in led}
        assert reader.read(lambda: all(len(reader.offsets[n]) > before[n] + 20 for n in led))
        sent.stop()
        assert reader.read(lambda: reader.everything(sent)), "not read to the end"
    assert reader.errors == 0
    for offsets in reader.offsets.values():
        assert offsets == list(range(len(offsets)))
