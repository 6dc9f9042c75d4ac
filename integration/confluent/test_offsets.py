"""commit, committed, store_offsets, automatic commits and on_commit."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, Message, TopicPartition

from integration.support.confluent import (
    CONFLUENT,
    Consumers,
    new_group,
    poll_until,
    raised_code,
    read_records,
)
from integration.support.topics import committed, new_name, with_admin
from rackward.testing import Cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

MANUAL_COMMITS = {"enable.auto.commit": False}


def offsets_of(partitions: list[TopicPartition]) -> dict[int, int]:
    assert all(each.error is None for each in partitions)
    return {each.partition: each.offset for each in partitions}


def three_partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in range(3)]


def committed_metadata(cluster: Cluster, group: str) -> dict[int, str]:
    """Return what brokers have, by partition number."""
    offsets = with_admin(cluster, lambda admin: admin.list_group_offsets(group))
    return {partition.partition: each.metadata for partition, each in offsets[group].items()}


def test_every_form_of_commit(consumers: Consumers, filled: str) -> None:
    consumer = consumers(MANUAL_COMMITS)
    assert raised_code(consumer.commit, asynchronous=False) == KafkaError._NO_OFFSET
    consumer.subscribe([filled])
    messages = read_records(consumer, 30)
    message = next(m for m in messages if (m.partition(), m.offset()) == (1, 4))

    # The positions are committed.
    assert offsets_of(consumer.commit(asynchronous=False)) == {0: 10, 1: 10, 2: 10}
    assert offsets_of(consumer.committed(three_partitions(filled), timeout=60)) == {
        0: 10,
        1: 10,
        2: 10,
    }
    # Nothing is uncommitted.
    assert raised_code(consumer.commit, asynchronous=False) == KafkaError._NO_OFFSET
    assert offsets_of(consumer.commit(message, asynchronous=False)) == {1: 5}
    assert offsets_of(consumer.commit(message=message, asynchronous=False)) == {1: 5}
    # "async" is the older name of the argument, now a keyword of Python.
    assert offsets_of(
        consumer.commit(offsets=[TopicPartition(filled, 0, 3)], **{"async": False})
    ) == {0: 3}
    (noted,) = consumer.commit(offsets=[TopicPartition(filled, 2, 6, "a note")], asynchronous=False)
    assert (noted.topic, noted.partition, noted.offset, noted.metadata) == (filled, 2, 6, "a note")
    partitions = consumer.committed(three_partitions(filled))
    assert offsets_of(partitions) == {0: 3, 1: 5, 2: 6}
    assert partitions[2].metadata == "a note"
    assert [each.leader_epoch for each in partitions] == [None, 0, None]

    assert consumer.commit(offsets=[TopicPartition(filled, 0, 2)]) is None
    assert consumer.commit(message, asynchronous=True) is None
    wait_until(
        lambda: offsets_of(consumer.committed(three_partitions(filled), timeout=60))[0] == 2,
        within=60,
        what="the asynchronous commit",
    )


def test_metadata_is_stored_as_by_librdkafka(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    # With a NUL at the end. Without, librdkafka's committed() reads past the end.
    group = new_group()
    consumer = consumers({**MANUAL_COMMITS, "enable.auto.offset.store": False}, group=group)
    consumer.subscribe([filled])
    read_records(consumer, 30)
    notes = ["a note of é", "", None]
    partitions = [
        TopicPartition(filled, p, 1) if note is None else TopicPartition(filled, p, 1, note)
        for p, note in enumerate(notes)
    ]
    consumer.commit(offsets=partitions, asynchronous=False)
    assert committed_metadata(cluster, group) == {0: "a note of é\0", 1: "\0", 2: ""}
    stock = CONFLUENT.consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    for reader in (consumer, stock):
        read = reader.committed(three_partitions(filled), timeout=60)
        assert [each.metadata for each in read] == ["a note of é", "", None]
    stock.close()

    consumer.store_offsets(offsets=[TopicPartition(filled, 0, 2, "stored")])
    consumer.commit(asynchronous=False)
    assert committed_metadata(cluster, group)[0] == "stored\0"


def test_a_partly_failed_commit_is_reported(consumers: Consumers, filled: str) -> None:
    results: list[tuple[Any, list[tuple[int, Any]]]] = []

    def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        errors = sorted((p.partition, p.error and p.error.code()) for p in partitions)
        results.append((error and error.code(), errors))

    consumer = consumers({**MANUAL_COMMITS, "on_commit": on_commit})
    consumer.subscribe([filled])
    read_records(consumer, 30)
    missing = new_name("missing")
    unknown, too_large = KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.OFFSET_METADATA_TOO_LARGE
    for offsets, expected in (
        ([TopicPartition(missing, 7, 1), TopicPartition(filled, 0, 4)], unknown),
        ([TopicPartition(filled, 1, 4), TopicPartition(missing, 7, 1)], unknown),
        ([TopicPartition(filled, 2, 4), TopicPartition(filled, 0, 5, "m" * 5000)], too_large),
    ):
        assert raised_code(consumer.commit, offsets=offsets, asynchronous=False) == expected
        results.clear()
        consumer.commit(offsets=offsets)
        poll_until(consumer, until=lambda _: results, what="the result of the commit")
        assert results == [(expected, sorted((each.partition, expected) for each in offsets))]
    # Partitions that were valid are committed, although the result has the error for them too.
    assert offsets_of(consumer.committed(three_partitions(filled), timeout=60)) == {
        0: 4,
        1: 4,
        2: 4,
    }


def test_refused_commits(consumers: Consumers, filled: str) -> None:
    consumer = consumers({**MANUAL_COMMITS, "enable.partition.eof": True})
    consumer.assign([TopicPartition(filled, 0, 9)])
    (message, end) = poll_until(consumer, until=lambda messages: len(messages) == 2, what="an end")
    missing = new_name("missing")
    for unknown in (
        [TopicPartition(filled, 9, 1)],
        [TopicPartition(missing, 0, 1)],
        [TopicPartition(missing, 0, 1), TopicPartition(filled, 0, 1)],
    ):
        assert (
            raised_code(consumer.commit, offsets=unknown, asynchronous=False)
            == KafkaError.UNKNOWN_TOPIC_OR_PART
        )
    for empty in ([], [TopicPartition(filled, 0)]):
        assert (
            raised_code(consumer.commit, offsets=empty, asynchronous=False) == KafkaError._NO_OFFSET
        )
    assert raised_code(consumer.commit, end, asynchronous=False) == KafkaError._INVALID_ARG
    with pytest.raises(ValueError, match="mutually exclusive"):
        consumer.commit(message, [TopicPartition(filled, 0, 1)])
    arguments: tuple[dict[str, Any], ...] = ({"message": 1}, {"offsets": 1}, {"offsets": [1]})
    for wrong in (*arguments, {"no_such_argument": 1}):
        with pytest.raises(TypeError):
            consumer.commit(**wrong)
    for invalid in (1, [1], None):
        with pytest.raises(TypeError):
            consumer.committed(invalid)
    assert consumer.committed([]) == []
    (stray,) = consumer.committed([TopicPartition(missing, 3)], timeout=60)
    assert (stray.offset, stray.error) == (OFFSET_INVALID, None)


def test_commits_without_a_subscription(consumers: Consumers, filled: str) -> None:
    group = new_group()
    consumer = consumers(group=group)
    assert offsets_of(
        consumer.commit(offsets=[TopicPartition(filled, 2, 5)], asynchronous=False)
    ) == {2: 5}
    consumer.assign([TopicPartition(filled, 0)])
    read_records(consumer, 10)
    consumer.close()
    after = consumers(group=group)
    assert offsets_of(after.committed(three_partitions(filled), timeout=60)) == {
        0: 10,
        1: OFFSET_INVALID,
        2: 5,
    }


def test_on_commit_is_called_in_poll(consumers: Consumers, filled: str) -> None:
    commits: list[tuple[Any, dict[int, tuple[int, Any]], int]] = []

    def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        offsets = {
            p.partition: (p.offset, p.error and p.error.code())
            for p in partitions
            if p.offset != OFFSET_INVALID
        }
        commits.append((error and error.code(), offsets, threading.get_ident()))

    here = threading.get_ident()
    consumer = consumers({"on_commit": on_commit, "auto.commit.interval.ms": 300})
    consumer.subscribe([filled])
    poll_until(consumer, until=lambda _: commits, what="an automatic commit")

    def all_committed(_: object) -> bool:
        return sum(offset for _, offsets, _ in commits for offset, _ in offsets.values()) >= 30

    poll_until(consumer, until=all_committed, what="automatic commits of all offsets")
    assert {(error, thread) for error, _, thread in commits} == {(None, here)}
    consumer.close()

    commits.clear()
    consumer = consumers({**MANUAL_COMMITS, "on_commit": on_commit, "auto.offset.reset": "latest"})
    consumer.subscribe([filled])
    poll_until(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    consumer.pause(three_partitions(filled))
    consumer.commit(offsets=[TopicPartition(filled, 0, 3)], asynchronous=False)
    assert commits == []
    consumer.commit(offsets=[TopicPartition(filled, 0, 4)])
    poll_until(consumer, until=lambda _: commits, what="the result of the commit")
    assert commits == [(None, {0: (4, None)}, here)]
    commits.clear()
    consumer.commit(offsets=[TopicPartition(new_name("missing"), 0, 4)])
    poll_until(consumer, until=lambda _: commits, what="the error of the commit")
    unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
    assert commits == [(unknown, {0: (4, unknown)}, here)]
    commits.clear()
    consumer.commit()
    poll_until(consumer, until=lambda _: commits, what="the error of an empty commit")
    assert commits == [(KafkaError._NO_OFFSET, {}, here)]


def test_poll_raises_exceptions_of_on_commit(consumers: Consumers, filled: str) -> None:
    def fail(*_: object) -> None:
        raise LookupError("planned")

    consumer = consumers({**MANUAL_COMMITS, "on_commit": fail})
    consumer.commit(offsets=[TopicPartition(filled, 0, 4)])
    with pytest.raises(LookupError, match="planned"):
        poll_until(consumer, until=lambda _: False, what="the exception")


def test_close_commits_if_auto_commit_is_enabled(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    groups = {automatic: new_group() for automatic in (True, False)}
    for automatic, group in groups.items():
        settings = {"enable.auto.commit": automatic, "auto.commit.interval.ms": 600_000}
        consumer = consumers(settings, group=group)
        consumer.subscribe([filled])
        read_records(consumer, 30)
        assert offsets_of(
            consumer.committed(three_partitions(filled), timeout=60)
        ) == dict.fromkeys(range(3), OFFSET_INVALID)
        consumer.close()
    assert committed(cluster, groups[True]) == {(filled, p): 10 for p in range(3)}
    assert committed(cluster, groups[False]) == {}


def test_a_commit_in_on_revoke(consumers: Consumers, filled: str, cluster: Cluster) -> None:
    group = new_group()
    results = []
    consumer = consumers(MANUAL_COMMITS, group=group)
    consumer.subscribe(
        [filled], on_revoke=lambda it, _: results.append(offsets_of(it.commit(asynchronous=False)))
    )
    read_records(consumer, 30)
    consumer.close()
    assert results == [{0: 10, 1: 10, 2: 10}]
    assert committed(cluster, group) == {(filled, p): 10 for p in range(3)}


def test_unsubscribe_commits(consumers: Consumers, filled: str, cluster: Cluster) -> None:
    group = new_group()
    consumer = consumers({"auto.commit.interval.ms": 600_000}, group=group)
    consumer.subscribe([filled])
    read_records(consumer, 30)
    consumer.unsubscribe()
    poll_until(consumer, until=lambda _: committed(cluster, group), what="the commit")
    assert committed(cluster, group) == {(filled, p): 10 for p in range(3)}


def test_stored_offsets(consumers: Consumers, filled: str, cluster: Cluster) -> None:
    group = new_group()
    settings = {"enable.auto.offset.store": False, "auto.commit.interval.ms": 200}
    consumer = consumers(settings, group=group)
    unassigned = KafkaError._UNKNOWN_PARTITION
    stray = [TopicPartition(new_name("missing"), 0, 1)]
    assert raised_code(consumer.store_offsets, offsets=stray) == unassigned
    consumer.subscribe([filled])
    messages = read_records(consumer, 30)
    message = next(m for m in messages if (m.partition(), m.offset()) == (0, 4))
    # Reading stores no offset, so there is nothing to commit.
    assert consumer.poll(0.5) is None
    assert raised_code(consumer.commit, asynchronous=False) == KafkaError._NO_OFFSET

    assert consumer.store_offsets(message) is None
    assert consumer.store_offsets(offsets=[TopicPartition(filled, 1, 6)]) is None
    # Partitions that are not assigned are ignored if another one is assigned.
    assert consumer.store_offsets(offsets=[*stray, TopicPartition(filled, 2, 2)]) is None
    assert raised_code(consumer.store_offsets, offsets=stray) == unassigned
    expected = {(filled, 0): 5, (filled, 1): 6, (filled, 2): 2}
    poll_until(
        consumer, until=lambda _: committed(cluster, group) == expected, what="an auto-commit"
    )
    with pytest.raises(ValueError, match="expected either"):
        consumer.store_offsets()
    with pytest.raises(ValueError, match="mutually exclusive"):
        consumer.store_offsets(message, [])
    arguments: tuple[dict[str, Any], ...] = ({"message": 1}, {"offsets": 1}, {"offsets": [1]})
    for wrong in arguments:
        with pytest.raises(TypeError):
            consumer.store_offsets(**wrong)

    consumer.store_offsets(offsets=[TopicPartition(filled, 0, 9)])
    consumer.close()
    assert committed(cluster, group) == {**expected, (filled, 0): 9}


def test_commit_uses_stored_offsets(consumers: Consumers, filled: str) -> None:
    consumer = consumers({**MANUAL_COMMITS, "enable.auto.offset.store": False})
    consumer.subscribe([filled])
    poll_until(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    consumer.store_offsets(offsets=[TopicPartition(filled, 0, 9)])
    results = {p.partition: p.offset for p in consumer.commit(asynchronous=False)}
    assert results == {0: 9, 1: OFFSET_INVALID, 2: OFFSET_INVALID}
    # With enable.auto.offset.store the application may not store offsets.
    automatic = consumers()
    automatic.assign([TopicPartition(filled, 0)])
    assert (
        raised_code(automatic.store_offsets, offsets=[TopicPartition(filled, 0, 1)])
        == KafkaError._INVALID_ARG
    )


def test_messages_that_were_not_read(consumers: Consumers, filled: str) -> None:
    settings = {**MANUAL_COMMITS, "enable.auto.offset.store": False, "enable.partition.eof": True}
    consumer = consumers({**settings, "auto.offset.reset": "latest"})
    consumer.subscribe([filled])
    (end,) = poll_until(consumer, until=lambda messages: len(messages) == 1, what="an end")[:1]
    assert raised_code(consumer.store_offsets, end) == KafkaError._INVALID_ARG
    assert raised_code(consumer.store_offsets, message=end) == KafkaError._INVALID_ARG
    # The application's own message may lack an offset, which stores nothing.
    assert consumer.store_offsets(Message(topic=filled, partition=0)) is None
    assert raised_code(consumer.commit, asynchronous=False) == KafkaError._NO_OFFSET
    without = Message(topic=filled, partition=0)
    assert raised_code(consumer.commit, without, asynchronous=False) == KafkaError._NO_OFFSET
    # OFFSET_INVALID clears what is stored.
    consumer.store_offsets(Message(topic=filled, partition=0, offset=6))
    consumer.store_offsets(offsets=[TopicPartition(filled, 0, OFFSET_INVALID)])
    assert raised_code(consumer.commit, asynchronous=False) == KafkaError._NO_OFFSET
    consumer.store_offsets(Message(topic=filled, partition=1, offset=6))
    committed = offsets_of(consumer.commit(asynchronous=False))
    assert {partition: offset for partition, offset in committed.items() if offset >= 0} == {1: 7}
    with pytest.raises(TypeError):
        consumer.store_offsets(end, None, None)
    with pytest.raises(TypeError):
        consumer.store_offsets(no_such_argument=1)
