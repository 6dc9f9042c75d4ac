"""The two Consumer classes whose behaviour is compared, and helpers to construct and poll them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition

import assignors.confluent
from assignors.confluent.offsets import PartitionKey
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

VARIANTS = {variant.name: variant for variant in (CONFLUENT, RACKWARD)}


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
    return {(each.topic, each.partition) for each in partitions}


def partition_offsets(messages: list[Any]) -> list[tuple[int, int]]:
    """Return partition number and offset of each, by partition and in the order of reading."""
    return sorted(
        ((each.partition(), each.offset()) for each in messages), key=lambda record: record[0]
    )


def poll_until(*consumers: Any, until: Callable[[list[Any]], object], what: str) -> list[Any]:
    """Poll the consumers in turn until ``until`` accepts the messages, errors included.

    Return the messages. Raise AssertionError, which names ``what``, after TEST_TIMEOUT seconds.
    """
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


def raised_code(call: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Return the error code of the KafkaException that the call has to raise."""
    with pytest.raises(KafkaException) as caught:
        call(*args, **kwargs)
    return int(caught.value.args[0].code())
