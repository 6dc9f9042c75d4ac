"""Counts the bytes of a KafkaConsumer's fetches, and reports them to a topic.

    consumer = KafkaConsumer(...)
    with TrafficReporter(consumer, "rackward-client-reports"):
        for record in consumer: ...

Counted is what brokers sent of each partition: whole record batches, as they are on the wire and on
disk, whether they were used or discarded. Counting takes place where kafka-python handles a fetch
response, at a negligible cost. Sending takes place in a thread with a producer of its own; errors
are logged at intervals, with the number of lost reports, and never reach the consumer.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from assignors.client_assignor import ClientAssignor
from assignors.group_leader import log, sanitize
from assignors.kafka_python.internals import check_kafka_python
from assignors.rack_discovery import RackSource, resolve_rack
from assignors.traffic_reports import TopicPartition, TrafficCounter, report_messages
from placement_core import InvalidOptionError

REPORT_SECONDS = 60.0
SEND_SECONDS = 5.0
"""For a message, if the producer has no metadata of the topic, or its buffer is full."""

CLOSE_SECONDS = 2.0
"""For the last report, when the reporter closes."""

WARN_SECONDS = 600.0
"""Between two warnings about lost reports."""

_CONNECTION_SETTINGS = ("bootstrap_servers", "security_protocol", "proxy_url", "client_dns_lookup")
_CONNECTION_PREFIXES = ("ssl_", "sasl_")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class TrafficReporter:
    """Reports what ``consumer`` fetches to ``topic``, every ``every`` seconds and when it closes.

    The topic is on the consumer's cluster, which is reached by the consumer's own settings.
    ``rack`` is the consumer's (None: that of its assignor, else what
    :mod:`assignors.rack_discovery` finds); ``cluster`` is the name of the cluster in the pipeline
    (None: the collector fills in its own). ``send`` takes the key and value of a message, instead
    of a producer.

    Close it before the consumer, or use it in ``with``. Several reporters of one consumer, and
    :func:`~assignors.kafka_python.read_from_nearest`, may be used together and closed in any order.
    Raises InvalidOptionError if the consumer has no group, and KafkaError if the producer cannot be
    constructed.
    """

    def __init__(
        self,
        consumer: Any,
        topic: str,
        *,
        every: float = REPORT_SECONDS,
        rack: str | RackSource | None = None,
        cluster: str | None = None,
        send: Callable[[bytes, bytes], object] | None = None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        check_kafka_python()
        group = consumer.config["group_id"]
        if not group:
            raise InvalidOptionError(
                "the consumer has no group_id, and reports are by group: set group_id, or use no"
                " TrafficReporter"
            )
        if not every > 0:
            raise InvalidOptionError(f"every is {every!r}: give a positive number of seconds")
        self._consumer, self._group, self._topic = consumer, str(group), topic
        self._every, self._cluster, self._now = every, cluster, now
        self._rack = resolve_rack(_assignor_rack(consumer) if rack is None else rack, os.environ)
        self._producer: Any = None
        if send is None:
            self._producer = KafkaProducer(
                **_connection_settings(consumer.config),
                acks="all",
                max_block_ms=int(SEND_SECONDS * 1000),
            )
            send = self._send_by_producer
        self._send = send
        self._lost = 0
        self._warned_at: datetime | None = None
        self._counter = TrafficCounter(now())
        self._counting = True
        self._closing = threading.Event()
        self._upstream_handle_fetch_response = consumer._fetcher._handle_fetch_response
        consumer._fetcher._handle_fetch_response = self._handle_fetch_response
        self._thread = threading.Thread(target=self._run, name="traffic-reporter", daemon=True)
        self._thread.start()

    def report(self) -> None:
        """Report now. Never raises: an error is logged, and this report is lost."""
        try:
            report = self._counter.take_report(self._now(), self._assigned())
            if report is None:
                return
            for value in report_messages(
                report,
                cluster=self._cluster,
                group=self._group,
                member_id=self._member_id(),
                to_rack=self._rack,
            ):
                self._send(self._group.encode(), value)
        except Exception as error:  # noqa: BLE001 - a report must never stop the consumer
            self._warn(error)

    def close(self) -> None:
        """Stop counting and send the last report; idempotent.

        Take at most two seconds, unless ``send`` takes longer: a report that the producer cannot
        send by then may be lost, which is logged.
        """
        if self._closing.is_set():
            return
        fetcher = self._consumer._fetcher
        self._counting = False
        # If the method was wrapped again since, this wrapper stays, and only passes responses on.
        if fetcher._handle_fetch_response == self._handle_fetch_response:
            fetcher._handle_fetch_response = self._upstream_handle_fetch_response
        self._closing.set()
        self._thread.join(CLOSE_SECONDS)
        if self._producer is None:
            self.report()
        elif self._thread.is_alive():
            self._warn(KafkaTimeoutError(f"the last one was not sent in {CLOSE_SECONDS:.0f} s"))

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
        while not self._closing.wait(self._every):
            self.report()
        if self._producer is not None:
            self.report()
            try:
                self._producer.close(timeout=CLOSE_SECONDS)
            except KafkaError as error:
                self._warn(error)

    def _handle_fetch_response(self, broker: int, offsets: Any, sent: float, response: Any) -> None:
        """Count the records of a response, then have the fetcher handle it."""
        if self._counting:
            rack = self._broker_rack(broker)
            for topic in response.responses:
                for part in topic.partitions:
                    if part.records:
                        partition = (topic.topic, part.partition_index)
                        self._counter.add(partition, rack, len(part.records))
        self._upstream_handle_fetch_response(broker, offsets, sent, response)

    def _assigned(self) -> Iterable[tuple[TopicPartition, str | None]]:
        cluster = self._consumer._client.cluster
        for tp in sorted(self._consumer.assignment()):
            leader = cluster.leader_for_partition(tp)
            if leader is not None and leader >= 0:
                yield (tp.topic, tp.partition), self._broker_rack(leader)

    def _broker_rack(self, broker: int) -> str | None:
        metadata = self._consumer._client.cluster.broker_metadata(broker)
        return (metadata.rack or None) if metadata is not None else None

    def _member_id(self) -> str:
        """Return the member id; before the consumer has joined, its client id."""
        member_id = self._consumer.group_metadata().member_id
        return str(member_id or self._consumer.config["client_id"])

    def _send_by_producer(self, key: bytes, value: bytes) -> None:
        self._producer.send(self._topic, key=key, value=value).add_errback(self._warn)

    def _warn(self, error: object) -> None:
        self._lost += 1
        now = self._now()
        if self._warned_at is not None and (now - self._warned_at).total_seconds() < WARN_SECONDS:
            return
        self._warned_at = now
        reason = str(error) or repr(error)
        if isinstance(error, KafkaTimeoutError):
            # The producer waits for a topic that does not exist, as it does for a broker.
            reason += " (check that the topic exists, and that this user may write to it)"
        log.warning(
            "group=%s: traffic reports to topic %s are lost: %s; lost=%d; the consumer goes on",
            self._group,
            self._topic,
            sanitize(reason, 500),
            self._lost,
        )


def _connection_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the consumer's settings for connecting to its cluster, for a producer."""
    return {
        name: config[name]
        for name in KafkaProducer.DEFAULT_CONFIG
        if name in config
        and (name in _CONNECTION_SETTINGS or name.startswith(_CONNECTION_PREFIXES))
    } | {"client_id": f"{config['client_id']}-traffic-reporter"}


def _assignor_rack(consumer: Any) -> str | None:
    """Return the rack of the first of the consumer's assignors that has one, or client_rack."""
    for assignor in consumer.config["partition_assignment_strategy"]:
        if isinstance(assignor, ClientAssignor) and assignor.rack:
            return assignor.rack
    return consumer.config.get("client_rack") or None
