"""A collector on a test's cluster, and what it wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException
from kafka import KafkaProducer
from pyarrow import dataset

from integration.clients import Joining, Place, Told
from integration.confluent_clients import ConfluentClient
from integration.waiting import PATIENCE, wait_until
from placement_core import ClusterView
from rackward.admin import AdminConnection, connect
from rackward.clusters import Cluster
from rackward.clusters.admin import read_view
from rackward.clusters.base import BaseCluster
from rackward.collector import ClusterSource

Rows = list[dict[str, Any]]

State = TypeVar("State")
Look = TypeVar("Look")

OFFSETS = "__consumer_offsets"
ATTEMPTS = 10


def read_table(root: Path, table: str) -> Rows:
    """All rows of a table that was collected to a folder, without their date."""
    found = dataset.dataset(root / table, format="parquet").to_table()
    rows: Rows = found.to_pylist()
    return rows


def fill(cluster: Cluster, topic: str, partitions: int, records: int) -> None:
    """That many records into each partition: a kilobyte each, which cannot be compressed."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all")
    sent = [
        producer.send(topic, os.urandom(1000), partition=partition)
        for _ in range(records)
        for partition in range(partitions)
    ]
    producer.flush(PATIENCE)
    for each in sent:
        each.get(PATIENCE)
    producer.close()


def source(cluster: Cluster, name: str = "here", **settings: Any) -> ClusterSource:
    """The cluster as one to collect from."""
    return ClusterSource(name, {"bootstrap.servers": cluster.bootstrap_servers}, **settings)


def open_source(given: ClusterSource) -> AdminConnection:
    """Connect to a source, with the patience of a test."""
    return connect(given.properties, timeout=PATIENCE)


def in_one_state(state: Callable[[], State], look: Callable[[], Look]) -> tuple[State, Look]:
    """What ``look`` returns, and the ``state`` that was the same before and after it.

    On a busy machine leaders move by themselves, and then groups may be assigned anew: what is
    seen while that goes on is looked at again.
    """
    for _ in range(ATTEMPTS):
        before, found = state(), look()
        if state() == before:
            return before, found
    raise AssertionError(f"the state changed during each of {ATTEMPTS} looks")


def layout(cluster: Cluster, topic: str) -> ClusterView:
    """Where the topic is, and who coordinates groups, once all running brokers say the same.

    None of them is one that others take for dead.
    """
    assert isinstance(cluster, BaseCluster)
    running = {node.id for node in cluster._running()}
    views: list[ClusterView] = []

    def agreed() -> bool:
        # Brokers hear of a change one after another.
        views[:] = [read_view([port], [topic, OFFSETS]) for port in cluster._doors()]
        return all(view == views[0] for view in views) and running <= views[0].racks().keys()

    wait_until(agreed, PATIENCE, f"all brokers say the same of {topic}")
    return views[0]


def collect(*arguments: str, log: Path | None = None) -> subprocess.Popen[str]:
    """``rackward traffic collect`` in a process of its own, its output piped.

    What it logs goes to the file ``log`` instead, where one is given, to be read meanwhile.
    """
    with nullcontext(subprocess.PIPE) if log is None else log.open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "rackward.cli", "traffic", "collect", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
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
