"""A collector on a test's cluster, and what it wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException
from kafka import KafkaProducer
from pyarrow import dataset

from integration.clients import Joining, Place, Told
from integration.confluent_clients import ConfluentClient
from rackward.admin import AdminConnection, connect
from rackward.clusters import Cluster
from rackward.collector import ClusterSource

Rows = list[dict[str, Any]]


def read_table(root: Path, table: str) -> Rows:
    """All rows of a table that was collected to a folder, without their date."""
    found = dataset.dataset(root / table, format="parquet").to_table()
    rows: Rows = found.to_pylist()
    return rows


def fill(cluster: Cluster, topic: str, partitions: int, records: int) -> None:
    """That many records into each partition: a kilobyte each, which cannot be compressed."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all")
    for _ in range(records):
        for partition in range(partitions):
            producer.send(topic, os.urandom(1000), partition=partition)
    producer.flush(30)
    producer.close()


def source(cluster: Cluster, name: str = "here", **settings: Any) -> ClusterSource:
    """The cluster as one to collect from."""
    return ClusterSource(name, {"bootstrap.servers": cluster.bootstrap_servers}, **settings)


def open_source(given: ClusterSource) -> AdminConnection:
    """Connect to a source, with the patience of a test."""
    return connect(given.properties, timeout=20.0)


def collect(*arguments: str) -> subprocess.Popen[str]:
    """``rackward traffic collect`` in a process of its own, its output piped."""
    return subprocess.Popen(
        [sys.executable, "-m", "rackward.cli", "traffic", "collect", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class PlainConfluent(ConfluentClient):
    """A Consumer of confluent-kafka that is asked nothing from other threads than its own.

    librdkafka's ``assignment`` waits for its main thread, which may itself wait for a poll.
    """

    _owned: frozenset[Place] = frozenset()

    def subscribe(
        self, told: Told, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        """As a `Client` does."""

        def note(kind: str, places: Iterable[Place]) -> None:
            changed = frozenset(places)
            self._owned = self._owned | changed if kind == "assigned" else self._owned - changed
            told(kind, changed)

        super().subscribe(note, topics=topics, pattern=pattern)

    def poll(self, seconds: float) -> Iterable[tuple[Place, int]]:
        """As a `Client` does, a record at a time."""
        message = self.consumer.poll(seconds)
        if message is None:
            return []
        if message.error() is not None:
            raise KafkaException(message.error())
        return [((message.topic(), message.partition()), message.offset())]

    def owned(self) -> frozenset[Place]:
        """As a `Client` does."""
        return self._owned

    def generation(self) -> int:
        """The same for all, and -1 for one that owns nothing, which then has not joined yet."""
        return 0 if self._owned else -1


def librdkafka(joining: Joining) -> PlainConfluent:
    """A member of a classic group, with librdkafka's own range assignor."""
    return PlainConfluent(Consumer(_settings(joining) | {"partition.assignment.strategy": "range"}))


def new_protocol(joining: Joining) -> PlainConfluent:
    """A member of a group of the new consumer protocol (KIP-848)."""
    return PlainConfluent(Consumer(_settings(joining) | {"group.protocol": "consumer"}))


def _settings(joining: Joining) -> dict[str, Any]:
    return {
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
        "fetch.wait.max.ms": 100,
        "log_level": 0,
        "bootstrap.servers": joining.bootstrap,
        "group.id": joining.group_id,
        "client.id": joining.name,
        **({} if joining.rack is None else {"client.rack": joining.rack}),
    }
