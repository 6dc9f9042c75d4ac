"""Topics with their leaders where a test wants them, and a trickle of records into them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaConnectionError, UnknownTopicOrPartitionError

from rackward.clusters import Cluster


def new_name(stem: str) -> str:
    """A topic name that no other test uses."""
    return f"{stem}-{uuid.uuid4().hex[:8]}"


def create_topic(cluster: Cluster, name: str, replicas: Sequence[Sequence[int]]) -> str:
    """Create ``name`` with these replica lists; the first of each leads. Returns the name."""
    create_topics(cluster, {name: replicas})
    return name


def create_topics(cluster: Cluster, topics: Mapping[str, Sequence[Sequence[int]]]) -> None:
    """Create several topics in one request, and return when each has its leaders."""
    with_admin(
        cluster,
        lambda admin: admin.create_topics(
            {
                name: {"assignments": {p: list(brokers) for p, brokers in enumerate(replicas)}}
                for name, replicas in topics.items()
            },
            wait_for_metadata=True,
        ),
    )


def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete a topic, also while a broker is away that others still take to be there."""

    def deleted() -> bool:
        try:
            with_admin(cluster, lambda admin: admin.delete_topics([name]))
        except KafkaConnectionError:
            return False
        except UnknownTopicOrPartitionError:
            pass  # An earlier try did it, and its answer was lost.
        return True

    wait_until(deleted, 30, f"{name} is deleted")


def committed(cluster: Cluster, group_id: str) -> dict[tuple[str, int], int]:
    """The offsets that the group has committed."""
    found = with_admin(cluster, lambda admin: admin.list_group_offsets(group_id))
    return {(tp.topic, tp.partition): offset.offset for tp, offset in found[group_id].items()}


def with_admin(cluster: Cluster, act: Callable[[Any], Any]) -> Any:
    """``act`` on an admin client that is closed afterwards."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    try:
        return act(admin)
    finally:
        admin.close()


class Trickle:
    """A producer that sends one small record to each partition, over and over.

    ``acknowledged`` has the offsets that brokers confirmed: what a group must have read.
    """

    def __init__(self, cluster: Cluster, topic: str, partitions: int, every: float = 0.1) -> None:
        self.acknowledged: dict[int, set[int]] = {p: set() for p in range(partitions)}
        self._producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all", linger_ms=5
        )
        self._topic = topic
        self._every = every
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.wait(self._every):
            for partition in self.acknowledged:
                self._producer.send(self._topic, b"x", partition=partition).add_callback(
                    lambda sent: self.acknowledged[sent.partition].add(sent.offset)
                )

    def stop(self) -> None:
        """Send no more, and wait for what is on its way."""
        self._ending.set()
        self._thread.join()
        self._producer.flush(timeout=20)
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


def wait_until(true: Callable[[], bool], within: float, what: str) -> None:
    """Return when ``true()`` holds; AssertionError after ``within`` seconds."""
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        time.sleep(0.05)
