"""Division of confluent's properties between librdkafka and the group member."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from assignors import RefreshPolicy
from assignors.confluent.config import (
    COOPERATIVE,
    RANGE,
    collects_statistics,
    group_metadata,
    librdkafka_config,
    merge_arguments,
    read_configuration,
    validate,
)
from assignors.rack_discovery import discover
from tests.support.rack_sources import search_with_long_timeouts

GROUP = {"group.id": "g", "partition.assignment.strategy": RANGE}


def refused(function: Any, *arguments: Any) -> str:
    """Return the message of the error that the call raises."""
    with pytest.raises(KafkaException) as caught:
        function(*arguments)
    error = caught.value.args[0]
    assert error.code() == KafkaError._INVALID_ARG
    return str(error.str())


def test_arguments_are_merged_as_by_confluent() -> None:
    given = {"group.id": "g", "client.id": "one", "default.topic.config": {"client.id": "three"}}
    assert merge_arguments((given,), {"client.id": "two"}) == {
        "group.id": "g",
        "client.id": "three",
    }
    assert given["client.id"] == "one"
    assert merge_arguments((), {"group.id": "g"}) == {"group.id": "g"}
    assert merge_arguments(({}, {}), {}) is None
    assert merge_arguments(("group.id=g",), {}) is None


@pytest.mark.parametrize(
    ("named", "strategy"),
    [(RANGE, RANGE), (f" {COOPERATIVE} ", COOPERATIVE), (f"{RANGE},", RANGE)],
)
def test_exactly_one_strategy_is_accepted(named: str, strategy: str) -> None:
    properties = GROUP | {"partition.assignment.strategy": named}
    validate(properties)
    assert read_configuration(properties, {}).strategy == strategy


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"partition.assignment.strategy": None}, "give one of leader-rack-aware-"),
        ({"partition.assignment.strategy": "range"}, "'range'"),
        ({"partition.assignment.strategy": f"{RANGE},{COOPERATIVE}"}, "no other with it"),
        ({"partition.assignment.strategy": f"range,{COOPERATIVE}"}, "no other with it"),
        ({"partition.assignment.strategy": [RANGE]}, "Unsupported"),
        ({"group.protocol": "Consumer"}, "group.protocol=consumer"),
        ({"group.protocol.type": "connect"}, "group.protocol.type"),
        ({"test.mock.num.brokers": 3}, "test.mock.num.brokers"),
        ({"rackward.refresh": "60 s"}, "rackward.refresh is '60 s': give a RefreshPolicy"),
        ({"rackward.max_imbalance": 4}, "rackward.max_imbalance is 4: give the share"),
        ({"rackward.max_imbalance": "much"}, "rackward.max_imbalance is 'much': give the share"),
        ({"rackward.weights": [1.0]}, "rackward.weights is [1.0]: give a dictionary"),
        ({"rackward.co_partitioned": "maybe"}, "rackward.co_partitioned is 'maybe': give True"),
        (
            {"rackward.co_partitioned": True, "partition.assignment.strategy": COOPERATIVE},
            "rackward.co_partitioned is an option of leader-rack-aware-range",
        ),
    ],
)
def test_unsupported_properties_are_refused(wrong: dict[str, Any], message: str) -> None:
    assert message in refused(validate, GROUP | wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "GSSAPI"),
        ({"sasl.mechansim": "PLAIN"}, "did you mean sasl.mechanism"),
    ],
)
def test_properties_that_the_member_does_not_support_are_refused(
    wrong: dict[str, Any], message: str
) -> None:
    assert message in refused(read_configuration, GROUP | wrong, {})


def test_options_go_to_the_assignor_and_not_to_librdkafka() -> None:
    policy, weights = RefreshPolicy(stable_seconds=5), {"orders": [1.0, 2.0]}
    given = {
        "rackward.max_imbalance": "0.25",
        "rackward.weights": weights,
        "rackward.co_partitioned": "False",
        "rackward.refresh": policy,
    }
    configuration = read_configuration(GROUP | given, {})
    assert configuration.options == {
        "max_imbalance": 0.25,
        "weights": weights,
        "co_partitioned": False,
        "refresh": policy,
    }
    assert librdkafka_config(GROUP | given, print) == librdkafka_config(GROUP, print)
    assert read_configuration(GROUP, {}).options == {}


def test_librdkafka_has_no_automatic_commits_and_no_rack() -> None:
    given = {"client.rack": "a", "fetch.min.bytes": 5, "enable.auto.commit": True}
    config = librdkafka_config(GROUP | given, print)
    assert config == {
        "group.id": "g",
        "fetch.min.bytes": 5,
        "enable.auto.commit": "false",
        "coordinator.query.interval.ms": 10_000,
        "on_commit": print,
    }


def test_invalid_values_are_left_for_librdkafka_to_refuse() -> None:
    wrong = {"enable.auto.commit": "maybe", "on_commit": 5, "7": 8, "session.timeout.ms": []}
    config = librdkafka_config(GROUP | wrong, print)
    assert {name: config[name] for name in wrong} == wrong


def test_java_properties_are_translated() -> None:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties = GROUP | {
        "bootstrap.servers": "kafka:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{login} username="u" password="p";',
        "fetch.min.bytes": 5,
    }
    config = librdkafka_config(properties, print)
    assert config["security.protocol"] == "sasl_plaintext"
    assert (config["sasl.username"], config["sasl.password"]) == ("u", "p")
    assert config["fetch.min.bytes"] == 5
    assert "sasl.jaas.config" not in config
    keywords = read_configuration(properties, {}).kafka_python
    assert (keywords["sasl_plain_username"], keywords["sasl_plain_password"]) == ("u", "p")
    assert keywords["bootstrap_servers"] == ["kafka:9092"]


@pytest.mark.parametrize(
    ("properties", "environ", "rack"),
    [
        ({"client.rack": "a"}, {"RACKWARD_RACK": "b"}, "a"),
        ({"client.rack": " "}, {"RACKWARD_RACK": "b"}, "b"),
        ({}, {"RACKWARD_RACK": "b"}, "b"),
        ({}, {"RACKWARD_RACK_FROM": "command:echo c"}, "c"),
        ({"client.rack": discover("command:echo d")}, {"RACKWARD_RACK": "b"}, "d"),
        ({"client.rack": discover("command:no-such-program")}, {"RACKWARD_RACK": "b"}, None),
        ({"client.rack": 7}, {}, "7"),
        ({}, {}, None),
    ],
)
def test_the_rack_is_resolved(
    properties: dict[str, Any],
    environ: dict[str, str],
    rack: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("assignors.rack_discovery.resolve.search", search_with_long_timeouts)
    assert read_configuration(GROUP | properties, environ).rack == rack


def test_defaults_are_those_of_librdkafka() -> None:
    settings = read_configuration(GROUP, {})
    assert settings.auto_commit
    assert settings.auto_offset_store
    assert (settings.auto_commit_interval, settings.session_timeout) == (5.0, 45.0)
    assert settings.max_poll_interval_ms == 300000
    assert settings.instance_id is None


@pytest.mark.parametrize(
    ("properties", "keyword", "expected"),
    [
        ({}, "client_id", "rdkafka"),
        ({}, "enable_auto_commit", False),
        ({}, "bootstrap_servers", None),
        ({"bootstrap.servers": "kafka"}, "bootstrap_servers", ["kafka:9092"]),
        ({"bootstrap.servers": "a, b:9093"}, "bootstrap_servers", ["a:9092", "b:9093"]),
        ({"bootstrap.servers": "[::1],[::2]:1"}, "bootstrap_servers", ["[::1]:9092", "[::2]:1"]),
        ({}, "heartbeat_interval_ms", 3000),
        # Several heartbeats per session.
        ({"session.timeout.ms": 1000}, "heartbeat_interval_ms", 1000 / 3),
        ({"session.timeout.ms": 6, "heartbeat.interval.ms": 6}, "heartbeat_interval_ms", 2),
        ({"session.timeout.ms": 6, "heartbeat.interval.ms": 5}, "heartbeat_interval_ms", 5),
    ],
)
def test_keywords_of_kafka_python(
    properties: dict[str, Any], keyword: str, expected: object
) -> None:
    assert read_configuration(GROUP | properties, {}).kafka_python.get(keyword) == expected


@pytest.mark.parametrize(
    ("group", "instance"), [("g", None), ("größe", None), ("g", "instance-1"), ("g" * 249, None)]
)
def test_group_metadata_is_what_librdkafka_writes(group: str, instance: str | None) -> None:
    settings: dict[str, Any] = {"group.id": group, "log_level": 0}
    if instance is not None:
        settings["group.instance.id"] = instance
    consumer = confluent_kafka.Consumer(settings)
    try:
        assert group_metadata(group, instance_id=instance) == consumer.consumer_group_metadata()
    finally:
        consumer.close()


def test_librdkafka_reads_group_metadata() -> None:
    producer = Producer({"transactional.id": "x", "log_level": 0})
    metadata = group_metadata("g", 7, "member-1", "i")
    producer.send_offsets_to_transaction([], metadata, 1)
    for corrupt in (metadata[:-3], metadata[1:], metadata.replace(b"g", b"\7")):
        with pytest.raises(KafkaException, match="_BAD_MSG"):
            producer.send_offsets_to_transaction([], corrupt, 1)


@pytest.mark.parametrize(
    ("properties", "collects"),
    [
        ({}, False),
        ({"stats_cb": print}, False),
        ({"statistics.interval.ms": 100}, False),
        ({"stats_cb": print, "statistics.interval.ms": 0}, False),
        ({"stats_cb": print, "statistics.interval.ms": 100}, True),
        ({"stats_cb": print, "statistics.interval.ms": "100"}, True),
        # librdkafka refuses these.
        ({"stats_cb": 5, "statistics.interval.ms": 100}, False),
        ({"stats_cb": print, "statistics.interval.ms": "often"}, False),
    ],
)
def test_whether_statistics_are_collected(properties: dict[str, Any], collects: bool) -> None:
    assert collects_statistics(GROUP | properties) is collects
