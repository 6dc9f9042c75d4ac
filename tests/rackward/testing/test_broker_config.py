"""Configuration of nodes."""

from __future__ import annotations

import re

import pytest

from rackward.testing.broker_config import (
    Listener,
    broker_properties,
    controller_properties,
    distinct_racks,
    environment_variables,
    format_properties,
    rack_listeners,
)

LISTENERS = [
    Listener("INTERNAL", "127.0.0.1:9001", "127.0.0.1:9001"),
    Listener("RACK_0", "0.0.0.0:9100", "127.0.0.1:17000"),
]


def properties_of_broker_4(**changes: object) -> dict[str, str]:
    options: dict[str, object] = {"controller": "127.0.0.1:9000", "brokers": 6, "data": "/d"}
    return broker_properties(4, "/dc1/r1", LISTENERS, **{**options, **changes})  # type: ignore[arg-type]


def test_identity_listeners_and_controller_of_a_broker() -> None:
    properties = properties_of_broker_4()
    assert properties["node.id"] == "4"
    assert properties["process.roles"] == "broker"
    assert properties["broker.rack"] == "/dc1/r1"
    assert properties["listeners"] == "INTERNAL://127.0.0.1:9001,RACK_0://0.0.0.0:9100"
    assert properties["advertised.listeners"] == (
        "INTERNAL://127.0.0.1:9001,RACK_0://127.0.0.1:17000"
    )
    assert properties["controller.quorum.voters"] == "3000@127.0.0.1:9000"
    protocols = properties["listener.security.protocol.map"].split(",")
    assert protocols == ["CONTROLLER:PLAINTEXT", "INTERNAL:PLAINTEXT", "RACK_0:PLAINTEXT"]
    assert "broker.rack" not in broker_properties(
        4, None, LISTENERS, controller="c:1", brokers=1, data="/d"
    )


@pytest.mark.parametrize(("brokers", "replication"), [(1, "1"), (2, "2"), (3, "3"), (6, "3")])
def test_replication_of_internal_topics_fits_the_cluster(brokers: int, replication: str) -> None:
    properties = properties_of_broker_4(brokers=brokers)
    for key, value in properties.items():
        if key.endswith("replication.factor"):
            assert value == replication, key
        if key.endswith("min.isr"):
            assert int(value) <= int(replication), key


def test_extra_properties_override_all_others() -> None:
    extra = {"group.min.session.timeout.ms": "6000", "log.dirs": "/e"}
    assert properties_of_broker_4(extra=extra).items() >= extra.items()
    controller = controller_properties("0.0.0.0:1", "c:1", brokers=3, data="/d", extra=extra)
    assert controller.items() >= extra.items()
    assert controller["process.roles"] == "controller"
    assert "advertised.listeners" not in controller


def test_listener_names_do_not_depend_on_the_characters_of_racks() -> None:
    racks = distinct_racks(["/dc1/r1", None, "b ü", "", "/dc1/r1"])
    assert racks == ("/dc1/r1", "b ü")
    assert rack_listeners(racks) == {"/dc1/r1": "RACK_0", "b ü": "RACK_1"}


ESCAPE = re.compile(r"\\u([0-9a-f]{4})|\\(.)")


def parse(text: str) -> dict[str, str]:
    """Parse a properties file as java.util.Properties documents it."""

    def unescape(text: str) -> str:
        special = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
        units = ESCAPE.sub(
            lambda match: chr(int(match[1], 16)) if match[1] else special.get(match[2], match[2]),
            text.lstrip(" \t"),
        )
        return units.encode("utf-16", "surrogatepass").decode("utf-16")

    pairs = (re.split(r"(?<!\\)=", line, maxsplit=1) for line in text.splitlines())
    return {unescape(key): unescape(value) for key, value in pairs}


@pytest.mark.parametrize(
    "value",
    [
        "/dc1/r1",
        "  two leading",
        "tab\there",
        "\tleading",
        "a=b:c#d!e",
        "back\\slash",
        "ü 🦆",
        "x\ny",
    ],
)
def test_formatted_properties_are_parsed_back(value: str) -> None:
    text = format_properties({"broker.rack": value, "a key": value})
    assert text.isascii()
    assert parse(text) == {"broker.rack": value, "a key": value}


def test_environment_variables_encode_every_separator() -> None:
    assert environment_variables({"broker.rack": "a", "x_y-z.w": "1"}) == {
        "KAFKA_BROKER_RACK": "a",
        "KAFKA_X__Y___Z_W": "1",
    }
