"""Topics with their leaders where a test wants them, and a trickle of records into them."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    CoordinatorNotAvailableError,
    RetriableError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from integration.support.command_line import Done, Running, rackward
from placement_core import TopicPartition
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE, wait_until


def new_name(stem: str) -> str:
    """A topic name that no other test uses."""
    return f"{stem}-{uuid.uuid4().hex[:8]}"


def create_topic(
    cluster: Cluster, name: str, replicas: Sequence[Sequence[int]], **configs: str
) -> str:
    """Create ``name`` with these replica lists; the first of each leads. Returns the name.

    ``configs`` have ``_`` where Kafka has a dot.
    """
    create_topics(cluster, {name: replicas}, **configs)
    return name


def create_topics(
    cluster: Cluster, topics: Mapping[str, Sequence[Sequence[int]]], **configs: str
) -> None:
    """Create several topics in one request, and return when every broker shows their leaders."""
    assignments = {
        name: {p: list(brokers) for p, brokers in enumerate(replicas)}
        for name, replicas in topics.items()
    }
    dotted = {name.replace("_", "."): value for name, value in configs.items()}

    def created() -> bool:
        try:
            with_admin(
                cluster,
                lambda admin: admin.create_topics(
                    {
                        name: {"assignments": rows, "configs": dotted}
                        for name, rows in assignments.items()
                    }
                ),
            )
        except RetriableError:
            return False
        except TopicAlreadyExistsError:
            pass  # An earlier try did it, and its answer was lost.
        return True

    wait_until(created, PATIENCE, f"{', '.join(list(topics)[:3])} are created")
    leaders = {
        TopicPartition(name, p): brokers[0]
        for name, rows in assignments.items()
        for p, brokers in rows.items()
    }
    # Brokers hear of a topic one after another, and a client may ask any of them.
    cluster.await_metadata()
    if cluster.view(topics).leaders != leaders:
        # A broker was taken for dead meanwhile.
        cluster.move_leaders(leaders)


def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete a topic, also while a broker is away that others still take to be there."""

    def deleted() -> bool:
        try:
            with_admin(cluster, lambda admin: admin.delete_topics([name]))
        except UnknownTopicOrPartitionError:
            pass  # An earlier try did it, and its answer was lost.
        except RetriableError:
            return False
        return True

    wait_until(deleted, PATIENCE, f"{name} is deleted")


def committed(cluster: Cluster, group_id: str) -> dict[tuple[str, int], int]:
    """The offsets that the group has committed."""
    found = _answer(
        cluster,
        lambda admin: admin.list_group_offsets(group_id),
        f"the coordinator tells what {group_id} has committed",
    )
    return {(tp.topic, tp.partition): offset.offset for tp, offset in found[group_id].items()}


def described(cluster: Cluster, *group_ids: str) -> list[dict[str, Any]]:
    """State and members of each group, in kafka-python's words; all groups must be there."""

    def ask(admin: Any) -> dict[str, Any]:
        found: dict[str, Any] = admin.describe_groups(list(group_ids))
        for each in found.values():
            # It raises nothing, and a group that is not told of looks like one without members.
            if each["error"] is not None:
                raise CoordinatorNotAvailableError(each["error"])
        return found

    found = _answer(cluster, ask, f"the coordinators describe {', '.join(group_ids)}")
    return [found[group_id] for group_id in group_ids]


def coordinator_of(cluster: Cluster, group_id: str) -> int:
    """The broker that coordinates the group."""
    found = _answer(
        cluster,
        lambda admin: admin._manager.run(admin._find_coordinator_id, group_id),
        f"a broker coordinates {group_id}",
    )
    return int(found)


def _answer(cluster: Cluster, ask: Callable[[Any], Any], what: str) -> Any:
    """The answer to a question; asked again while a coordinator moves or does not answer."""
    answers: list[Any] = []

    def answered() -> bool:
        try:
            answers.append(with_admin(cluster, ask))
        except RetriableError:
            return False
        return True

    wait_until(answered, PATIENCE, what)
    return answers[0]


def with_admin(cluster: Cluster, act: Callable[[Any], Any]) -> Any:
    """``act`` on an admin client that is closed afterwards."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    try:
        return act(admin)
    finally:
        admin.close()


class Trickle:
    """A producer that sends one record, small by default, to each partition, over and over.

    ``acknowledged`` has the offsets that brokers confirmed: what a group must have read.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partitions: int,
        every: float = 0.1,
        value: bytes = b"x",
    ) -> None:
        self.acknowledged: dict[int, set[int]] = {p: set() for p in range(partitions)}
        self._producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all", linger_ms=5
        )
        self._topic = topic
        self._every = every
        self._value = value
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.wait(self._every):
            for partition in self.acknowledged:
                self._producer.send(self._topic, self._value, partition=partition).add_callback(
                    lambda sent: self.acknowledged[sent.partition].add(sent.offset)
                )

    def stop(self) -> None:
        """Send no more, and wait for what is on its way."""
        self._ending.set()
        self._thread.join()
        self._producer.flush(timeout=PATIENCE)
        self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._ending.is_set():
            self.stop()


# ---- What tests that move replicas by the real command have in common.

SINGLE = [[broker] for broker in range(6)]
TRIPLE = [[0, 2, 4], [1, 3, 5], [2, 4, 1], [3, 5, 0], [4, 0, 3], [5, 1, 2]]
SLOW = "60kB"
"""A throttle under which 3 MB are on their way for longer than a test needs."""


@contextmanager
def moved_topic(cluster: Cluster, name: str) -> Iterator[str]:
    """The topic is deleted at the end, and no throttle is left behind."""
    yield name
    with_admin(cluster, lambda admin: admin.delete_topics([name], raise_errors=False))
    assert throttle_settings(cluster) == {}


def rows(cluster: Cluster, topic: str) -> list[tuple[int, ...]]:
    """The topic's replica lists, in order of partition."""
    cluster.await_metadata()
    return [row for _, row in sorted(cluster.view([topic]).replicas.items())]


def nothing_moves(cluster: Cluster) -> bool:
    """Whether no reassignment is under way."""
    return bool(with_admin(cluster, lambda admin: admin.list_partition_reassignments()) == {})


def in_three_racks(row: tuple[int, ...]) -> bool:
    return len(row) == 3 and {broker // 2 for broker in row} == {0, 1, 2}


def plan(cluster: Cluster, topic: str, path: Path, *arguments: object) -> dict[str, Any]:
    """Write a plan for the topic; returns what the file holds."""
    rackward(cluster, "placement", "plan", "--topics", topic, "-o", path, *arguments)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def midway(command: Running) -> None:
    """Return when bytes are being copied, as the command itself says."""
    event = command.until(lambda line: '"progressed"' in line)
    assert json.loads(event)["copied"] < json.loads(event)["bytes"]


def one_line(done: Done) -> str:
    """The one line that a refusal is."""
    assert done.out == ""
    assert done.err.startswith("rackward: ")
    assert done.err.count("\n") == 1
    return done.err


# ---- Records that are known, so that it shows when one is lost, changed or doubled.

RECORD_BYTES = 20_000


@dataclass(frozen=True)
class Content:
    """Per partition: the number of records, and a digest of them in order."""

    counts: tuple[int, ...]
    digests: tuple[str, ...]


def fill(cluster: Cluster, topic: str, partitions: int, records: int, seed: int = 1) -> Content:
    """Write ``records`` records, that nothing compresses, to each partition."""
    rng = random.Random(seed)
    digests = [hashlib.sha256() for _ in range(partitions)]
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all", batch_size=60_000
    )
    try:
        for _ in range(records):
            for partition in range(partitions):
                value = rng.randbytes(RECORD_BYTES)
                digests[partition].update(value)
                producer.send(topic, value, partition=partition)
        producer.flush(timeout=PATIENCE)
    finally:
        producer.close()
    return Content((records,) * partitions, tuple(each.hexdigest() for each in digests))


def content(cluster: Cluster, topic: str, partitions: int) -> Content:
    """Everything that the topic holds, from the first record to the last."""
    places = [KafkaPartition(topic, partition) for partition in range(partitions)]
    counts = [0] * partitions
    digests = [hashlib.sha256() for _ in range(partitions)]
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers.split(","),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        left = {place for place in places if ends[place] > 0}
        deadline = time.monotonic() + PATIENCE
        while left:
            found = consumer.poll(timeout_ms=1000)
            now = time.monotonic()
            deadline = now + PATIENCE if found else deadline
            assert now < deadline, f"nothing more comes, and {sorted(left)} are not at their end"
            for place, records in found.items():
                for record in records:
                    counts[place.partition] += 1
                    digests[place.partition].update(record.value)
                if records[-1].offset + 1 >= ends[place]:
                    left.discard(place)
    finally:
        consumer.close()
    return Content(tuple(counts), tuple(each.hexdigest() for each in digests))


# ---- Every trace of a replication throttle in a cluster's configuration, read with a plain client.

Settings = dict[tuple[str, str], dict[str, str | None]]
"""(Kind, name) to key to value; brokers that are down are left out."""


def throttle_settings(cluster: Cluster) -> Settings:
    """All keys with "throttle" in them that were set for a broker, for all, or for a topic.

    Those for all brokers show at each of them.
    """
    cluster.await_metadata()

    def read(admin: Any) -> Settings:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in admin.list_topics()]
        resources += [
            ConfigResource(ConfigResourceType.BROKER, str(broker.id))
            for broker in cluster.view([]).brokers
        ]
        found: Settings = {}
        # "modified" would pass over what is set for all brokers together.
        for kind, named in admin.describe_configs(resources, config_filter="all").items():
            for name, values in named.items():
                ours = {
                    key: each["value"]
                    for key, each in values.items()
                    if "throttle" in key and each["config_source"] != "DEFAULT_CONFIG"
                }
                if ours:
                    found[kind, name] = ours
        return found

    settings: Settings = with_admin(cluster, read)
    return settings
