"""A collector on a test's cluster, and what it wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import RetriableError
from pyarrow import dataset

from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import KafkaPython, MakeClient, MemberConfig, OnChange, PartitionId
from integration.support.confluent_clients import ConfluentClient
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import committed, create_topic, new_name, with_admin
from placement_core import ClusterView
from rackward.admin import AdminConnection, connect
from rackward.clusters import Cluster
from rackward.clusters.admin import read_view
from rackward.collector import ClusterSource, Patterns, Selection
from tests.support.waiting import PATIENCE, wait_until

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
    running = {node.id for node in cluster._running_nodes()}
    views: list[ClusterView] = []

    def agreed() -> bool:
        # Brokers hear of a change one after another.
        views[:] = [read_view([port], [topic, OFFSETS]) for port in cluster._running_ports()]
        return all(view == views[0] for view in views) and running <= views[0].racks().keys()

    wait_until(agreed, PATIENCE, f"all brokers say the same of {topic}")
    return views[0]


def collect(*arguments: str, log: Path | None = None) -> subprocess.Popen[str]:
    """``rackward traffic collect`` in a process of its own, its output piped.

    What it logs goes to the file ``log`` instead, where one is given, to be read meanwhile.
    """
    with nullcontext(subprocess.PIPE) if log is None else log.open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "rackward.cli.main", "traffic", "collect", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


class PlainConfluent(ConfluentClient):
    """A Consumer of confluent-kafka that is asked nothing from other threads than its own.

    librdkafka's ``assignment`` waits for its main thread, which may itself wait for a poll.
    """

    _owned: frozenset[PartitionId] = frozenset()

    def subscribe(
        self, on_change: OnChange, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        """As a `Client` does."""

        def note(kind: str, places: Iterable[PartitionId]) -> None:
            changed = frozenset(places)
            self._owned = self._owned | changed if kind == "assigned" else self._owned - changed
            on_change(kind, changed)

        super().subscribe(note, topics=topics, pattern=pattern)

    def poll(self, seconds: float) -> Iterable[tuple[PartitionId, int]]:
        """As a `Client` does, a record at a time."""
        message = self.consumer.poll(seconds)
        if message is None:
            return []
        if message.error() is not None:
            raise KafkaException(message.error())
        return [((message.topic(), message.partition()), message.offset())]

    def owned(self) -> frozenset[PartitionId]:
        """As a `Client` does."""
        return self._owned

    def generation(self) -> int:
        """The same for all, and -1 for one that owns nothing, which then has not joined yet."""
        return 0 if self._owned else -1


def librdkafka(config: MemberConfig) -> PlainConfluent:
    """A member of a classic group, with librdkafka's own range assignor."""
    return PlainConfluent(Consumer(_settings(config) | {"partition.assignment.strategy": "range"}))


def new_protocol(config: MemberConfig) -> PlainConfluent:
    """A member of a group of the new consumer protocol (KIP-848)."""
    return PlainConfluent(Consumer(_settings(config) | {"group.protocol": "consumer"}))


def _settings(config: MemberConfig) -> dict[str, Any]:
    return {
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
        "fetch.wait.max.ms": 100,
        "log_level": 0,
        "bootstrap.servers": config.bootstrap,
        "group.id": config.group_id,
        "client.id": config.name,
        **({} if config.rack is None else {"client.rack": config.rack}),
    }


# ---- A topic that groups of every kind have read to its end, for a collector to look at.

PARTITIONS = 12
RECORDS = 20
"""Of each partition, a kilobyte each."""

SESSION_MS = 20_000
"""No member is to be taken for dead because the machine is busy, and one that is gone before it
was a member is not to be waited for by the others much longer than that."""

Owned = dict[str, tuple[int, dict[str, frozenset[PartitionId]]]]
"""Kind of group to its generation, and to the partitions of each member."""


@dataclass(frozen=True)
class Scene:
    """A topic that several groups have read to its end, and go on reading."""

    cluster: Cluster
    topic: str
    groups: dict[str, ConsumerGroup]
    alone: str
    """A group whose consumer assigned partitions to itself, committed, and left."""

    @property
    def ids(self) -> list[str]:
        """Of all groups."""
        return sorted([self.alone, *(group.id for group in self.groups.values())])

    @property
    def selection(self) -> Selection:
        """These groups and this topic."""
        return Selection(Patterns(self.ids), Patterns([self.topic]))

    def owned(self) -> Owned:
        """Of each kind of group the generation, and what its members own of the whole topic."""
        places = {(self.topic, partition) for partition in range(PARTITIONS)}
        owned = {kind: group.settle(places, hold=0.0) for kind, group in self.groups.items()}
        return {kind: (self.groups[kind].generation, each) for kind, each in owned.items()}


@contextmanager
def collected(cluster: Cluster) -> Iterator[Scene]:
    """The scene, once all of it is as a collector is to find it."""
    topic = create_topic(cluster, new_name("collected"), replicas_led_from(evenly(PARTITIONS)))
    fill(cluster, topic, PARTITIONS, RECORDS)
    kinds: dict[str, MakeClient] = {
        "builtin": KafkaPython(lambda _: [RangePartitionAssignor]),
        "ours": KafkaPython(),
        "librdkafka": librdkafka,
        "aiokafka": AIOKafka(),
        "new": new_protocol,
    }
    with ExitStack() as stack:
        groups = {}
        for kind, client in kinds.items():
            group = ConsumerGroup(
                cluster, topics=[topic], client=client, session_timeout_ms=SESSION_MS
            )
            groups[kind] = stack.enter_context(group)
            group.start(f"{kind}-a", rack="a")
            group.start(f"{kind}-b", rack="b")
        alone = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers.split(","), group_id=new_name("alone")
        )
        stack.callback(alone.close)
        alone.assign([TopicPartition(topic, 3)])
        alone.seek(TopicPartition(topic, 3), 7)
        assert alone.position(TopicPartition(topic, 3)) == 7
        alone.commit()
        scene = Scene(cluster, topic, groups, alone.config["group_id"])
        scene.owned()
        for kind, group in groups.items():
            wait_until(
                lambda group=group: (  # type: ignore[misc]
                    sum(committed(cluster, group.id).values()) == PARTITIONS * RECORDS
                ),
                PATIENCE,
                f"the group {kind} commits all that there is",
            )
        ids = {group.id for group in groups.values()}
        # Of the new protocol, members have what they were told to have before brokers hear of it.
        wait_until(lambda: ids <= _stable(cluster), PATIENCE, "brokers call all groups stable")
        yield scene


def _stable(cluster: Cluster) -> set[str]:
    try:
        listed = with_admin(cluster, lambda admin: admin.list_groups())
    except RetriableError:
        return set()
    return {each["group_id"] for each in listed if each["group_state"] == "Stable"}
