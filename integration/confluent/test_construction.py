"""Arguments that the constructor accepts, and the errors for others. There is no broker."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from integration.support.confluent import Variant

UNREACHABLE = "127.0.0.1:1"
INVALID = KafkaError._INVALID_ARG


def settings_of(variant: Variant, **others: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": UNREACHABLE,
        "group.id": "g",
        "partition.assignment.strategy": variant.eager,
        "client.rack": "a",
        "log_level": 0,
        "reconnect.backoff.ms": 500,
        **others,
    }


def test_accepted_arguments(variant: Variant) -> None:
    settings = settings_of(variant)
    make = variant.consumer
    for consumer in (
        make(settings),
        make(**settings),
        make(settings, logger=logging.getLogger("test")),
        make({"group.id": "g"}, **{k: v for k, v in settings.items() if k != "group.id"}),
        make(settings_of(variant, **{"enable.auto.commit": True, "enable.partition.eof": False})),
        make(settings_of(variant, **{"enable.auto.commit": "true", "session.timeout.ms": "6000"})),
        make(
            settings_of(variant, **{"session.timeout.ms": 6000.0, "heartbeat.interval.ms": "010"})
        ),
        make(settings_of(variant, **{"group.id": 1, "client.id": None})),
        make(settings_of(variant, **{"default.topic.config": {"auto.offset.reset": "earliest"}})),
        make(settings_of(variant, **{"auto.offset.reset": "smallest", "on_commit": print})),
        make(settings_of(variant, error_cb=print, stats_cb=print, throttle_cb=print)),
        make(settings_of(variant, **{"transactional.id": "a producer's"})),
        make(settings_of(variant, **{"partition.assignment.strategy": variant.cooperative})),
        make(settings_of(variant, **{"bootstrap.servers": ""})),
    ):
        assert isinstance(consumer, make)  # type: ignore[arg-type]
        consumer.close()
    assert settings == settings_of(variant)


def test_a_subclass_may_override_poll(variant: Variant) -> None:
    class Counting(variant.consumer):  # type: ignore[misc,name-defined]
        polls = 0

        def poll(self, *args: Any, **kwargs: Any) -> Any:
            self.polls += 1
            return super().poll(*args, **kwargs)

    with Counting(settings_of(variant)) as consumer:
        assert consumer.poll(0) is None
        assert consumer.polls == 1


def test_initializing_twice_is_refused(variant: Variant) -> None:
    consumer = variant.consumer(settings_of(variant))
    with pytest.raises(RuntimeError, match="already initialized"):
        consumer.__init__(settings_of(variant))
    consumer.close()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), (TypeError, ValueError)),
        (({},), ValueError),
        (({"bootstrap.servers": UNREACHABLE},), ValueError),
        (("a string",), TypeError),
        (([("group.id", "g")],), TypeError),
        (({"group.id": "g"}, {"client.id": "c"}), TypeError),
        (({"group.id": "g", "error_cb": 1},), TypeError),
        (({"group.id": "g", "stats_cb": None},), TypeError),
        (({"group.id": "g", "throttle_cb": "print"},), ValueError),
    ],
    ids=str,
)
def test_invalid_arguments_are_refused(
    variant: Variant, arguments: tuple[Any, ...], error: Any
) -> None:
    if arguments and isinstance(arguments[0], dict) and "group.id" in arguments[0]:
        arguments = ({**settings_of(variant), **arguments[0]}, *arguments[1:])
    with pytest.raises(error):
        variant.consumer(*arguments)


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
        {"rebalance_cb": print},
        {"partition.assignment.strategy": "no-such-assignor"},
        {"partition.assignment.strategy": "range,cooperative-sticky"},
        {"partition.assignment.strategy": ["range"]},
        {"group.protocol": "consumer"},
        {"group.protocol": "no-such-protocol"},
        {"security.protocol": "carrier-pigeon"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "NONE-SUCH"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
        {"security.protocol": "SSL", "ssl.ca.location": "/no/such/file"},
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items())[:60],
)
def test_refused_properties(variant: Variant, wrong: dict[Any, Any]) -> None:
    with pytest.raises(KafkaException) as caught:
        variant.consumer({**settings_of(variant), **wrong})
    error = caught.value.args[0]
    assert error.code() == INVALID
    assert error.name() == "_INVALID_ARG"
    assert error.str()
    assert not error.retriable()
    assert not error.fatal()
