"""Counting the bytes of a KafkaConsumer's fetches, and reporting them to a topic.

    consumer = KafkaConsumer(...)
    with TrafficReporter(consumer, "rackward-client-reports"):
        for record in consumer: ...

What is counted is what brokers sent of each partition: whole batches, as they are on the wire and
on disk, whether they were then used or thrown away. The counting is done where kafka-python takes a
fetch's answer, and costs nothing that could be noticed; the sending is done in a thread with a
producer of its own, and whatever goes wrong there is logged once and never reaches the consumer.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from kafka import KafkaProducer
from kafka.errors import KafkaError

from assignors.group_leader import log
from assignors.kafka_python.assignors import LeaderRackAwareAssignor
from assignors.rack_discovery import RackSource, chosen_rack
from assignors.traffic_reports import Place, Tally, report_messages
from placement_core import InvalidOptionError

EVERY_SECONDS = 60.0
CLOSE_SECONDS = 5.0

_CONNECTION = ("bootstrap_servers", "security_protocol", "proxy_url", "client_dns_lookup")
_CONNECTION_PREFIXES = ("ssl_", "sasl_")


def _now() -> datetime:
    return datetime.now(UTC)


class TrafficReporter:
    """Reports what ``consumer`` fetches to ``topic``, every ``every`` seconds and at the end.

    The topic is on the consumer's cluster, and is reached by the consumer's own settings.
    ``rack`` is where the consumer stands (None: as its assignor says, else as
    :mod:`assignors.rack_discovery` finds); ``cluster`` is the name that the pipeline knows the
    cluster by (None: the collector fills in its own). ``send`` takes a message's key and value,
    in the place of a producer that is made here.

    Close it before the consumer, or use it in ``with``. Raises InvalidOptionError where the
    consumer has no group, and KafkaError where the producer cannot be made.
    """

    def __init__(
        self,
        consumer: Any,
        topic: str,
        *,
        every: float = EVERY_SECONDS,
        rack: str | RackSource | None = None,
        cluster: str | None = None,
        send: Callable[[bytes, bytes], object] | None = None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        group = consumer.config["group_id"]
        if not group:
            raise InvalidOptionError("the consumer has no group_id: there is nothing to report")
        if not every > 0:
            raise InvalidOptionError(f"every is {every!r}: give a positive number of seconds")
        self._consumer, self._group, self._topic = consumer, str(group), topic
        self._every, self._cluster, self._now = every, cluster, now
        self._rack = chosen_rack(_rack_of(consumer) if rack is None else rack, os.environ)
        self._producer: Any = None
        if send is None:
            self._producer = KafkaProducer(
                **_settings(consumer.config), acks="all", max_block_ms=int(CLOSE_SECONDS * 1000)
            )
            send = self._send_by_producer
        self._send = send
        self._warned = False
        self._tally = Tally(now())
        self._ending = threading.Event()
        self._counted = consumer._fetcher._handle_fetch_response
        consumer._fetcher._handle_fetch_response = self._count
        self._thread = threading.Thread(target=self._run, name="traffic-reporter", daemon=True)
        self._thread.start()

    def report(self) -> None:
        """Report now; never raises over what goes wrong on the way."""
        report = self._tally.take(self._now(), self._held())
        if report is None:
            return
        try:
            for value in report_messages(
                report,
                cluster=self._cluster,
                group=self._group,
                member_id=self._member_id(),
                to_rack=self._rack,
            ):
                self._send(self._group.encode(), value)
        except (KafkaError, OSError) as error:
            self._warn(error)

    def close(self) -> None:
        """Send the last report and stop counting; again: nothing."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._thread.join(CLOSE_SECONDS)
        self._consumer._fetcher._handle_fetch_response = self._counted
        self.report()
        if self._producer is not None:
            try:
                self._producer.close(timeout=CLOSE_SECONDS)
            except KafkaError as error:
                self._warn(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._ending.wait(self._every):
            self.report()

    def _count(self, node_id: int, fetch_offsets: Any, send_time: float, response: Any) -> None:
        """In the place of the fetcher's own method, which is called afterwards."""
        rack = self._rack_of_broker(node_id)
        for topic in response.responses:
            for each in topic.partitions:
                if each.records:
                    self._tally.add((topic.topic, each.partition_index), rack, len(each.records))
        self._counted(node_id, fetch_offsets, send_time, response)

    def _held(self) -> Iterable[tuple[Place, str | None]]:
        cluster = self._consumer._client.cluster
        for place in sorted(self._consumer._subscription.assigned_partitions()):
            leader = cluster.leader_for_partition(place)
            if leader is not None and leader >= 0:
                yield (place.topic, place.partition), self._rack_of_broker(leader)

    def _rack_of_broker(self, broker: int) -> str | None:
        found = self._consumer._client.cluster.broker_metadata(broker)
        return (found.rack or None) if found is not None else None

    def _member_id(self) -> str:
        """The member's id, or what else tells the consumers of a group apart before it joins."""
        generation = getattr(self._consumer._coordinator, "_generation", None)
        joined = generation.member_id if generation is not None else ""
        return joined or str(self._consumer.config["client_id"])

    def _send_by_producer(self, key: bytes, value: bytes) -> None:
        self._producer.send(self._topic, key=key, value=value).add_errback(self._warn)

    def _warn(self, error: object) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "group %s: reports of traffic to topic %s are lost: %s; consuming goes on",
                self._group,
                self._topic,
                error,
            )


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """The consumer's settings that say how to reach its cluster."""
    return {
        name: config[name]
        for name in KafkaProducer.DEFAULT_CONFIG
        if name in config and (name in _CONNECTION or name.startswith(_CONNECTION_PREFIXES))
    } | {"client_id": f"{config['client_id']}-traffic-reporter"}


def _rack_of(consumer: Any) -> str | None:
    """The rack that one of the consumer's assignors tells the group, or its client_rack."""
    for assignor in consumer.config["partition_assignment_strategy"]:
        if isinstance(assignor, LeaderRackAwareAssignor) and assignor.rack:
            return assignor.rack
    return consumer.config.get("client_rack") or None
