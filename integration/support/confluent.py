"""confluent's Consumer and rackward's: constructing and polling them, and groups of them."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition

import assignors.confluent
from assignors.confluent.events import PartitionKey
from integration.support.clients import MemberConfig, OnChange, PartitionId
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT


@dataclass(frozen=True)
class Variant:
    """A Consumer class, and the names of its eager and its cooperative assignor."""

    name: str
    consumer: Callable[..., Any]
    eager: str
    cooperative: str

    def __str__(self) -> str:
        return self.name


CONFLUENT = Variant("confluent", confluent_kafka.Consumer, "range", "cooperative-sticky")
RACKWARD = Variant(
    "rackward",
    assignors.confluent.Consumer,
    "leader-rack-aware-range",
    "leader-rack-aware-cooperative-sticky",
)


class Consumers:
    """Constructs consumers of one variant on one cluster; ``close`` closes all of them."""

    def __init__(self, variant: Variant, bootstrap: str) -> None:
        self.variant = variant
        self._bootstrap = bootstrap
        self._consumers: list[Any] = []

    def __call__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        group: str | None = None,
        cooperative: bool = False,
    ) -> Any:
        """Return a consumer that starts at the earliest record, in ``group`` or in a new group."""
        strategy = self.variant.cooperative if cooperative else self.variant.eager
        consumer = self.variant.consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group or new_group(),
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": strategy,
                # A machine may stall. Shorter than TEST_TIMEOUT: the group removes a member that
                # could not leave before the test fails.
                "session.timeout.ms": 30_000,
                "heartbeat.interval.ms": 200,
                "fetch.wait.max.ms": 50,
                "client.rack": "a",
                "log_level": 0,
                **(settings or {}),
            }
        )
        self._consumers.append(consumer)
        return consumer

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.close()


class Callbacks:
    """Rebalance callbacks that record their calls: ``subscribe(topics, **callbacks.all)``.

    ``calls`` has the kind ("assign", "revoke" or "lost") and the partitions of each call;
    ``details`` the consumer, the list of partitions, the assignment and the thread.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, set[PartitionKey]]] = []
        self.details: list[tuple[Any, list[TopicPartition], set[PartitionKey], int]] = []

    def callback(self, kind: str) -> Callable[[Any, list[TopicPartition]], None]:
        def record(consumer: Any, partitions: list[TopicPartition]) -> None:
            self.calls.append((kind, partition_keys(partitions)))
            self.details.append(
                (consumer, partitions, partition_keys(consumer.assignment()), threading.get_ident())
            )

        return record

    @property
    def all(self) -> dict[str, Callable[[Any, list[TopicPartition]], None]]:
        return {f"on_{kind}": self.callback(kind) for kind in ("assign", "revoke", "lost")}


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def partition_keys(partitions: list[TopicPartition]) -> set[PartitionKey]:
    """Return topic and partition number of each."""
    return {(partition.topic, partition.partition) for partition in partitions}


def partition_offsets(messages: list[Any]) -> list[tuple[int, int]]:
    """Return partition number and offset of each, by partition and in the order of reading."""
    return sorted(
        ((message.partition(), message.offset()) for message in messages),
        key=lambda record: record[0],
    )


def poll_until(
    *consumers: Any,
    until: Callable[[list[Any]], object] | None = None,
    what: str = "each has an assignment",
) -> list[Any]:
    """Poll the consumers in turn until ``until`` accepts the messages, errors included.

    By default, until each has an assignment. Return the messages. Raise AssertionError, which names
    ``what``, after TEST_TIMEOUT seconds.
    """
    until = until or (lambda _: all(consumer.assignment() for consumer in consumers))
    deadline = time.monotonic() + TEST_TIMEOUT
    messages: list[Any] = []
    while not until(messages):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {TEST_TIMEOUT:g} s: {what}")
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is not None:
                messages.append(message)
    return messages


def read_records(consumer: Any, count: int) -> list[Any]:
    """Poll until there are ``count`` records. Raise AssertionError for an error message."""
    records: list[Any] = []
    deadline = time.monotonic() + TEST_TIMEOUT
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records"
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            records.append(message)
    return records


def read_to_end(
    cluster: Cluster, topic: str, isolation: str = "read_committed", min_records: int = 0
) -> list[Any]:
    """Return the records of a topic, those of a partition in order, if there are ``min_records``.

    The markers of a committed transaction reach one partition after another, so the first end of
    a partition may be before its last records.
    """
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": new_group(),
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    open_ends = {tp.partition for tp in cluster.view([topic]).replicas}
    consumer.assign([TopicPartition(topic, p, confluent_kafka.OFFSET_BEGINNING) for p in open_ends])
    records: list[Any] = []
    deadline = time.monotonic() + TEST_TIMEOUT
    while open_ends or len(records) < min_records:
        assert time.monotonic() < deadline, f"{len(records)} records, no end of {open_ends}"
        for message in consumer.consume(5000, 0.2):
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                records.append(message)
                open_ends.add(partition)
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                open_ends.discard(partition)
    consumer.close()
    return records


def raised_code(call: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Return the error code of the KafkaException that the call has to raise."""
    with pytest.raises(KafkaException) as caught:
        call(*args, **kwargs)
    return int(caught.value.args[0].code())


# ---- Members of test groups that are confluent-kafka consumers: its own Consumer, or rackward's.

_BATCH = 2000
_MAGIC = b"CGMDv2:"


def generation_in(metadata: bytes) -> int:
    """Return the generation in the result of ``consumer_group_metadata()``, -1 outside the group.

    librdkafka writes the magic, the generation as four bytes in the machine's order, and the ids.
    """
    assert metadata.startswith(_MAGIC), metadata
    at = len(_MAGIC)
    return int.from_bytes(metadata[at : at + 4], sys.byteorder, signed=True)


class ConfluentClient:
    """A member whose consumer has the methods of confluent's Consumer."""

    def __init__(
        self, consumer: Any, batch: int = _BATCH, ignored: Collection[int] = frozenset()
    ) -> None:
        self.consumer = consumer
        self._batch = batch
        self._ignored = ignored

    def subscribe(
        self, on_change: OnChange, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        def callback(kind: str) -> Callable[[Any, list[TopicPartition]], None]:
            return lambda _, changed: on_change(kind, [(p.topic, p.partition) for p in changed])

        self.consumer.subscribe(
            list(topics) if pattern is None else [f"^{pattern}$"],
            on_assign=callback("assigned"),
            on_revoke=callback("revoked"),
            on_lost=callback("lost"),
        )

    def poll(self, seconds: float) -> Iterable[tuple[PartitionId, int]]:
        first = self.consumer.poll(seconds)
        if first is None:
            return []
        records = []
        for message in (first, *self.consumer.consume(self._batch - 1, 0)):
            if message.error() is None:
                records.append(((message.topic(), message.partition()), message.offset()))
            elif message.error().code() not in self._ignored:
                raise KafkaException(message.error())
        return records

    def owned(self) -> frozenset[PartitionId]:
        try:
            return frozenset((p.topic, p.partition) for p in self.consumer.assignment())
        except RuntimeError:  # closed
            return frozenset()

    def generation(self) -> int:
        try:
            return generation_in(self.consumer.consumer_group_metadata())
        except RuntimeError:  # closed
            return -1

    def commit(self, tp: PartitionId, offset: int) -> None:
        result = self.consumer.commit(offsets=[TopicPartition(*tp, offset)], asynchronous=False)
        for partition in result:
            if partition.error is not None:
                raise KafkaException(partition.error)

    def close(self) -> None:
        self.consumer.close()


@dataclass(frozen=True)
class Confluent:
    """Constructs members: a ``consumer`` with ``partition.assignment.strategy=strategy``."""

    strategy: str = "leader-rack-aware-cooperative-sticky"
    consumer: Callable[[dict[str, Any]], Any] = assignors.confluent.Consumer
    batch: int = _BATCH
    """Largest number of records that a poll returns."""
    ignored: frozenset[int] = frozenset()
    """Codes of errors that a poll does not raise, though the library returns them."""

    def __call__(self, config: MemberConfig) -> ConfluentClient:
        settings = _settings(config) | {"partition.assignment.strategy": self.strategy}
        return ConfluentClient(self.consumer(settings), self.batch, self.ignored)


def _settings(config: MemberConfig) -> dict[str, Any]:
    return {
        # On a busy machine a shorter timeout would remove members from the group.
        "session.timeout.ms": 30_000,
        "heartbeat.interval.ms": 200,
        "topic.metadata.refresh.interval.ms": 2000,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 1000,
        "fetch.wait.max.ms": 100,
        "log_level": 0,
        "bootstrap.servers": config.bootstrap,
        "group.id": config.group_id,
        "client.id": config.name,
        **({} if config.rack is None else {"client.rack": config.rack}),
        **config.settings,
    }


class StockConfluentClient(ConfluentClient):
    """confluent-kafka's own consumer, whose assignment is what its callbacks say.

    Its ``assignment()`` and its group metadata wait for another thread's ``poll()``, and that waits
    for them. Its generation is 0 while it owns partitions.
    """

    _owned: frozenset[PartitionId] = frozenset()

    def subscribe(
        self, on_change: OnChange, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        def record(kind: str, partitions: Iterable[PartitionId]) -> None:
            changed = frozenset(partitions)
            self._owned = self._owned | changed if kind == "assigned" else self._owned - changed
            on_change(kind, changed)

        super().subscribe(record, topics=topics, pattern=pattern)

    def owned(self) -> frozenset[PartitionId]:
        return self._owned

    def generation(self) -> int:
        return 0 if self._owned else -1


@dataclass(frozen=True)
class StockConfluent:
    """Constructs confluent-kafka's consumers with ``partition.assignment.strategy=strategy``.

    Without a strategy they use the new consumer protocol (KIP-848), in which the broker assigns.
    Settings of the group that are those of another library, without a dot, do not apply.
    """

    strategy: str | None
    ignored: frozenset[int] = frozenset()
    """Codes of errors that a poll does not raise, though the library returns them."""

    def __call__(self, config: MemberConfig) -> StockConfluentClient:
        own = {key: value for key, value in config.settings.items() if "." in key}
        settings = _settings(replace(config, settings=own))
        if self.strategy is not None:
            settings["partition.assignment.strategy"] = self.strategy
        else:
            settings["group.protocol"] = "consumer"
            # Settings of the broker.
            del settings["session.timeout.ms"], settings["heartbeat.interval.ms"]
        return StockConfluentClient(confluent_kafka.Consumer(settings), ignored=self.ignored)
