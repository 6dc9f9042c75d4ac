"""A broker that is missing from one metadata response: with and without the workaround."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import UnknownBrokerIdError

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import SteadyProducer, create_topic, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT

PARTITIONS = 12


class Reader:
    """A consumer, the offsets that it read of each partition, and the number of errors."""

    def __init__(self, cluster: Cluster, topic: str, *, workarounds: bool) -> None:
        self.offsets: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        self.errors = 0
        self.consumer = KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap("a").split(","),
            group_id=new_name("missing"),
            partition_assignment_strategy=[
                LeaderRackAwareCooperativeStickyAssignor(rack="a", workarounds=workarounds)
            ],
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            metadata_max_age_ms=2000,
        )

    def read(self, until: Callable[[], bool]) -> bool:
        """Poll until ``until()`` is true; return False if it is not within `TEST_TIMEOUT`."""
        deadline = time.monotonic() + TEST_TIMEOUT
        while not until():
            if time.monotonic() > deadline:
                return False
            try:
                batches = self.consumer.poll(timeout_ms=200)
            except UnknownBrokerIdError:
                self.errors += 1
                continue
            for tp, records in batches.items():
                self.offsets[tp.partition].extend(record.offset for record in records)
        return True

    def has_read(self, sent: SteadyProducer) -> bool:
        """Return whether each acknowledged record has been read."""
        return all(offsets <= set(self.offsets[p]) for p, offsets in sent.acknowledged.items())

    def remove_from_metadata(self, broker: int, until: Callable[[], bool]) -> Callable[[], bool]:
        """Remove ``broker`` from metadata responses, and close the connection to it.

        From the next response on, until ``until()`` is true. Return a function that returns whether
        there was a response.
        """
        manager = self.consumer._client._manager
        update = manager.cluster.update_metadata
        responses: list[int] = []

        def update_without_broker(response: Any) -> Any:
            if responses and until():
                return update(response)
            response.brokers = [each for each in response.brokers if each.node_id != broker]
            updated = update(response)
            if not responses and (connection := manager._conns.get(broker)) is not None:
                connection.close()
            responses.append(broker)
            return updated

        manager.cluster.update_metadata = update_without_broker
        return lambda: bool(responses)


@contextmanager
def reading(
    cluster: Cluster, *, workarounds: bool
) -> Iterator[tuple[Reader, SteadyProducer, list[int]]]:
    """Yield a reader that has read of every partition, and the partitions that broker 3 leads."""
    rows = replicas_led_from(evenly(PARTITIONS))
    topic = create_topic(cluster, new_name("missing"), rows)
    with SteadyProducer(cluster, topic, PARTITIONS) as sent:
        reader = Reader(cluster, topic, workarounds=workarounds)
        try:
            assert reader.read(lambda: all(len(each) > 3 for each in reader.offsets.values()))
            led = [number for number, row in enumerate(rows) if row[0] == 3]
            assert led
            # Several responses: a busy reader may not use the first one in time.
            removed = reader.remove_from_metadata(3, lambda: workarounds or reader.errors > 0)
            assert reader.read(removed), "no metadata response"
            yield reader, sent, led
        finally:
            reader.consumer.close()


def test_without_the_workaround_partitions_of_the_broker_are_not_read(cluster: Cluster) -> None:
    with reading(cluster, workarounds=False) as (reader, sent, led):
        assert reader.read(lambda: reader.errors > 0), "no error was raised"
        until = time.monotonic() + 8
        others = reader.offsets.keys() - set(led)

        def others_are_read(since: dict[int, int]) -> bool:
            return any(len(reader.offsets[number]) > since[number] + 20 for number in others)

        # Records that were fetched before come first.
        sent_by_then = {number: len(offsets) for number, offsets in sent.acknowledged.items()}
        assert reader.read(lambda: others_are_read(sent_by_then)), (
            "the other partitions are not read"
        )
        before = {number: len(offsets) for number, offsets in reader.offsets.items()}
        assert reader.read(
            lambda: (
                time.monotonic() > until
                and all(len(sent.acknowledged[number]) > before[number] + 20 for number in led)
                and others_are_read(before)
            )
        ), "too few records were sent and read"
        assert [len(reader.offsets[number]) for number in led] == [before[n] for n in led]


def test_with_the_workaround_every_record_is_read_once_and_in_order(cluster: Cluster) -> None:
    with reading(cluster, workarounds=True) as (reader, sent, led):
        before = {number: len(reader.offsets[number]) for number in led}
        assert reader.read(lambda: all(len(reader.offsets[n]) > before[n] + 20 for n in led))
        sent.stop()
        assert reader.read(lambda: reader.has_read(sent)), "not read to the end"
    assert reader.errors == 0
    for offsets in reader.offsets.values():
        assert offsets == list(range(len(offsets)))
