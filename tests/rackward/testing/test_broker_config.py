"""Configuration of nodes."""

from __future__ import annotations

import re

import pytest

from rackward.testing.broker_config import (
    distinct_racks,
    environment_variables,
    format_properties,
    rack_listeners,
)


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
