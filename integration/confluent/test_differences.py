"""Where our Consumer is meant to differ from confluent's own: the whole of it, each side shown.

That confluent's own still does what it is said to do is part of the test: what it mends, ours
need not deviate from.
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
from confluent_kafka import KafkaError, KafkaException

from assignors.confluent import Consumer
from integration.support.clients import Place
from integration.support.confluent import (
    CONFLUENT,
    RACKWARD,
    Callbacks,
    Consumers,
    places,
    read,
    where,
)
from integration.support.topics import committed, create_topic, new_name
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE

OURS = {"group.id": "g", "partition.assignment.strategy": RACKWARD.eager, "log_level": 0}
ON_A_CLUSTER = pytest.mark.parametrize("cluster", ["local"], indirect=True)


@pytest.fixture
def both(cluster: Cluster) -> Iterator[tuple[Consumers, Consumers]]:
    """What makes confluent's own, and what makes ours."""
    made = tuple(Consumers(variant, cluster.bootstrap_servers) for variant in (CONFLUENT, RACKWARD))
    yield made[0], made[1]
    for each in made:
        each.close()


@pytest.mark.parametrize("group", ["", None])
def test_a_group_without_a_name(group: str | None) -> None:
    def end_of(module: str) -> subprocess.CompletedProcess[str]:
        settings: dict[str, object] = {"group.id": group}
        if module != "confluent_kafka":
            settings = {**OURS, **settings}
        script = f"from {module} import Consumer; Consumer({settings!r})"
        return subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )

    # confluent's own ends the process, by an assertion in C.
    assert end_of("confluent_kafka").returncode == -signal.SIGABRT
    ours = end_of("assignors.confluent")
    assert ours.returncode == 1
    assert ours.stderr.splitlines()[-1].startswith("ValueError: ")
    assert "group.id must be set" in ours.stderr


@pytest.mark.parametrize(
    "settings",
    [
        # The broker would assign, and knows nothing of ours.
        {"group.protocol": "consumer"},
        # Nobody of another strategy could read what ours sends, nor ours what they send.
        {"partition.assignment.strategy": "range"},
        {"partition.assignment.strategy": f"{RACKWARD.eager},range"},
        {"partition.assignment.strategy": f"{RACKWARD.eager},{RACKWARD.cooperative}"},
        {"partition.assignment.strategy": None},
        # The client that holds the membership insists on more than one heartbeat a session.
        {"heartbeat.interval.ms": 6000, "session.timeout.ms": 6000},
        # It knows neither librdkafka's mocks nor this login.
        {"test.mock.num.brokers": 3},
        {"sasl.mechanisms": "OAUTHBEARER", "security.protocol": "SASL_PLAINTEXT"},
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()),
)
def test_what_ours_refuses(settings: dict[str, Any]) -> None:
    strategy = settings.get("partition.assignment.strategy", "range")
    if RACKWARD.eager not in str(strategy):
        theirs = {"group.id": "g", "log_level": 0, **settings}
        if strategy is None:
            del theirs["partition.assignment.strategy"]
        confluent_kafka.Consumer(theirs).close()
    with pytest.raises(KafkaException) as caught:
        Consumer({**OURS, **settings})
    error = caught.value.args[0]
    assert error.code() == KafkaError._INVALID_ARG
    # It says what was wrong.
    assert next(iter(settings)) in error.str()


@ON_A_CLUSTER
def test_an_assignment_of_the_wrong_kind_in_a_callback(
    both: tuple[Consumers, Consumers], filled: str
) -> None:
    # confluent's own raises the KafkaError itself, which is no exception, so that nothing but a
    # bare except catches it; ours raises the KafkaException that the call is documented to raise.
    raised: list[Any] = []
    for make in both:
        consumer = make()
        consumer.subscribe([filled], on_assign=lambda it, given: it.incremental_assign(given))
        try:
            read(consumer, until=lambda _: False, what="an exception")
        except:  # noqa: E722
            raised.append(sys.exc_info()[1])
        assert consumer.assignment() == []
    own, ours = raised
    assert type(own) in (KafkaError, KafkaException)
    assert type(ours) is KafkaException
    assert ours.args[0].code() == KafkaError._STATE


@ON_A_CLUSTER
def test_records_beside_an_exception_in_consume(
    both: tuple[Consumers, Consumers], filled: str
) -> None:
    # Where a callback raises in consume, confluent's own drops the records that the call has
    # collected; ours returns them, and raises at the next call.
    counts = []
    for make in both:
        told: list[object] = []

        def fail(*_: object, told: list[object] = told) -> None:
            told.append(_)
            if len(told) == 1:
                raise LookupError("planned")

        consumer = make({"on_commit": fail, "auto.commit.interval.ms": 200})
        consumer.assign([confluent_kafka.TopicPartition(filled, p, 0) for p in range(3)])
        records: list[Any] = []
        deadline = time.monotonic() + PATIENCE
        while not told or len(records) < 30:
            assert time.monotonic() < deadline, f"{len(records)} records, told {told}"
            try:
                batch = consumer.consume(100, 0.5)
            except LookupError:
                if make is both[0]:
                    break
                continue
            records += batch
        counts.append(where(records))
    assert counts[1] == [(p, n) for p in range(3) for n in range(10)]


def holds(consumer: Any, expected: set[Place], _: object) -> bool:
    return places(consumer.assignment()) == expected


@ON_A_CLUSTER
def test_a_subscription_to_a_topic_not_seen_before(
    both: tuple[Consumers, Consumers], filled: str, cluster: Cluster
) -> None:
    # While it waits for the new topic's metadata, confluent's own cooperative consumer thinks the
    # old one deleted: partitions are lost, and what was read of them is not committed.
    other = create_topic(cluster, new_name("other"), [[0, 2, 4]])
    kinds, commits = [], []
    for make in both:
        calls, group = Callbacks(), new_name("group")
        consumer = make({"auto.commit.interval.ms": 600_000}, group=group, cooperative=True)
        consumer.subscribe([filled])
        read(consumer, until=lambda found: len(found) == 30, what="all records")
        consumer.subscribe([other], **calls.all)
        read(consumer, until=partial(holds, consumer, {(other, 0)}), what="the other topic")
        kinds.append([kind for kind, given in calls.calls if given])
        commits.append(committed(cluster, group))
    assert kinds == [["lost", "assign"], ["revoke", "assign"]]
    assert commits == [{}, {(filled, p): 10 for p in range(3)}]
