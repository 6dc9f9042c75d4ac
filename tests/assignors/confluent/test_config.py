from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from assignors import RefreshPolicy
from assignors.confluent.config import (
    COOPERATIVE,
    RANGE,
    REFRESH,
    check_honoured,
    configuration,
    for_librdkafka,
    group_metadata,
    merged,
)
from assignors.rack_discovery import discover
from tests.support.waiting import search_patiently

GROUP = {"group.id": "g", "partition.assignment.strategy": RANGE}


def refused(act: Any, *arguments: Any) -> str:
    with pytest.raises(KafkaException) as caught:
        act(*arguments)
    error = caught.value.args[0]
    assert error.code() == KafkaError._INVALID_ARG
    return str(error.str())


def test_arguments_are_merged_as_confluent_merges_them() -> None:
    given = {"group.id": "g", "client.id": "one", "default.topic.config": {"client.id": "three"}}
    assert merged((given,), {"client.id": "two"}) == {"group.id": "g", "client.id": "three"}
    assert given["client.id"] == "one"
    assert merged((), {"group.id": "g"}) == {"group.id": "g"}
    assert merged(({}, {}), {}) is None
    assert merged(("group.id=g",), {}) is None


@pytest.mark.parametrize(
    ("named", "strategy"),
    [(RANGE, RANGE), (f" {COOPERATIVE} ", COOPERATIVE), (f"{RANGE},", RANGE)],
)
def test_exactly_one_strategy_is_taken(named: str, strategy: str) -> None:
    properties = GROUP | {"partition.assignment.strategy": named}
    check_honoured(properties)
    assert configuration(properties, {}).strategy == strategy


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"partition.assignment.strategy": None}, "give one of leader-rack-aware-"),
        ({"partition.assignment.strategy": "range"}, "'range'"),
        ({"partition.assignment.strategy": f"{RANGE},{COOPERATIVE}"}, "no other beside it"),
        ({"partition.assignment.strategy": f"range,{COOPERATIVE}"}, "no other beside it"),
        ({"partition.assignment.strategy": [RANGE]}, "Unsupported"),
        ({"group.protocol": "Consumer"}, "group.protocol=consumer"),
        ({"group.protocol.type": "connect"}, "group.protocol.type"),
        ({"test.mock.num.brokers": 3}, "test.mock.num.brokers"),
        ({"rackward.refresh": "60 s"}, "rackward.refresh: refresh is '60 s': give a RefreshPolicy"),
    ],
)
def test_what_is_not_honoured_is_refused(wrong: dict[str, Any], told: str) -> None:
    assert told in refused(check_honoured, GROUP | wrong)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"heartbeat.interval.ms": 45000}, "heartbeat.interval.ms=45000"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "GSSAPI"),
        ({"sasl.mechansim": "PLAIN"}, "did you mean sasl.mechanism"),
    ],
)
def test_what_the_membership_cannot_do_is_refused(wrong: dict[str, Any], told: str) -> None:
    assert told in refused(configuration, GROUP | wrong, {})


def test_when_leaders_that_moved_are_worth_a_rebalance() -> None:
    policy = RefreshPolicy(settling=5)
    assert configuration(GROUP, {}).refresh == RefreshPolicy()
    assert configuration(GROUP | {REFRESH: policy}, {}).refresh is policy
    assert configuration(GROUP | {REFRESH: None}, {}).refresh is None
    assert for_librdkafka(GROUP | {REFRESH: policy}, print).keys() == (
        for_librdkafka(GROUP, print).keys()
    )


def test_librdkafka_commits_nothing_by_itself_and_knows_no_rack() -> None:
    told = for_librdkafka(GROUP | {"client.rack": "a", "fetch.min.bytes": 5}, print)
    assert told == {
        "group.id": "g",
        "fetch.min.bytes": 5,
        "enable.auto.commit": "false",
        "coordinator.query.interval.ms": 10_000,
        "on_commit": print,
    }


@pytest.mark.parametrize("value", [True, "T", "FALSE", 0, "1", None])
def test_either_value_of_auto_commit_becomes_false(value: Any) -> None:
    told = for_librdkafka(GROUP | {"enable.auto.commit": value}, print)
    assert told["enable.auto.commit"] == "false"


def test_what_librdkafka_refuses_reaches_it() -> None:
    wrong = {"enable.auto.commit": "maybe", "on_commit": 5, 7: 8, "session.timeout.ms": []}
    told = for_librdkafka(GROUP | wrong, print)
    assert {name: told[name] for name in wrong} == wrong


def test_properties_of_java_are_said_in_librdkafkas_words() -> None:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties = GROUP | {
        "bootstrap.servers": "kafka:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{login} username="u" password="p";',
        "fetch.min.bytes": 5,
    }
    told = for_librdkafka(properties, print)
    assert told["security.protocol"] == "sasl_plaintext"
    assert (told["sasl.username"], told["sasl.password"]) == ("u", "p")
    assert told["fetch.min.bytes"] == 5
    assert "sasl.jaas.config" not in told
    membership = configuration(properties, {}).membership
    assert (membership["sasl_plain_username"], membership["sasl_plain_password"]) == ("u", "p")
    assert membership["bootstrap_servers"] == ["kafka:9092"]


@pytest.mark.parametrize(
    ("told", "environ", "rack"),
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
def test_where_the_rack_is_from(
    told: dict[str, Any],
    environ: dict[str, str],
    rack: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("assignors.rack_discovery.resolve.search", search_patiently)
    assert configuration(GROUP | told, environ).rack == rack


def test_defaults_are_librdkafkas() -> None:
    settings = configuration(GROUP, {})
    assert settings.auto_commit
    assert settings.auto_offset_store
    assert (settings.auto_commit_interval, settings.session_timeout) == (5.0, 45.0)
    assert settings.max_poll_interval_ms == 300000
    assert settings.instance_id is None
    assert settings.membership["heartbeat_interval_ms"] == 3000
    assert settings.membership["client_id"] == "rdkafka"
    assert settings.membership["enable_auto_commit"] is False
    assert "bootstrap_servers" not in settings.membership


@pytest.mark.parametrize(
    ("servers", "read"),
    [
        ("kafka", ["kafka:9092"]),
        ("one, two:9093", ["one:9092", "two:9093"]),
        ("[::1],[::2]:9093", ["[::1]:9092", "[::2]:9093"]),
    ],
)
def test_servers_without_a_port_have_kafkas(servers: str, read: list[str]) -> None:
    settings = configuration(GROUP | {"bootstrap.servers": servers}, {})
    assert settings.membership["bootstrap_servers"] == read


@pytest.mark.parametrize(
    ("group", "instance"), [("g", None), ("größe", None), ("g", "instance-1"), ("g" * 249, None)]
)
def test_it_is_what_librdkafka_writes(group: str, instance: str | None) -> None:
    settings: dict[str, Any] = {"group.id": group, "log_level": 0}
    if instance is not None:
        settings["group.instance.id"] = instance
    consumer = confluent_kafka.Consumer(settings)
    try:
        assert group_metadata(group, instance_id=instance) == consumer.consumer_group_metadata()
    finally:
        consumer.close()


def test_librdkafka_reads_it() -> None:
    producer = Producer({"transactional.id": "x", "log_level": 0})
    told = group_metadata("g", 7, "member-1", "i")
    producer.send_offsets_to_transaction([], told, 1)
    for cut in (told[:-3], told[1:], told.replace(b"g", b"\7")):
        with pytest.raises(KafkaException, match="_BAD_MSG"):
            producer.send_offsets_to_transaction([], cut, 1)
