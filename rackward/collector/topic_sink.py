"""Snapshots as messages of a Kafka topic, for the streaming job."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from rackward.admin import check_topics, connect, read_state
from rackward.admin.connection import translated
from rackward.admin.producing import reliable_producer
from rackward.collector.errors import SinkError
from rackward.collector.messages import messages_of
from rackward.collector.snapshot import Snapshot


class TopicSink:
    """Sends to ``topic``, which must exist, and returns when brokers have it on all replicas.

    ``properties`` say how to connect, in Java's or librdkafka's words. The producer is
    idempotent: a snapshot is in the topic once, unless it was said to have failed, after which
    some of its messages may be there. ``timeout`` is in seconds.

    Raises AdminError where the cluster cannot be reached or has no such topic.
    """

    def __init__(self, properties: Mapping[str, object], topic: str, timeout: float) -> None:
        # Asked first: a producer makes topics up where brokers let it.
        with connect(properties, timeout=timeout) as admin:
            check_topics(read_state(admin, [topic], ongoing=False), [topic])
        self._topic, self._timeout = topic, timeout
        self._lock = threading.Lock()
        self._closed = False
        self._producer = reliable_producer(
            properties,
            timeout,
            "connecting the producer of snapshots",
            compression_type="gzip",
            linger_ms=20,
        )

    def last(self, cluster: str) -> float | None:  # noqa: ARG002 - a topic cannot be asked
        """See Sink."""
        return None

    def write(self, snapshot: Snapshot) -> bool:
        """See Sink; returns when all of it is acknowledged."""
        from kafka.errors import KafkaError

        with self._lock:
            if self._closed:
                raise SinkError(f"topic {self._topic} is closed: the collector has ended")
            try:
                sent = [
                    self._producer.send(self._topic, key=key, value=value)
                    for key, value in messages_of(snapshot)
                ]
                self._producer.flush(timeout=self._timeout)
                for each in sent:
                    each.get(timeout=self._timeout)
            except KafkaError as error:
                told = translated(f"sending a snapshot of {snapshot.cluster}", error)
                raise SinkError(f"{told} (topic {self._topic})") from error
        return True

    def flush(self) -> None:
        """See Sink; nothing is held back."""

    def close(self) -> None:
        """See Sink."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._producer.close(timeout=5)
