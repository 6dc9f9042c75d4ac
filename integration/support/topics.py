"""Topics, groups, records and committed offsets on a test cluster, and plans for topics.

As a program, this module is a producer that sends until its standard input is closed:

    python -m integration.support.topics BOOTSTRAP_SERVERS TOPIC PARTITIONS SECONDS_BETWEEN_RECORDS
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import select
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
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

from integration.support.command_line import Running, rackward
from placement_core import TopicPartition
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until


def new_name(stem: str) -> str:
    """Return a topic name that no other test uses."""
    return f"{stem}-{uuid.uuid4().hex[:8]}"


def create_topic(
    cluster: Cluster, name: str, replicas: Sequence[Sequence[int]], **configs: str
) -> str:
    """Create ``name`` with these replica lists, the leader first in each; return the name.

    Names of ``configs`` have ``_`` instead of a dot.
    """
    create_topics(cluster, {name: replicas}, **configs)
    return name


def create_topics(
    cluster: Cluster, topics: Mapping[str, Sequence[Sequence[int]]], **configs: str
) -> None:
    """Create several topics in one request; return when every broker has their metadata."""
    assignments = {
        name: {p: list(brokers) for p, brokers in enumerate(replicas)}
        for name, replicas in topics.items()
    }
    dotted = {name.replace("_", "."): value for name, value in configs.items()}

    _retry(
        cluster,
        lambda admin: admin.create_topics(
            {name: {"assignments": rows, "configs": dotted} for name, rows in assignments.items()}
        ),
        f"{', '.join(list(topics)[:3])} are created",
        done=TopicAlreadyExistsError,
    )
    leaders = {
        TopicPartition(name, p): brokers[0]
        for name, rows in assignments.items()
        for p, brokers in rows.items()
    }
    # A client may ask any broker, and brokers apply new metadata one after another.
    cluster.await_metadata()
    if cluster.view(topics).leaders != leaders:
        # A busy broker was fenced in between.
        cluster.move_leaders(leaders)


def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete a topic; repeat while a broker that has just died is not fenced yet."""
    _retry(
        cluster,
        lambda admin: admin.delete_topics([name]),
        f"{name} is deleted",
        done=UnknownTopicOrPartitionError,
    )


def committed(cluster: Cluster, group_id: str) -> dict[tuple[str, int], int]:
    """Return the committed offsets of a group."""
    offsets = _retry(
        cluster,
        lambda admin: admin.list_group_offsets(group_id),
        f"the coordinator returns the offsets of {group_id}",
    )
    return {(tp.topic, tp.partition): offset.offset for tp, offset in offsets[group_id].items()}


def described(cluster: Cluster, *group_ids: str) -> list[dict[str, Any]]:
    """Return state and members of each group, as kafka-python does; all groups must exist."""

    def describe(admin: Any) -> dict[str, Any]:
        groups: dict[str, Any] = admin.describe_groups(list(group_ids))
        for each in groups.values():
            # kafka-python does not raise, and a group with an error has no members either.
            if each["error"] is not None:
                raise CoordinatorNotAvailableError(each["error"])
        return groups

    groups = _retry(cluster, describe, f"the coordinators describe {', '.join(group_ids)}")
    return [groups[group_id] for group_id in group_ids]


def coordinator_of(cluster: Cluster, group_id: str) -> int:
    """Return the id of the group's coordinator."""
    coordinator = _retry(
        cluster,
        lambda admin: admin._manager.run(admin._find_coordinator_id, group_id),
        f"a broker coordinates {group_id}",
    )
    return int(coordinator)


def _retry(
    cluster: Cluster,
    request: Callable[[Any], Any],
    what: str,
    done: type[Exception] | tuple[()] = (),
) -> Any:
    """Return the response; repeat the request while it fails with a retriable error.

    The error ``done`` tells that an earlier attempt succeeded whose response was lost.
    """
    responses: list[Any] = []

    def succeeded() -> bool:
        try:
            responses.append(with_admin(cluster, request))
        except done:
            responses.append(None)
        except RetriableError:
            return False
        return True

    wait_until(succeeded, TEST_TIMEOUT, what)
    return responses[0]


def with_admin(cluster: Cluster, call: Callable[[Any], Any]) -> Any:
    """Return ``call`` of an admin client that is closed afterwards."""
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))) as admin:
        return call(admin)


class SteadyProducer:
    """A producer that sends a record to each partition every ``every`` seconds, until stopped.

    ``acknowledged`` holds, by partition, the acknowledged offsets, which a group must read. Without
    ``value``, that of a record is its partition and its number, "3 17", which is the offset if
    nothing else is written.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partitions: int,
        every: float = 0.1,
        value: bytes | None = None,
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
        for number in itertools.count():
            if self._ending.wait(self._every):
                return
            for partition in self.acknowledged:
                value = self._value or f"{partition} {number}".encode()
                self._producer.send(self._topic, value, partition=partition).add_callback(
                    lambda sent: self.acknowledged[sent.partition].add(sent.offset)
                )

    def stop(self) -> None:
        """Stop, and wait until all records are acknowledged."""
        self._ending.set()
        self._thread.join()
        self._producer.flush(timeout=TEST_TIMEOUT)
        self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if not self._ending.is_set():
            self.stop()


# Reassignments by the command.

SINGLE = [[broker] for broker in range(6)]
TRIPLE = [[0, 2, 4], [1, 3, 5], [2, 4, 1], [3, 5, 0], [4, 0, 3], [5, 1, 2]]
SLOW = "60kB"
"""A throttle with which copying 3 MB takes longer than a test."""


def rows(cluster: Cluster, topic: str) -> list[tuple[int, ...]]:
    """Return the topic's replica lists, index = partition."""
    cluster.await_metadata()
    return [row for _, row in sorted(cluster.view([topic]).replicas.items())]


def no_reassignments(cluster: Cluster) -> bool:
    """Return whether no reassignment is in progress."""
    return bool(with_admin(cluster, lambda admin: admin.list_partition_reassignments()) == {})


def plan(cluster: Cluster, topic: str, path: Path, *arguments: object) -> dict[str, Any]:
    """Write a plan for the topic with the command; return the content of the file."""
    rackward(cluster, "placement", "plan", "--topics", topic, "-o", path, *arguments)
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def wait_for_progress(command: Running) -> None:
    """Wait for the first progress event of the command."""
    event = command.until(lambda line: '"progressed"' in line)
    assert json.loads(event)["bytes_copied"] < json.loads(event)["bytes"]


# Records with known content, so that a lost, changed or duplicate one is detected.

RECORD_BYTES = 20_000


@dataclass(frozen=True)
class Content:
    """Per partition: the number of records, and a digest of them in order."""

    counts: tuple[int, ...]
    digests: tuple[str, ...]


def fill(
    cluster: Cluster,
    topic: str,
    partitions: int,
    records: int,
    size: int = RECORD_BYTES,
    rack: str | None = None,
) -> Content:
    """Write ``records`` incompressible records to each partition; return their content.

    The producer uses the listeners of ``rack``.
    """
    rng = random.Random(1)
    digests = [hashlib.sha256() for _ in range(partitions)]
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap(rack).split(","), acks="all", batch_size=60_000
    )
    try:
        for _ in range(records):
            for partition in range(partitions):
                value = rng.randbytes(size)
                digests[partition].update(value)
                producer.send(topic, value, partition=partition)
        producer.flush(timeout=TEST_TIMEOUT)
    finally:
        producer.close()
    return Content((records,) * partitions, tuple(each.hexdigest() for each in digests))


def content(cluster: Cluster, topic: str, partitions: int) -> Content:
    """Read the topic from the first record to the last; return its content."""
    counts = [0] * partitions
    digests = [hashlib.sha256() for _ in range(partitions)]
    for record in records_of(cluster, topic):
        counts[record.partition] += 1
        digests[record.partition].update(record.value)
    return Content(tuple(counts), tuple(digest.hexdigest() for digest in digests))


def records_of(cluster: Cluster, topic: str) -> Iterator[Any]:
    """Yield all records of a topic, those of a partition in order; AssertionError if none come."""
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers.split(","), enable_auto_commit=False
    )
    try:
        partitions = [KafkaPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        deadline = time.monotonic() + TEST_TIMEOUT
        while unread := [tp for tp in partitions if consumer.position(tp) < ends[tp]]:
            assert time.monotonic() < deadline, f"{unread} are not read to their ends"
            for records in consumer.poll(timeout_ms=500).values():
                deadline = time.monotonic() + TEST_TIMEOUT
                yield from records
    finally:
        consumer.close()


# Replication throttles in the cluster's configuration, read without rackward.

Settings = dict[tuple[str, str], dict[str, str | None]]
"""(resource type, name) -> configuration key -> value; without brokers that are down."""


def throttle_settings(cluster: Cluster) -> Settings:
    """Return all keys with "throttle" in them that are set for brokers or topics.

    Cluster-wide settings are listed for each broker.
    """
    cluster.await_metadata()

    def read(admin: Any) -> Settings:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in admin.list_topics()]
        resources += [
            ConfigResource(ConfigResourceType.BROKER, str(broker.id))
            for broker in cluster.view([]).brokers
        ]
        settings: Settings = {}
        # The filter "modified" would omit cluster-wide settings.
        configs = admin.describe_configs(resources, config_filter="all")
        for resource_type, by_name in configs.items():
            for name, values in by_name.items():
                throttles = {
                    key: each["value"]
                    for key, each in values.items()
                    if "throttle" in key and each["config_source"] != "DEFAULT_CONFIG"
                }
                if throttles:
                    settings[resource_type, name] = throttles
        return settings

    settings: Settings = with_admin(cluster, read)
    return settings


# A producer in its own process.


@contextmanager
def produce_steadily(cluster: Cluster, topic: str, partitions: int, every: float) -> Iterator[None]:
    """Send a small record to each partition every ``every`` seconds, until the block ends.

    The producer is another process, and does not slow down consumers whose pauses are measured.
    kafka-python sends all records for a broker in one request; librdkafka sends one per partition.
    """
    arguments = [cluster.bootstrap_servers, topic, str(partitions), str(every)]
    process = subprocess.Popen(
        [sys.executable, "-m", "integration.support.topics", *arguments],
        stdin=subprocess.PIPE,
    )
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(TEST_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> None:
    """Send until standard input is closed."""
    bootstrap, topic, partitions, every = sys.argv[1:]
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), linger_ms=0)
    while not select.select([sys.stdin], [], [], float(every))[0]:
        for partition in range(int(partitions)):
            producer.send(topic, b"x", partition=partition)
    producer.close(timeout=5)


if __name__ == "__main__":
    main()
