"""commit, committed, store_offsets, automatic commits and on_commit."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka import TopicPartition as At

from integration.support.confluent import Consumers, new_group, read, read_records
from integration.support.topics import committed, new_name
from rackward.clusters import Cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

BY_HAND = {"enable.auto.commit": False}


def code_of(act: Any, *arguments: Any, **named: Any) -> int:
    with pytest.raises(KafkaException) as caught:
        act(*arguments, **named)
    return int(caught.value.args[0].code())


def of(partitions: list[At]) -> dict[int, int]:
    assert all(each.error is None for each in partitions)
    return {each.partition: each.offset for each in partitions}


def three(topic: str) -> list[At]:
    return [At(topic, partition) for partition in range(3)]


def test_every_form_of_commit(consumers: Consumers, filled: str) -> None:
    consumer = consumers(BY_HAND)
    assert code_of(consumer.commit, asynchronous=False) == KafkaError._NO_OFFSET
    consumer.subscribe([filled])
    messages = read_records(consumer, 30)
    message = next(m for m in messages if (m.partition(), m.offset()) == (1, 4))

    # What was read is where it stands.
    assert of(consumer.commit(asynchronous=False)) == {0: 10, 1: 10, 2: 10}
    assert of(consumer.committed(three(filled), timeout=60)) == {0: 10, 1: 10, 2: 10}
    # There is nothing that is not committed.
    assert code_of(consumer.commit, asynchronous=False) == KafkaError._NO_OFFSET
    assert of(consumer.commit(message, asynchronous=False)) == {1: 5}
    assert of(consumer.commit(message=message, asynchronous=False)) == {1: 5}
    # "async" is the name that it had before Python took the word.
    assert of(consumer.commit(offsets=[At(filled, 0, 3)], **{"async": False})) == {0: 3}
    (told,) = consumer.commit(offsets=[At(filled, 2, 6, "a note")], asynchronous=False)
    assert (told.topic, told.partition, told.offset, told.metadata) == (filled, 2, 6, "a note")
    found = consumer.committed(three(filled))
    assert of(found) == {0: 3, 1: 5, 2: 6}
    assert found[2].metadata == "a note"
    assert [each.leader_epoch for each in found] == [None, 0, None]

    assert consumer.commit(offsets=[At(filled, 0, 2)]) is None
    assert consumer.commit(message, asynchronous=True) is None
    wait_until(
        lambda: of(consumer.committed(three(filled), timeout=60))[0] == 2,
        within=60,
        what="the asynchronous commit",
    )


def test_commits_that_are_refused(consumers: Consumers, filled: str) -> None:
    consumer = consumers({**BY_HAND, "enable.partition.eof": True})
    consumer.assign([At(filled, 0, 9)])
    (message, end) = read(consumer, until=lambda found: len(found) == 2, what="an end")
    missing = new_name("missing")
    for unknown in ([At(filled, 9, 1)], [At(missing, 0, 1)], [At(missing, 0, 1), At(filled, 0, 1)]):
        assert (
            code_of(consumer.commit, offsets=unknown, asynchronous=False)
            == KafkaError.UNKNOWN_TOPIC_OR_PART
        )
    for empty in ([], [At(filled, 0)]):
        assert code_of(consumer.commit, offsets=empty, asynchronous=False) == KafkaError._NO_OFFSET
    assert code_of(consumer.commit, end, asynchronous=False) == KafkaError._INVALID_ARG
    with pytest.raises(ValueError, match="mutually exclusive"):
        consumer.commit(message, [At(filled, 0, 1)])
    arguments: tuple[dict[str, Any], ...] = ({"message": 1}, {"offsets": 1}, {"offsets": [1]})
    for wrong in (*arguments, {"no_such_argument": 1}):
        with pytest.raises(TypeError):
            consumer.commit(**wrong)
    for odd in (1, [1], None):
        with pytest.raises(TypeError):
            consumer.committed(odd)
    assert consumer.committed([]) == []
    (stray,) = consumer.committed([At(missing, 3)], timeout=60)
    assert (stray.offset, stray.error) == (OFFSET_INVALID, None)


def test_commits_of_one_who_is_in_no_group(consumers: Consumers, filled: str) -> None:
    group = new_group()
    consumer = consumers(group=group)
    assert of(consumer.commit(offsets=[At(filled, 2, 5)], asynchronous=False)) == {2: 5}
    consumer.assign([At(filled, 0)])
    read_records(consumer, 10)
    consumer.close()
    after = consumers(group=group)
    assert of(after.committed(three(filled), timeout=60)) == {0: 10, 1: OFFSET_INVALID, 2: 5}


def test_on_commit_is_told_in_poll(consumers: Consumers, filled: str) -> None:
    told: list[tuple[Any, dict[int, tuple[int, Any]], int]] = []

    def note(error: KafkaError | None, partitions: list[At]) -> None:
        standing = {
            p.partition: (p.offset, p.error and p.error.code())
            for p in partitions
            if p.offset != OFFSET_INVALID
        }
        told.append((error and error.code(), standing, threading.get_ident()))

    here = threading.get_ident()
    consumer = consumers({"on_commit": note, "auto.commit.interval.ms": 300})
    consumer.subscribe([filled])
    read(consumer, until=lambda _: told, what="an automatic commit")

    def all_committed(_: object) -> bool:
        return sum(offset for _, standing, _ in told for offset, _ in standing.values()) >= 30

    read(consumer, until=all_committed, what="automatic commits of everything")
    assert {(error, thread) for error, _, thread in told} == {(None, here)}
    consumer.close()

    told.clear()
    consumer = consumers({**BY_HAND, "on_commit": note, "auto.offset.reset": "latest"})
    consumer.subscribe([filled])
    read(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    consumer.pause(three(filled))
    consumer.commit(offsets=[At(filled, 0, 3)], asynchronous=False)
    assert told == []
    consumer.commit(offsets=[At(filled, 0, 4)])
    read(consumer, until=lambda _: told, what="the result of the commit")
    assert told == [(None, {0: (4, None)}, here)]
    told.clear()
    consumer.commit(offsets=[At(new_name("missing"), 0, 4)])
    read(consumer, until=lambda _: told, what="the error of the commit")
    unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
    assert told == [(unknown, {0: (4, unknown)}, here)]
    told.clear()
    consumer.commit()
    read(consumer, until=lambda _: told, what="that there was nothing")
    assert told == [(KafkaError._NO_OFFSET, {}, here)]


def test_what_on_commit_raises_comes_out(consumers: Consumers, filled: str) -> None:
    def fail(*_: object) -> None:
        raise LookupError("planned")

    consumer = consumers({**BY_HAND, "on_commit": fail})
    consumer.commit(offsets=[At(filled, 0, 4)])
    with pytest.raises(LookupError, match="planned"):
        read(consumer, until=lambda _: False, what="the exception")


def test_close_commits_unless_told_not_to(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    groups = {automatic: new_group() for automatic in (True, False)}
    for automatic, group in groups.items():
        settings = {"enable.auto.commit": automatic, "auto.commit.interval.ms": 600_000}
        consumer = consumers(settings, group=group)
        consumer.subscribe([filled])
        read_records(consumer, 30)
        assert of(consumer.committed(three(filled), timeout=60)) == dict.fromkeys(
            range(3), OFFSET_INVALID
        )
        consumer.close()
    assert committed(cluster, groups[True]) == {(filled, p): 10 for p in range(3)}
    assert committed(cluster, groups[False]) == {}


def test_a_commit_in_on_revoke(consumers: Consumers, filled: str, cluster: Cluster) -> None:
    group = new_group()
    results = []
    consumer = consumers(BY_HAND, group=group)
    consumer.subscribe(
        [filled], on_revoke=lambda it, _: results.append(of(it.commit(asynchronous=False)))
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
    read(consumer, until=lambda _: committed(cluster, group), what="the commit")
    assert committed(cluster, group) == {(filled, p): 10 for p in range(3)}


def test_stored_offsets(consumers: Consumers, filled: str, cluster: Cluster) -> None:
    group = new_group()
    settings = {"enable.auto.offset.store": False, "auto.commit.interval.ms": 200}
    consumer = consumers(settings, group=group)
    unassigned = KafkaError._UNKNOWN_PARTITION
    stray = [At(new_name("missing"), 0, 1)]
    assert code_of(consumer.store_offsets, offsets=stray) == unassigned
    consumer.subscribe([filled])
    messages = read_records(consumer, 30)
    message = next(m for m in messages if (m.partition(), m.offset()) == (0, 4))
    # Reading stores nothing, so there is nothing to commit.
    assert consumer.poll(0.5) is None
    assert code_of(consumer.commit, asynchronous=False) == KafkaError._NO_OFFSET

    assert consumer.store_offsets(message) is None
    assert consumer.store_offsets(offsets=[At(filled, 1, 6)]) is None
    # What is not assigned is left out where something else is assigned.
    assert consumer.store_offsets(offsets=[*stray, At(filled, 2, 2)]) is None
    assert code_of(consumer.store_offsets, offsets=stray) == unassigned
    expected = {(filled, 0): 5, (filled, 1): 6, (filled, 2): 2}
    read(consumer, until=lambda _: committed(cluster, group) == expected, what="an auto-commit")
    with pytest.raises(ValueError, match="expected either"):
        consumer.store_offsets()
    with pytest.raises(ValueError, match="mutually exclusive"):
        consumer.store_offsets(message, [])
    arguments: tuple[dict[str, Any], ...] = ({"message": 1}, {"offsets": 1}, {"offsets": [1]})
    for wrong in arguments:
        with pytest.raises(TypeError):
            consumer.store_offsets(**wrong)

    consumer.store_offsets(offsets=[At(filled, 0, 9)])
    consumer.close()
    assert committed(cluster, group) == {**expected, (filled, 0): 9}


def test_stored_offsets_are_committed_by_hand(consumers: Consumers, filled: str) -> None:
    consumer = consumers({**BY_HAND, "enable.auto.offset.store": False})
    consumer.subscribe([filled])
    read(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    consumer.store_offsets(offsets=[At(filled, 0, 9)])
    told = {p.partition: p.offset for p in consumer.commit(asynchronous=False)}
    assert told == {0: 9, 1: OFFSET_INVALID, 2: OFFSET_INVALID}
    # Where they are stored by themselves, nobody else may.
    automatic = consumers()
    automatic.assign([At(filled, 0)])
    assert code_of(automatic.store_offsets, offsets=[At(filled, 0, 1)]) == KafkaError._INVALID_ARG
