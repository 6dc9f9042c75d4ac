"""Every intended difference between rackward's Consumer and confluent's, tested on both.

A test fails when confluent's consumer changes: the difference may then be unnecessary.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from assignors.confluent import Consumer
from assignors.confluent.events import PartitionKey
from integration.support.confluent import (
    CONFLUENT,
    RACKWARD,
    Callbacks,
    Consumers,
    new_group,
    partition_keys,
    partition_offsets,
    poll_until,
    read_records,
)
from integration.support.topics import committed, create_topic, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT

SETTINGS = {"group.id": "g", "partition.assignment.strategy": RACKWARD.eager, "log_level": 0}
ON_A_CLUSTER = pytest.mark.parametrize("cluster", ["local"], indirect=True)


@pytest.fixture
def both(cluster: Cluster) -> Iterator[tuple[Consumers, Consumers]]:
    """Return the factories for confluent's consumers and for rackward's."""
    factories = tuple(
        Consumers(variant, cluster.bootstrap_servers) for variant in (CONFLUENT, RACKWARD)
    )
    yield factories[0], factories[1]
    for factory in factories:
        factory.close()


@pytest.mark.parametrize("group", ["", None])
def test_an_empty_group_id(group: str | None) -> None:
    def run(module: str) -> subprocess.CompletedProcess[str]:
        settings: dict[str, object] = {"group.id": group}
        if module != "confluent_kafka":
            settings = {**SETTINGS, **settings}
        script = f"from {module} import Consumer; Consumer({settings!r})"
        return subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )

    # An assertion in C ends the process.
    assert run("confluent_kafka").returncode == -signal.SIGABRT
    rackwards = run("assignors.confluent")
    assert rackwards.returncode == 1
    assert rackwards.stderr.splitlines()[-1].startswith("ValueError: ")
    assert "group.id must be set" in rackwards.stderr


@pytest.mark.parametrize(
    "settings",
    [
        # The broker assigns the partitions.
        {"group.protocol": "consumer"},
        # Not an assignor of rackward, or more than one.
        {"partition.assignment.strategy": "range"},
        {"partition.assignment.strategy": f"{RACKWARD.eager},range"},
        {"partition.assignment.strategy": f"{RACKWARD.eager},{RACKWARD.cooperative}"},
        {"partition.assignment.strategy": None},
        # The member cannot reach librdkafka's mock brokers, nor get tokens in every way.
        {"test.mock.num.brokers": 3},
        {
            "sasl.oauthbearer.metadata.authentication.type": "azure_imds",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.config": "query=api-version=1",
            "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
            "sasl.mechanisms": "OAUTHBEARER",
            "security.protocol": "SASL_PLAINTEXT",
        },
        # The secret would be sent in clear text.
        {
            "sasl.oauthbearer.token.endpoint.url": "http://idp.invalid/token",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "x",
            "sasl.oauthbearer.client.secret": "x",
            "sasl.mechanisms": "OAUTHBEARER",
            "security.protocol": "SASL_PLAINTEXT",
        },
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()),
)
def test_properties_that_only_rackward_refuses(settings: dict[str, Any]) -> None:
    strategy = settings.get("partition.assignment.strategy", "range")
    if RACKWARD.eager not in str(strategy):
        confluent_settings = {"group.id": "g", "log_level": 0, **settings}
        if strategy is None:
            del confluent_settings["partition.assignment.strategy"]
        confluent_kafka.Consumer(confluent_settings).close()
    with pytest.raises(KafkaException) as caught:
        Consumer({**SETTINGS, **settings})
    error = caught.value.args[0]
    assert error.code() == KafkaError._INVALID_ARG
    # The text names the property.
    assert next(iter(settings)) in error.str()


@ON_A_CLUSTER
def test_an_assignment_of_the_wrong_kind_in_a_callback(
    both: tuple[Consumers, Consumers], filled: str
) -> None:
    # confluent's consumer raises the KafkaError, which only a bare except catches: it is not an
    # exception. rackward's raises the documented KafkaException.
    raised: list[Any] = []
    for make in both:
        consumer = make()
        consumer.subscribe(
            [filled], on_assign=lambda it, partitions: it.incremental_assign(partitions)
        )
        try:
            poll_until(consumer, until=lambda _: False, what="an exception")
        except:  # noqa: E722
            raised.append(sys.exc_info()[1])
        assert consumer.assignment() == []
    confluents, rackwards = raised
    assert type(confluents) in (KafkaError, KafkaException)
    assert type(rackwards) is KafkaException
    assert rackwards.args[0].code() == KafkaError._STATE


@ON_A_CLUSTER
def test_an_exception_in_consume_loses_no_records(
    both: tuple[Consumers, Consumers], filled: str
) -> None:
    # If a callback raises in consume, confluent's consumer drops the records that the call has
    # collected. rackward's returns them, and raises in the next call.
    counts = []
    for make in both:
        calls: list[object] = []

        def fail(*arguments: object, calls: list[object] = calls) -> None:
            calls.append(arguments)
            if len(calls) == 1:
                raise LookupError("planned")

        consumer = make({"on_commit": fail, "auto.commit.interval.ms": 200})
        consumer.assign([confluent_kafka.TopicPartition(filled, p, 0) for p in range(3)])
        records: list[Any] = []
        deadline = time.monotonic() + TEST_TIMEOUT
        while not calls or len(records) < 30:
            assert time.monotonic() < deadline, f"{len(records)} records, calls {calls}"
            try:
                batch = consumer.consume(100, 0.5)
            except LookupError:
                if make is both[0]:
                    break
                continue
            records += batch
        counts.append(partition_offsets(records))
    assert counts[1] == [(p, n) for p in range(3) for n in range(10)]


def is_assigned(consumer: Any, expected: set[PartitionKey], _: object) -> bool:
    return partition_keys(consumer.assignment()) == expected


@ON_A_CLUSTER
def test_subscribing_to_a_topic_without_metadata(
    both: tuple[Consumers, Consumers], filled: str, cluster: Cluster
) -> None:
    # While it waits for the new topic's metadata, confluent's cooperative consumer treats the old
    # topic as deleted: its partitions are lost, and their offsets are not committed.
    other = create_topic(cluster, new_name("other"), [[0, 2, 4]])
    kinds, commits = [], []
    for make in both:
        calls, group = Callbacks(), new_name("group")
        consumer = make({"auto.commit.interval.ms": 600_000}, group=group, cooperative=True)
        consumer.subscribe([filled])
        poll_until(consumer, until=lambda messages: len(messages) == 30, what="all records")
        consumer.subscribe([other], **calls.all)
        poll_until(
            consumer, until=partial(is_assigned, consumer, {(other, 0)}), what="the other topic"
        )
        kinds.append([kind for kind, partitions in calls.calls if partitions])
        commits.append(committed(cluster, group))
    assert kinds == [["lost", "assign"], ["revoke", "assign"]]
    assert commits == [{}, {(filled, p): 10 for p in range(3)}]


@ON_A_CLUSTER
@pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])
def test_no_common_group_with_librdkafkas_assignors(
    both: tuple[Consumers, Consumers], filled: str, cooperative: bool
) -> None:
    # docs/confluent.md, "What is not possible": the group has to be stopped between the two.
    group = new_group()
    confluents, rackwards = (
        make({"enable.auto.commit": False}, group=group, cooperative=cooperative) for make in both
    )
    confluents.subscribe([filled])
    read_records(confluents, 30)
    for partition, offset in ((0, 10), (1, 10), (2, 7)):
        confluents.commit(offsets=[TopicPartition(filled, partition, offset)], asynchronous=False)
    rackwards.subscribe([filled])
    (error, *_) = poll_until(confluents, rackwards, until=bool, what="an error")
    assert error.error().code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    assert rackwards.assignment() == []
    assert len(confluents.assignment()) == 3
    confluents.close()
    # It goes on trying, and reads on from the committed offsets.
    messages = poll_until(
        rackwards,
        until=lambda messages: sum(message.error() is None for message in messages) == 3,
        what="three records",
    )
    read = [(m.partition(), m.offset()) for m in messages if m.error() is None]
    assert read == [(2, 7), (2, 8), (2, 9)]


@ON_A_CLUSTER
def test_a_seek_after_assign_in_on_assign(both: tuple[Consumers, Consumers], filled: str) -> None:
    # rackward's consumer has the group's committed offsets by then, confluent's waits for them.
    codes: list[int | None] = []

    def on_assign(consumer: Any, partitions: list[TopicPartition]) -> None:
        consumer.assign(partitions)
        try:
            consumer.seek(TopicPartition(filled, 0, 7))
        except KafkaException as error:
            codes.append(error.args[0].code())
        else:
            codes.append(None)

    for make in both:
        consumer = make()
        consumer.subscribe([filled], on_assign=on_assign)
        poll_until(consumer, until=bool, what="a record")
    assert codes == [KafkaError._STATE, None]
