"""The racks of partitions' leaders, which a thread reads beside a producer.

librdkafka does not tell its application that a leader has moved. So leaders are read again every
``topic.metadata.refresh.interval.ms``, at most ``MAX_INTERVAL``, and after an error of a broker, an
error in a delivery report, or a delivery that took so long that it was retried: at once, then after
pauses that double.

After an error of a broker, a leader to which no TCP connection can be made does not count: until
the controller replaces it, its partitions would only fill the producer's queue.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from partitioners.choice import PartitionChooser, log

MAX_INTERVAL = 10.0
"""Seconds between two requests for the leaders, unless something failed."""

MIN_INTERVAL = 0.5
"""Seconds between two requests, whatever failed."""

REQUEST_TIMEOUT = 10.0
"""Seconds for a request."""

CONNECT_TIMEOUT = 1.0
"""Seconds for a connection to a leader."""

CLOSE_TIMEOUT = 2.0
"""Seconds in which the thread ends. A connection and a request's next check are shorter."""

_NOT_AUTHORIZED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
}


class Leaders:
    """Chooses partitions by the racks of their leaders. It has no reference to the producer."""

    def __init__(
        self,
        admin_config: Mapping[str, Any],
        rack: str,
        max_share: float,
        sticky_seconds: float,
        interval: float,
        slow_delivery: float,
    ) -> None:
        """``admin_config`` connects; ``slow_delivery`` is in seconds, as the others."""
        self.sticky: dict[str, tuple[int, float]] = {}
        """The partition of each topic, and until when on the monotonic clock."""
        self._admin: AdminClient | None = None
        self._admin_config = dict(admin_config)
        self._rack = rack
        self._max_share = max_share
        self._sticky_seconds = sticky_seconds
        self._interval = interval
        self._slow_delivery = slow_delivery
        self._choosers: dict[str, PartitionChooser] = {}
        self._leaders: dict[str, dict[int, tuple[tuple[str, int], str | None]]] = {}
        """Host and port of each partition's leader, and its rack."""
        self._down: set[tuple[str, int]] = set()
        self._broker_failed = False
        self._warned: set[object] = set()
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def choose(self, topic: str) -> int:
        """Choose the sticky partition of ``topic``; -1 for librdkafka to choose.

        That is while the leaders are unknown, or if there is none.
        """
        with self._lock:
            chooser = self._choosers.get(topic)
            if chooser is None:
                chooser = PartitionChooser(topic, self._rack, self._max_share)
                self._choosers[topic] = chooser
                self._start()
                self._wake.set()
            candidates = chooser.candidates()
            partition = candidates[0] if candidates else -1
            self.sticky[topic] = partition, time.monotonic() + self._sticky_seconds
        return partition

    def observe(self, callback: Callable[..., object] | None) -> Callable[[Any, Any], None]:
        """Return a delivery callback that calls ``callback``, and reads leaders if it has to."""

        def delivered(error: Any, message: Any) -> None:
            latency = message.latency()
            if error is not None or (latency is not None and latency > self._slow_delivery):
                self._wake.set()
            if callback is not None:
                callback(error, message)

        return delivered

    def broker_failed(self) -> None:
        """Read the leaders, and try a connection to each."""
        self._broker_failed = True
        self._wake.set()

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Set the credentials of new connections."""
        self._admin_config |= {"sasl.username": username, "sasl.password": password}
        if self._admin is not None:
            self._admin.set_sasl_credentials(username, password)

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._wake.set()

    def join(self) -> None:
        """Wait until the thread has ended, or for ``CLOSE_TIMEOUT`` seconds."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_TIMEOUT)

    def _start(self) -> None:
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(
                target=self._run, name="rackward-producer-leaders", daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        pause = MIN_INTERVAL
        while not self._closed.is_set():
            self._wake.clear()
            check = self._broker_failed or bool(self._down)
            self._broker_failed = False
            if check:
                # At once: librdkafka may ask the broker that is down for the leaders, in vain.
                self._use_leaders(check=True)
            try:
                if self._admin is None:
                    self._admin = AdminClient(self._admin_config)
                self._read_leaders(self._admin, list(self._choosers))
            except (KafkaException, TimeoutError, TypeError, ValueError) as error:
                self._warn(type(error), f"leaders cannot be read: {error}")
            self._use_leaders(check)
            self._closed.wait(MIN_INTERVAL)
            # Again and again after a failure: brokers hear of a new leader one after the other.
            woken = self._wake.wait(pause)
            pause = MIN_INTERVAL if woken else min(2 * pause, self._interval)
        self._admin = None

    def _read_leaders(self, admin: AdminClient, topics: Iterable[str]) -> None:
        futures = admin.describe_topics(
            TopicCollection(list(topics)), request_timeout=REQUEST_TIMEOUT
        )
        deadline = time.monotonic() + REQUEST_TIMEOUT + 1
        for topic, future in futures.items():
            while not future.done():
                if self._closed.wait(0.01):
                    return
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no answer in {REQUEST_TIMEOUT:.0f} seconds")
            error = future.exception()
            if error is None:
                self._leaders[topic] = {
                    partition.id: ((leader.host, leader.port), leader.rack)
                    for partition in future.result().partitions
                    if (leader := partition.leader) is not None and leader.id >= 0
                }
                continue
            code = error.args[0].code() if isinstance(error, KafkaException) else None
            if code in _NOT_AUTHORIZED or code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._leaders[topic] = {}
            if code in _NOT_AUTHORIZED:
                self._warn(code, f"leaders of {topic} cannot be read: {error.args[0].str()}")

    def _use_leaders(self, check: bool) -> None:
        """Choose by the leaders that are known; with ``check``, by those that can be connected."""
        if check:
            nodes = {node for leaders in self._leaders.values() for node, _ in leaders.values()}
            self._down = {node for node in nodes if not _accepts_connections(*node)}
        for topic, leaders in self._leaders.items():
            self._update(
                topic,
                {
                    partition: rack
                    for partition, (node, rack) in leaders.items()
                    if node not in self._down
                },
            )

    def _update(self, topic: str, leader_racks: Mapping[int, str | None]) -> None:
        with self._lock:
            if self._choosers[topic].update(leader_racks):
                self.sticky.pop(topic, None)

    def _warn(self, kind: object, problem: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            log.warning("%s; librdkafka chooses the partitions meanwhile", problem)


def _accepts_connections(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT).close()
    except OSError:
        return False
    return True
