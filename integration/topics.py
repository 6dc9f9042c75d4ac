"""Topics with their leaders where a test wants them, and a trickle of records into them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import (
    CoordinatorNotAvailableError,
    RetriableError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from integration.waiting import PATIENCE, wait_until
from placement_core import TopicPartition
from rackward.clusters import Cluster


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
