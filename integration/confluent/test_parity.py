"""The same calls on confluent's Consumer and on rackward's: equal results, errors and callbacks.

Each script below runs once with each consumer, on groups of its own, and records what every call
returned or raised. The two records have to be equal, so no expected values are written here except
where a script could pass without having done anything. Intended differences are in
`test_differences.py`, and confluent's own tests run in `upstream_tests.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from integration.support.confluent import (
    CONFLUENT,
    RACKWARD,
    Consumers,
    Variant,
    new_group,
    partition_keys,
    partition_offsets,
    poll_until,
    read_records,
)
from integration.support.topics import committed, create_topic, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

MISSING = "no-such-topic"
MANUAL = {"enable.auto.commit": False}
STORED = {**MANUAL, "enable.auto.offset.store": False}
NEVER_AUTOMATIC = {"auto.commit.interval.ms": 600_000}


class Session:
    """Consumers of one variant, and a record of what their methods returned, raised and called."""

    def __init__(self, variant: Variant, cluster: Cluster, topic: str, cooperative: bool) -> None:
        self.cluster = cluster
        self.topic = topic
        self.cooperative = cooperative
        self.record: list[Any] = []
        self._consumers = Consumers(variant, cluster.bootstrap_servers)

    def open(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        group: str | None = None,
        cooperative: bool = False,
    ) -> Any:
        return self._consumers(settings, group=group, cooperative=cooperative or self.cooperative)

    def close(self) -> None:
        self._consumers.close()

    def __call__(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method, and record its outcome. Return its result, None if it raises."""
        try:
            result = method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - compared with the other consumer's
            self.record.append((method.__name__, comparable(error)))
            return None
        self.record.append((method.__name__, comparable(result)))
        return result

    def note(self, name: str, value: Any) -> None:
        self.record.append((name, comparable(value)))

    def read(self, consumer: Any, count: int) -> list[Any]:
        """Read records, and note their partitions and offsets."""
        records = read_records(consumer, count)
        self.note("read", partition_offsets(records))
        return records

    def callbacks(self) -> dict[str, Callable[[Any, Any], None]]:
        """Return rebalance callbacks that note their calls."""

        def callback(kind: str) -> Callable[[Any, Any], None]:
            def called(consumer: Any, partitions: list[TopicPartition]) -> None:
                thread = threading.current_thread() is threading.main_thread()
                offsets = {partition.offset for partition in partitions}
                self.note(
                    kind,
                    (sorted(partition_keys(partitions)), offsets == {OFFSET_INVALID}, thread),
                )
                self.note("assigned", sorted(partition_keys(consumer.assignment())))

            return called

        return {f"on_{kind}": callback(kind) for kind in ("assign", "revoke", "lost")}

    def join(self, consumer: Any, **callbacks: Any) -> None:
        """Subscribe, and poll until all partitions are assigned."""
        consumer.subscribe([self.topic], **callbacks)
        poll_until(consumer, until=has_assigned(consumer, 3), what="an assignment")

    def partitions(self, *numbers: int, offset: int = OFFSET_INVALID) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number, offset) for number in numbers]


def has_assigned(consumer: Any, count: int) -> Callable[[object], bool]:
    return lambda _: len(consumer.assignment()) == count


def has_count(count: int) -> Callable[[list[Any]], bool]:
    return lambda messages: len(messages) == count


def comparable(value: Any) -> Any:
    """Return what has to be equal for both consumers."""
    match value:
        case KafkaException():
            return ("KafkaException", value.args[0].code())
        case BaseException():
            return type(value).__name__
        case KafkaError():
            return value.code()
        case TopicPartition():
            error = value.error and value.error.code()
            return (value.topic, value.partition, value.offset, value.metadata, error)
        case Message():
            fields = (value.topic(), value.partition(), value.offset(), value.leader_epoch())
            content = (value.key(), value.value(), value.headers(), value.timestamp(), len(value))
            error = value.error()
            return (*fields, *content) if error is None else (*fields, error.code())
        case list() | tuple():
            return [comparable(item) for item in value]
        case str() | int() | float() | None:
            return value
    return type(value).__name__


# ---- Assignments by the application


def manual_assignment(session: Session) -> None:
    consumer = session.open(MANUAL)
    session(consumer.unassign)
    session(consumer.assign, session.partitions(0, offset=8))
    session(consumer.incremental_assign, session.partitions(2, offset=9))
    session(consumer.assignment)
    assert len(session.read(consumer, 3)) == 3
    session(consumer.incremental_assign, session.partitions(0))
    session(consumer.incremental_unassign, session.partitions(0))
    session(consumer.incremental_unassign, session.partitions(0))
    session(consumer.assignment)
    # assign replaces. Without an offset, reading starts at the committed offset or the reset.
    session(consumer.assign, session.partitions(1))
    session.read(consumer, 10)
    session(consumer.unassign)
    session(consumer.assignment)
    session(consumer.poll, 0.3)
    session(consumer.memberid)
    session(consumer.assign, [])


def invalid_partitions(session: Session) -> None:
    consumer = session.open()
    calls = (consumer.assign, consumer.incremental_assign, consumer.incremental_unassign)
    for method in (*calls, consumer.pause, consumer.resume, consumer.position, consumer.seek):
        for wrong in (None, 1, "a string", (TopicPartition(session.topic, 0),), [1]):
            session(method, wrong)
    session(consumer.assign, session.partitions(2, 2))
    session(consumer.assign, session.partitions(2, offset=-77))
    session(consumer.assignment)
    # Partitions that do not exist are accepted.
    missing = [TopicPartition(MISSING, 0), *session.partitions(44)]
    session(consumer.assign, [*missing, *session.partitions(0, offset=9)])
    session.read(consumer, 1)
    session(consumer.poll, 0.3)


def start_offsets(session: Session) -> None:
    consumer = session.open(MANUAL)
    for partitions, count in (
        (session.partitions(0, offset=8) + session.partitions(2, offset=OFFSET_BEGINNING), 12),
        (session.partitions(0, offset=OFFSET_END) + session.partitions(1, offset=9), 1),
        # Without a committed offset, and for one out of range, auto.offset.reset applies.
        (session.partitions(0, offset=OFFSET_STORED) + session.partitions(1, offset=99), 20),
    ):
        session(consumer.assign, partitions)
        session.read(consumer, count)
    session(consumer.poll, 0.3)
    session(consumer.commit, offsets=session.partitions(0, offset=7), asynchronous=False)
    session(consumer.assign, session.partitions(0))
    session.read(consumer, 3)


def seek_and_position(session: Session) -> None:
    consumer = session.open(MANUAL)
    (partition,) = session.partitions(0)
    session(consumer.position, [partition, TopicPartition(MISSING, 3)])
    session(consumer.position, [])
    session(consumer.seek, partition)
    session(consumer.assign, session.partitions(0, offset=2))
    session(consumer.position, [partition])
    for offset in (7, OFFSET_BEGINNING):
        session.read(consumer, 1)
        session(consumer.position, [partition])
        session(consumer.seek, TopicPartition(session.topic, 0, offset))
        session(consumer.position, [partition])
    session.read(consumer, 10)
    session(consumer.seek, TopicPartition(session.topic, 0, OFFSET_STORED))
    session(consumer.seek, TopicPartition(session.topic, 9, 1))


def seek_before_an_assignment(session: Session) -> None:
    consumer = session.open()
    (partition,) = session.partitions(0, offset=5)
    session(consumer.seek, partition)
    consumer.subscribe([session.topic], on_assign=lambda *_: session(consumer.seek, partition))
    session(consumer.seek, partition)
    poll_until(consumer)


# ---- Reading


def messages_and_timeouts(session: Session) -> None:
    consumer = session.open()
    session(consumer.poll, 0)
    session(consumer.consume, timeout=0.01)
    session(consumer.consume, 0, 0.01)
    started = time.monotonic()
    session(consumer.poll, 0.3)
    session(consumer.consume, num_messages=5, timeout=0.3)
    assert 0.55 <= time.monotonic() - started < 10
    for wrong in (None, "1", [1]):
        session(consumer.poll, wrong)
        session(consumer.consume, 1, wrong)
    for count in ("1", 1_000_001, -1):
        session(consumer.consume, count, 0)
    consumer.assign(session.partitions(0, offset=0))
    session(consumer.poll)
    session(consumer.consume)
    session(consumer.consume, num_messages=3)
    started = time.monotonic()
    rest = session(consumer.consume, 100, 0.5)
    assert [message.offset() for message in rest] == [5, 6, 7, 8, 9]
    assert time.monotonic() - started >= 0.45


# ---- Offsets


def every_form_of_commit(session: Session) -> None:
    consumer = session.open(MANUAL)
    session(consumer.commit, asynchronous=False)
    consumer.subscribe([session.topic])
    messages = session.read(consumer, 30)
    message = next(m for m in messages if (m.partition(), m.offset()) == (1, 4))
    everything = session.partitions(0, 1, 2)
    session(consumer.commit, asynchronous=False)
    session(consumer.committed, everything, timeout=60)
    session(consumer.commit, asynchronous=False)  # Nothing is uncommitted.
    session(consumer.commit, message, asynchronous=False)
    session(consumer.commit, message=message, asynchronous=False)
    # "async" is the older name of the argument, now a keyword of Python.
    session(consumer.commit, offsets=session.partitions(0, offset=3), **{"async": False})
    noted = [TopicPartition(session.topic, 2, 6, "a note")]
    session(consumer.commit, offsets=noted, asynchronous=False)
    session(consumer.committed, everything)
    session(consumer.commit, offsets=session.partitions(0, offset=2))
    session(consumer.commit, message, asynchronous=True)
    wait_until(
        lambda: consumer.committed(everything, timeout=60)[0].offset == 2,
        within=TEST_TIMEOUT,
        what="the asynchronous commit",
    )
    for args, kwargs in (
        ((1,), {}),
        ((message, everything), {}),
        ((), {"offsets": 1}),
        ((), {"offsets": [1]}),
        ((), {"no_such_argument": 1}),
        ((None, None, True, True, True), {}),
    ):
        session(consumer.commit, *args, **kwargs)


def commits_without_a_subscription(session: Session) -> None:
    group = new_group()
    consumer = session.open(group=group)
    session(consumer.commit, offsets=session.partitions(2, offset=5), asynchronous=False)
    consumer.assign(session.partitions(0))
    session.read(consumer, 10)
    session(consumer.close)
    session(session.open(group=group).committed, session.partitions(0, 1, 2), timeout=60)


def stored_offsets(session: Session) -> None:
    group = new_group()
    consumer = session.open({**STORED, **NEVER_AUTOMATIC, "enable.auto.commit": True}, group=group)
    stray = [TopicPartition(MISSING, 0, 1)]
    session(consumer.store_offsets, offsets=stray)
    consumer.subscribe([session.topic])
    messages = session.read(consumer, 30)
    message = next(m for m in messages if (m.partition(), m.offset()) == (0, 4))
    session(consumer.commit, asynchronous=False)  # Reading stores no offset.
    session(consumer.store_offsets, message)
    # Partitions that are not assigned are ignored if another one is assigned.
    session(consumer.store_offsets, offsets=[*stray, *session.partitions(2, offset=2)])
    session(consumer.store_offsets, offsets=stray)
    session(consumer.commit, asynchronous=False)
    session(consumer.store_offsets)
    session(consumer.store_offsets, message, [])
    for wrong in ({"message": 1}, {"offsets": 1}, {"offsets": [1]}, {"no_such_argument": 1}):
        session(consumer.store_offsets, **wrong)
    # OFFSET_INVALID clears what is stored.
    session(consumer.store_offsets, offsets=session.partitions(1, offset=6))
    session(consumer.store_offsets, offsets=session.partitions(1))
    session(consumer.commit, asynchronous=False)
    session(consumer.store_offsets, offsets=session.partitions(0, offset=9))
    consumer.close()
    offsets = committed(session.cluster, group)
    assert offsets == {(session.topic, 0): 9, (session.topic, 2): 2}
    # With enable.auto.offset.store the application may not store offsets.
    automatic = session.open()
    automatic.assign(session.partitions(0))
    session(automatic.store_offsets, offsets=session.partitions(0, offset=1))


def messages_that_were_not_read(session: Session) -> None:
    settings = {**STORED, "enable.partition.eof": True, "auto.offset.reset": "latest"}
    consumer = session.open(settings)
    consumer.subscribe([session.topic])
    end, *_ = poll_until(consumer, until=bool, what="the end of a partition")
    session(consumer.store_offsets, end)
    session(consumer.commit, end, asynchronous=False)
    # The application's own message may lack an offset, which stores nothing.
    without = Message(topic=session.topic, partition=0)
    session(consumer.store_offsets, without)
    session(consumer.commit, without, asynchronous=False)
    session(consumer.store_offsets, Message(topic=session.topic, partition=1, offset=6))
    offsets = [partition.offset for partition in consumer.commit(asynchronous=False)]
    assert [offset for offset in offsets if offset >= 0] == [7]


def on_commit_is_called_in_poll(session: Session) -> None:
    calls: list[Any] = []

    def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        session.note("error", error)
        session.note("partitions", [p for p in partitions if p.offset >= 0])
        calls.append(threading.get_ident())

    consumer = session.open({**MANUAL, "on_commit": on_commit, "auto.offset.reset": "latest"})
    session.join(consumer)
    session(consumer.commit, offsets=session.partitions(0, offset=3), asynchronous=False)
    assert calls == []
    missing = [TopicPartition(MISSING, 0, 4)]
    for commit in ({"offsets": session.partitions(0, offset=4)}, {"offsets": missing}, {}):
        calls.clear()
        consumer.commit(**commit)
        poll_until(consumer, until=lambda _: calls, what="the result of the commit")
        assert calls == [threading.get_ident()]


def partitions_are_committed_when_given_up(session: Session) -> None:
    for settings, method in (
        (NEVER_AUTOMATIC, "close"),
        (NEVER_AUTOMATIC, "unsubscribe"),
        (MANUAL, "close"),
    ):
        group = new_group()
        consumer = session.open(settings, group=group)
        consumer.subscribe([session.topic])
        session.read(consumer, 30)
        session(consumer.committed, session.partitions(0, 1, 2), timeout=60)
        getattr(consumer, method)()
        if method == "unsubscribe":
            poll_until(consumer, until=has_assigned(consumer, 0), what="a revocation")
        session(session.open(group=group).committed, session.partitions(0, 1, 2), timeout=60)


def a_commit_in_on_revoke(session: Session) -> None:
    consumer = session.open(MANUAL)
    consumer.subscribe(
        [session.topic], on_revoke=lambda it, _: session(it.commit, asynchronous=False)
    )
    session.read(consumer, 30)
    session(consumer.close)


# ---- The subscription


def invalid_subscriptions(session: Session) -> None:
    consumer = session.open()
    for arguments in (
        ("a string",),
        (("a", "tuple"),),
        (None,),
        (["t"], 1),
        (["t"], None),
        (["t"], print, "x"),
        (["t"], print, print, 1),
        ([],),
        ([""],),
        (["t", "t"],),
        (["^["],),
    ):
        session(consumer.subscribe, *arguments)
    session(consumer.assignment)


def callbacks(session: Session) -> None:
    consumer = session.open()
    session(consumer.unsubscribe)
    session(consumer.memberid)
    outside = session(consumer.consumer_group_metadata)
    session.join(consumer, **session.callbacks())
    assert consumer.memberid()
    assert session(consumer.consumer_group_metadata) != outside
    session(consumer.unsubscribe)
    poll_until(consumer, until=lambda _: consumer.memberid() is None, what="no member id")
    session(consumer.assignment)
    session.join(consumer, **session.callbacks())
    session(consumer.close)


def callbacks_in_consume(session: Session) -> None:
    consumer = session.open()
    consumer.subscribe([session.topic], **session.callbacks())
    messages: list[Any] = []

    def all_read() -> bool:
        messages.extend(consumer.consume(30, 0.5))
        return len(messages) >= 30

    wait_until(all_read, TEST_TIMEOUT, "all records")
    session.note("read", partition_offsets(messages))


def exceptions_of_callbacks(session: Session) -> None:
    def fail(*_: object) -> None:
        raise LookupError("planned")

    def until_raised(call: Callable[[], object]) -> None:
        deadline = time.monotonic() + TEST_TIMEOUT
        while time.monotonic() < deadline:
            try:
                call()
            except LookupError:
                return
        raise AssertionError("no exception")

    for method in ("poll", "consume"):
        consumer = session.open()
        consumer.subscribe([session.topic], on_assign=fail)
        until_raised(partial(getattr(consumer, method), timeout=0.1))
        # The partitions are assigned nevertheless.
        session.note("assigned", sorted(partition_keys(consumer.assignment())))
        assert consumer.consume(1, 60)
    committing = session.open({**MANUAL, "on_commit": fail})
    committing.commit(offsets=session.partitions(0, offset=4))
    until_raised(lambda: committing.poll(0.1))
    group = new_group()
    closing = session.open(group=group)
    session.join(closing, on_revoke=fail)
    session(closing.close)
    session(closing.close)
    session(closing.poll, 0)
    session.join(session.open(group=group))


def another_subscription(session: Session) -> None:
    other = create_topic(session.cluster, new_name("other"), [[0, 2, 4]])
    consumer = session.open()
    old: list[str] = []
    # With metadata of the second topic: see test_differences.py.
    consumer.subscribe([session.topic, other], on_revoke=lambda *_: old.append("revoked"))
    poll_until(consumer, until=has_assigned(consumer, 4), what="an assignment")
    calls: list[tuple[str, int]] = []
    consumer.subscribe(
        [other],
        on_assign=lambda _, partitions: calls.append(("assign", len(partitions))),
        on_revoke=lambda _, partitions: calls.append(("revoke", len(partitions))),
    )
    poll_until(
        consumer,
        until=lambda _: partition_keys(consumer.assignment()) == {(other, 0)},
        what="the other topic's partition",
    )
    assert old == []
    session.note("calls", [call for call in calls if call[1]])


def a_pattern_matches_new_topics(session: Session) -> None:
    stem = new_name("stem")
    create_topic(session.cluster, f"{stem}.1", [[0, 2, 4]])
    consumer = session.open({"topic.metadata.refresh.interval.ms": 500})
    consumer.subscribe([f"^{stem}\\.[0-9]+$", session.topic])
    for name, count in (("2", 4), ("x", 5)):
        poll_until(consumer, until=has_assigned(consumer, count), what="the topics that exist")
        create_topic(session.cluster, f"{stem}.{name}", [[2, 4, 0]])
    consumer.poll(1.5)
    topics = {partition.topic.removeprefix(stem) for partition in consumer.assignment()}
    assert topics == {".1", ".2", session.topic}


def a_missing_topic_is_reported(session: Session) -> None:
    consumer = session.open()
    consumer.subscribe([MISSING, session.topic])
    messages = poll_until(consumer, until=has_count(31), what="an error and all records")
    (error,) = (message for message in messages if message.error() is not None)
    session.note("error", [error.error(), error.topic(), error.offset()])
    assert MISSING in error.error().str()


# ---- The assignment of a member


def on_assign_changes_the_assignment(session: Session) -> None:
    def start_at_seven(consumer: Any, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = 7
        session(consumer.assign, partitions)
        session(consumer.assignment)

    def assign_one(consumer: Any, partitions: list[TopicPartition]) -> None:
        session(consumer.assign, partitions[:1])

    def assign_nothing(consumer: Any, _: object) -> None:
        session(consumer.unassign)

    for on_assign, count in ((start_at_seven, 9), (assign_one, 10), (assign_nothing, 0)):
        consumer = session.open()
        before = len(session.record)
        consumer.subscribe([session.topic], on_assign=on_assign)
        poll_until(consumer, until=has_count(count), what="records")
        while len(session.record) == before:
            consumer.poll(0.1)
        session(consumer.poll, 0.3)
        session.note("assigned", sorted(partition_keys(consumer.assignment())))


def a_member_changes_its_assignment(session: Session) -> None:
    eager, cooperative = session.open(), session.open(cooperative=True)
    for consumer in (eager, cooperative):
        session.join(consumer)
    # Calls of the other protocol are refused.
    session(eager.incremental_assign, [])
    session(eager.incremental_unassign, session.partitions(0))
    session(cooperative.assign, session.partitions(0))
    session(cooperative.unassign)
    session(cooperative.incremental_assign, session.partitions(0))
    for consumer in (eager, cooperative):
        session.note("assigned", sorted(partition_keys(consumer.assignment())))
    session(eager.assign, session.partitions(1, offset=5))
    session(eager.assignment)
    session(cooperative.incremental_unassign, session.partitions(0, 1))
    session(cooperative.incremental_assign, session.partitions(0, offset=9))
    session.note("assigned", sorted(partition_keys(cooperative.assignment())))
    assert eager.memberid()
    assert cooperative.memberid()
    # From a subscription to the application's own assignment, and back.
    session(eager.unsubscribe)
    poll_until(eager, until=has_assigned(eager, 0), what="nothing assigned")
    session(eager.assign, session.partitions(1, offset=6))
    session.read(eager, 4)
    session(eager.unassign)
    session.join(eager)


Script = Callable[[Session], None]
BOTH_PROTOCOLS = (callbacks, another_subscription)
SCRIPTS: tuple[Script, ...] = (
    manual_assignment,
    invalid_partitions,
    start_offsets,
    seek_and_position,
    seek_before_an_assignment,
    messages_and_timeouts,
    every_form_of_commit,
    commits_without_a_subscription,
    stored_offsets,
    messages_that_were_not_read,
    on_commit_is_called_in_poll,
    partitions_are_committed_when_given_up,
    a_commit_in_on_revoke,
    invalid_subscriptions,
    callbacks_in_consume,
    exceptions_of_callbacks,
    a_pattern_matches_new_topics,
    a_missing_topic_is_reported,
    on_assign_changes_the_assignment,
    a_member_changes_its_assignment,
    *BOTH_PROTOCOLS,
)


@pytest.mark.parametrize(
    ("script", "cooperative"),
    [*((script, False) for script in SCRIPTS), *((script, True) for script in BOTH_PROTOCOLS)],
    ids=lambda value: getattr(value, "__name__", "cooperative" if value else "eager"),
)
def test_both_consumers_do_the_same(
    cluster: Cluster, filled: str, script: Script, cooperative: bool
) -> None:
    records = []
    for variant in (CONFLUENT, RACKWARD):
        session = Session(variant, cluster, filled, cooperative)
        try:
            script(session)
        finally:
            session.close()
        records.append(session.record)
    assert records[1] == records[0]
