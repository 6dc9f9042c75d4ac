"""The Consumer class: subclasses, closing, garbage collection, and no effect on other clients."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from typing import Any, assert_type

import confluent_kafka
import pytest
from confluent_kafka import Message, TopicPartition

from assignors.confluent import Consumer, DeserializingConsumer
from assignors.confluent.config import COOPERATIVE
from assignors.confluent.internals import VERSION
from assignors.group_leader.history import Assignment
from tests.support.waiting import TEST_TIMEOUT, wait_until

SETTINGS = {"group.id": "g", "partition.assignment.strategy": COOPERATIVE, "log_level": 0}
UNREACHABLE = {**SETTINGS, "bootstrap.servers": "127.0.0.1:1"}


CLOSED_RAISES = pytest.mark.skipif(
    VERSION < (2, 16), reason="on a closed consumer, some methods of confluent's end the process"
)


class Uninitialized(Consumer):
    """A subclass whose constructor does not call that of its base class."""

    def __init__(self) -> None:
        pass


def test_an_uninitialized_consumer_can_be_closed() -> None:
    consumer = Uninitialized()
    assert consumer.assignments() == ()
    assert consumer.last_assignment() is None
    with consumer as entered:
        assert entered is consumer
    consumer.close()


def poll_for(consumer: Consumer, received: list[str]) -> None:
    """Poll until there are statistics."""

    def polled() -> bool:
        consumer.poll(0.05)
        return bool(received)

    wait_until(polled, TEST_TIMEOUT, "statistics")


def test_statistics_without_a_subscription_are_librdkafkas() -> None:
    received: list[str] = []
    settings = {**SETTINGS, "statistics.interval.ms": 10, "stats_cb": received.append}
    consumer = Consumer(settings)
    poll_for(consumer, received)
    consumer.close()
    # Completed ones are written without spaces.
    assert received[0].startswith("{ ")


@pytest.mark.parametrize(
    "arguments", [(), ({},), (None,), ("a string",), (SETTINGS, {"linger": 1})]
)
def test_wrong_arguments_raise_what_confluent_raises(arguments: tuple[Any, ...]) -> None:
    raised = []
    for kind in (confluent_kafka.Consumer, Consumer):
        with pytest.raises((TypeError, ValueError, confluent_kafka.KafkaException)) as caught:
            kind(*arguments)
        raised.append((caught.type, str(caught.value)))
    assert raised[0] == raised[1]


def test_the_settings_of_the_caller_are_not_changed() -> None:
    given = dict(UNREACHABLE)
    Consumer(given, **{"client.id": "x"}).close()
    assert given == UNREACHABLE


@CLOSED_RAISES
def test_close_raises_the_error_of_stats_cb() -> None:
    def fail(_: str) -> None:
        raise LookupError("planned")

    own = {"group.id": "g", "log_level": 0}
    for kind, settings in ((confluent_kafka.Consumer, own), (Consumer, SETTINGS)):
        consumer = kind({**settings, "statistics.interval.ms": 10, "stats_cb": fail})
        consumer.subscribe(["t"])
        time.sleep(0.5)
        with pytest.raises(LookupError, match="planned"):
            consumer.close()
        consumer.close()
        with pytest.raises(RuntimeError, match="closed"):
            consumer.poll(0)


@CLOSED_RAISES
def test_a_deserializing_consumer_is_both_classes() -> None:
    consumer = DeserializingConsumer(SETTINGS)
    assert isinstance(consumer, Consumer)
    assert isinstance(consumer, confluent_kafka.DeserializingConsumer)
    consumer.close()
    consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(0)


def _check_types_of_deserialized(consumer: DeserializingConsumer[str, int]) -> None:
    """Not called: mypy checks the types."""
    message = consumer.poll(0)
    if message is not None:
        assert_type(message.deserialized_key(), str | None)
        assert_type(message.deserialized_value(), int | None)
    assert_type(consumer.last_assignment(), Assignment | None)


def _check_types(consumer: Consumer, message: Message) -> None:
    """Checked by mypy only: the types stated in docs/confluent.md."""

    def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        assert_type(consumer.poll(0), Message | None)
        assert_type(partitions, list[TopicPartition])

    assert_type(consumer.poll(1.0), Message | None)
    assert_type(consumer.consume(10, 1.0), list[Message])
    assert_type(consumer.assignment(), list[TopicPartition])
    assert_type(consumer.commit(asynchronous=False), list[TopicPartition])
    assert_type(consumer.commit(message), list[TopicPartition] | None)
    assert_type(consumer.memberid(), str | None)
    assert_type(consumer.last_assignment(), Assignment | None)
    assert_type(consumer.assignments(), tuple[Assignment, ...])
    consumer.subscribe(["t"], on_assign=on_assign)


def threads_of(group: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.endswith(f"-{group}")]


def test_closing_ends_the_threads() -> None:
    consumer = Consumer({**UNREACHABLE, "group.id": "closing"})
    consumer.subscribe(["t"])
    consumer.poll(0)
    assert len(threads_of("closing")) == 2
    consumer.close()
    # close() waits for the threads up to a limit.
    wait_until(lambda: not threads_of("closing"), TEST_TIMEOUT, "the threads end")
    consumer.close()


@pytest.mark.parametrize("subscribed", [True, False])
def test_an_abandoned_consumer_leaves_no_threads(subscribed: bool) -> None:
    received: list[str] = []
    settings = {"statistics.interval.ms": 10, "stats_cb": received.append, "group.id": "abandoned"}
    consumer = Consumer({**UNREACHABLE, **settings})
    if subscribed:
        consumer.subscribe(["t"])
    poll_for(consumer, received)
    reference = weakref.ref(consumer)
    del consumer

    def collected() -> bool:
        gc.collect()
        # A tick in progress holds a reference for a moment.
        return reference() is None

    wait_until(collected, TEST_TIMEOUT, "the consumer is collected")
    wait_until(lambda: not threads_of("abandoned"), TEST_TIMEOUT, "the threads end")


COMPARE_ATTRIBUTES = """
import logging, sys
import confluent_kafka
import kafka.cluster, kafka.consumer.group, kafka.coordinator.consumer, kafka.net.compat
import kafka.protocol.consumer.metadata

LIBRARIES = ("kafka", "confluent_kafka", "cimpl")

def library_of(name):
    return name.partition(".")[0]

def attributes():
    result = {}
    for name, module in list(sys.modules.items()):
        if library_of(name) in LIBRARIES:
            owners = [value for value in vars(module).values() if isinstance(value, type)]
            for owner in [module, *(o for o in owners if library_of(o.__module__) in LIBRARIES)]:
                # Python creates dunder attributes anew when they are read.
                result.update(
                    {(owner, key): value for key, value in vars(owner).items() if key[:2] != "__"}
                )
    return result

def log_filters():
    return {name: logging.getLogger(name).filters[:] for name in logging.root.manager.loggerDict}

attributes_before, filters_before = attributes(), log_filters()
from assignors.confluent import Consumer
assert all(log_filters()[name] == filters for name, filters in filters_before.items())
settings = {"group.id": "g", "bootstrap.servers": "127.0.0.1:1", "log_level": 0}
consumer = Consumer({**settings, "partition.assignment.strategy": "leader-rack-aware-range"})
consumer.subscribe(["t"])
consumer.poll(0.5)
consumer.close()
now = attributes()
changed = [key for key, value in attributes_before.items() if now[key] is not value]
assert not changed, changed
"""


def test_other_consumers_are_unchanged() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPARE_ATTRIBUTES],
        capture_output=True,
        text=True,
        timeout=TEST_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr


SUBSCRIBE = """
import sys
from assignors.confluent import Consumer
consumer = Consumer(%r)
consumer.subscribe(["t"])
consumer.poll(0.5)
assert consumer.assignments() == ()
consumer.close()
print(*sorted(set(sys.modules) & {"numpy", "placement_core.placers"}))
"""


def test_a_consumer_that_does_not_lead_imports_no_numpy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SUBSCRIBE % UNREACHABLE],
        capture_output=True,
        text=True,
        timeout=TEST_TIMEOUT,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")
