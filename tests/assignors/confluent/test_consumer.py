"""The Consumer class: subclasses, closing, garbage collection, and no effect on other clients."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, assert_type

import confluent_kafka
import pytest
from confluent_kafka import Message, TopicPartition

from assignors.confluent import Consumer, DeserializingConsumer
from assignors.confluent.config import COOPERATIVE, RANGE
from assignors.confluent.internals import VERSION
from assignors.group_leader.history import Assignment
from tests.support.waiting import TEST_TIMEOUT, wait_until

SETTINGS = {"group.id": "g", "partition.assignment.strategy": COOPERATIVE, "log_level": 0}
UNREACHABLE = {**SETTINGS, "bootstrap.servers": "127.0.0.1:1"}

METHODS: dict[str, Callable[[Any], object]] = {
    "poll": lambda consumer: consumer.poll(),
    "poll with a timeout": lambda consumer: consumer.poll(0),
    "consume": lambda consumer: consumer.consume(),
    "assignment": lambda consumer: consumer.assignment(),
    "memberid": lambda consumer: consumer.memberid(),
    "consumer_group_metadata": lambda consumer: consumer.consumer_group_metadata(),
    "subscribe": lambda consumer: consumer.subscribe(["t"]),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "assign": lambda consumer: consumer.assign([]),
    "unassign": lambda consumer: consumer.unassign(),
    "incremental_assign": lambda consumer: consumer.incremental_assign([]),
    "incremental_unassign": lambda consumer: consumer.incremental_unassign([]),
    "commit": lambda consumer: consumer.commit(),
    "commit offsets": lambda consumer: consumer.commit(offsets=[], asynchronous=False),
    "committed": lambda consumer: consumer.committed([]),
    "position": lambda consumer: consumer.position([]),
    "store_offsets": lambda consumer: consumer.store_offsets(offsets=[]),
    "seek": lambda consumer: consumer.seek(TopicPartition("t", 0, 0)),
    "pause": lambda consumer: consumer.pause([]),
    "resume": lambda consumer: consumer.resume([]),
    "get_watermark_offsets": lambda consumer: consumer.get_watermark_offsets(
        TopicPartition("t", 0)
    ),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times([]),
    "list_topics": lambda consumer: consumer.list_topics(),
    "cluster_id": lambda consumer: consumer.cluster_id(),
    "set_sasl_credentials": lambda consumer: consumer.set_sasl_credentials("u", "p"),
}
"""A call of every method of confluent's Consumer except ``close``."""

CLOSED_RAISES = pytest.mark.skipif(
    VERSION < (2, 16), reason="on a closed consumer, some methods of confluent's end the process"
)


class Uninitialized(Consumer):
    """A subclass whose constructor does not call that of its base class."""

    def __init__(self) -> None:
        pass


@CLOSED_RAISES
def test_every_public_method_is_in_the_table() -> None:
    public = {name for name in dir(confluent_kafka.Consumer) if not name.startswith("_")}
    assert {name.split()[0] for name in METHODS} == public - {"close"}


@CLOSED_RAISES
@pytest.mark.parametrize("method", METHODS)
def test_an_uninitialized_consumer_raises_confluents_error(method: str) -> None:
    class Own(confluent_kafka.Consumer):
        def __init__(self) -> None:
            pass

    raised = []
    for kind in (Own, Uninitialized):
        with pytest.raises(RuntimeError, match="closed") as caught:
            METHODS[method](kind())
        raised.append((type(caught.value), str(caught.value)))
    assert raised[0] == raised[1]


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


def both_outcomes(*arguments: Any) -> list[object]:
    """Construct confluent's consumer and rackward's; return what each raised, None for nothing.

    The strategy in the first argument is replaced by an assignor of librdkafka's for confluent's.
    """
    outcomes: list[object] = []
    for kind in (confluent_kafka.Consumer, Consumer):
        given = arguments
        if kind is not Consumer and arguments and isinstance(arguments[0], dict):
            stock = {
                name: "range" if value == RANGE else value for name, value in arguments[0].items()
            }
            given = (stock, *arguments[1:])
        try:
            kind(*given).close()
        except confluent_kafka.KafkaException as error:
            outcomes.append((error.args[0].code(), bool(error.args[0].str())))
        except (TypeError, ValueError) as error:
            outcomes.append((type(error), str(error)))
        else:
            outcomes.append(None)
    return outcomes


EAGER = {**UNREACHABLE, "partition.assignment.strategy": RANGE, "client.rack": "a"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"enable.auto.commit": True, "enable.partition.eof": False},
        {"enable.auto.commit": "true", "session.timeout.ms": "6000"},
        {"session.timeout.ms": 6000.0, "heartbeat.interval.ms": "010"},
        {"group.id": 1, "client.id": None},
        {"default.topic.config": {"auto.offset.reset": "earliest"}},
        {"auto.offset.reset": "smallest", "on_commit": print},
        {"error_cb": print, "stats_cb": print, "throttle_cb": print},
        {"transactional.id": "a producer's"},
        {"bootstrap.servers": ""},
        {"logger": logging.getLogger("test")},
    ],
    ids=str,
)
def test_settings_that_both_consumers_accept(settings: dict[str, Any]) -> None:
    given = {**EAGER, **settings}
    assert both_outcomes(dict(given)) == [None, None]


@pytest.mark.parametrize(
    "wrong",
    [
        {"no.such.property": 1},
        {1: 2},
        {"session.timeout.ms": "soon"},
        {"session.timeout.ms": -5},
        {"session.timeout.ms": []},
        {"max.poll.interval.ms": 5000, "session.timeout.ms": 6000},
        {"enable.auto.commit": "maybe"},
        {"enable.auto.commit": frozenset()},
        {"auto.offset.reset": "tomorrow"},
        {"isolation.level": "snapshot"},
        {"on_commit": 1},
        {"error_cb": 1},
        {"stats_cb": None},
        {"throttle_cb": "print"},
        {"rebalance_cb": print},
        {"partition.assignment.strategy": "no-such-assignor"},
        {"partition.assignment.strategy": "range,cooperative-sticky"},
        {"partition.assignment.strategy": ["range"]},
        {"group.protocol": "no-such-protocol"},
        {"security.protocol": "carrier-pigeon"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "NONE-SUCH"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
        {"security.protocol": "SSL", "ssl.ca.location": "/no/such/file"},
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items())[:50],
)
def test_settings_that_both_consumers_refuse(wrong: dict[Any, Any]) -> None:
    stock, own = both_outcomes({**EAGER, **wrong})
    assert stock is not None
    assert own == stock


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ({},),
        (None,),
        ({}, {}),
        ("a string",),
        ([("group.id", "g")],),
        (EAGER, {"linger": 1}),
    ],
    ids=str,
)
def test_arguments_that_both_consumers_refuse(arguments: tuple[Any, ...]) -> None:
    stock, own = both_outcomes(*arguments)
    assert stock is not None
    assert own == stock


def test_settings_may_be_keywords_and_are_not_changed() -> None:
    given = dict(EAGER)
    Consumer(given, **{"client.id": "x"}).close()
    Consumer(**EAGER).close()
    assert given == EAGER


def test_initializing_twice_is_refused() -> None:
    for kind, settings in ((confluent_kafka.Consumer, {"group.id": "g"}), (Consumer, EAGER)):
        consumer = kind(settings)
        with pytest.raises(RuntimeError, match="already initialized"):
            consumer.__init__(settings)  # type: ignore[misc]
        consumer.close()


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
    for method in set(METHODS) - {"consume"}:
        with pytest.raises(RuntimeError, match="closed"):
            METHODS[method](consumer)


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


@CLOSED_RAISES
@pytest.mark.parametrize("method", METHODS)
def test_a_closed_consumer_raises_confluents_error(method: str) -> None:
    consumer = Consumer(SETTINGS)
    consumer.poll(0)
    consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        METHODS[method](consumer)


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
%s
now = attributes()
changed = [key for key, value in attributes_before.items() if now[key] is not value]
assert not changed, changed
"""


@pytest.mark.parametrize(
    "use",
    [
        """
filters = log_filters()
assert {name: filters[name] for name in filters_before} == filters_before
""",
        """
settings = {"group.id": "g", "bootstrap.servers": "127.0.0.1:1", "log_level": 0}
strategy = {"partition.assignment.strategy": "leader-rack-aware-range"}
consumer = Consumer(settings | strategy)
consumer.subscribe(["t"])
consumer.poll(0.5)
consumer.close()
""",
    ],
    ids=["imported", "used"],
)
def test_other_consumers_are_unchanged(use: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPARE_ATTRIBUTES % use],
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
print(*sorted(set(sys.modules) & {"numpy", "assignors.client_assignor", "placement_core.placers"}))
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
