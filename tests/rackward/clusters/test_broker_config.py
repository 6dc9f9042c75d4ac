"""What goes into a node's configuration."""

from __future__ import annotations

import re

import pytest

from rackward.clusters.broker_config import (
    Listener,
    broker_properties,
    client_racks_of,
    controller_properties,
    environment,
    rack_listeners,
    render,
)

DOORS = [
    Listener("INTERNAL", "127.0.0.1:9001", "127.0.0.1:9001"),
    Listener("RACK_0", "0.0.0.0:9100", "127.0.0.1:17000"),
]


def broker(**changes: object) -> dict[str, str]:
    options: dict[str, object] = {"controller": "127.0.0.1:9000", "brokers": 6, "data": "/d"}
    return broker_properties(4, "/dc1/r1", DOORS, **{**options, **changes})  # type: ignore[arg-type]


def test_a_broker_knows_its_rack_its_doors_and_its_controller() -> None:
    made = broker()
    assert made["node.id"] == "4"
    assert made["process.roles"] == "broker"
    assert made["broker.rack"] == "/dc1/r1"
    assert made["listeners"] == "INTERNAL://127.0.0.1:9001,RACK_0://0.0.0.0:9100"
    assert made["advertised.listeners"] == "INTERNAL://127.0.0.1:9001,RACK_0://127.0.0.1:17000"
    assert made["controller.quorum.voters"] == "3000@127.0.0.1:9000"
    security = made["listener.security.protocol.map"].split(",")
    assert security == ["CONTROLLER:PLAINTEXT", "INTERNAL:PLAINTEXT", "RACK_0:PLAINTEXT"]
    assert "broker.rack" not in broker_properties(
        4, None, DOORS, controller="c:1", brokers=1, data="/d"
    )


@pytest.mark.parametrize(("brokers", "replication"), [(1, "1"), (2, "2"), (3, "3"), (6, "3")])
def test_internal_topics_fit_the_cluster(brokers: int, replication: str) -> None:
    made = broker(brokers=brokers)
    for key, value in made.items():
        if key.endswith("replication.factor"):
            assert value == replication, key
        if key.endswith("min.isr"):
            assert int(value) <= int(replication), key


def test_what_the_caller_gives_wins() -> None:
    extra = {"group.min.session.timeout.ms": "6000", "log.dirs": "/e"}
    assert broker(extra=extra).items() >= extra.items()
    controller = controller_properties("0.0.0.0:1", "c:1", brokers=3, data="/d", extra=extra)
    assert controller.items() >= extra.items()
    assert controller["process.roles"] == "controller"
    assert "advertised.listeners" not in controller


def test_racks_with_odd_characters_get_plain_listener_names() -> None:
    racks = client_racks_of(["/dc1/r1", None, "b ü", "", "/dc1/r1"])
    assert racks == ("/dc1/r1", "b ü")
    assert rack_listeners(racks) == {"/dc1/r1": "RACK_0", "b ü": "RACK_1"}


ESCAPE = re.compile(r"\\u([0-9a-f]{4})|\\(.)")


def unescape(text: str) -> dict[str, str]:
    """Reads a properties file as java.util.Properties documents it."""

    def plain(text: str) -> str:
        special = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
        units = ESCAPE.sub(
            lambda found: chr(int(found[1], 16)) if found[1] else special.get(found[2], found[2]),
            text.lstrip(" \t"),
        )
        return units.encode("utf-16", "surrogatepass").decode("utf-16")

    pairs = (re.split(r"(?<!\\)=", line, maxsplit=1) for line in text.splitlines())
    return {plain(key): plain(value) for key, value in pairs}


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
def test_a_value_survives_the_properties_file(value: str) -> None:
    text = render({"broker.rack": value, "a key": value})
    assert text.isascii()
    assert unescape(text) == {"broker.rack": value, "a key": value}


def test_the_image_s_variables_spell_every_separator() -> None:
    assert environment({"broker.rack": "a", "x_y-z.w": "1"}) == {
        "KAFKA_BROKER_RACK": "a",
        "KAFKA_X__Y___Z_W": "1",
    }
