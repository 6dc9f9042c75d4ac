"""Configuration of nodes."""

from __future__ import annotations

from rackward.testing.broker_config import (
    distinct_racks,
    environment_variables,
    rack_listeners,
)


def test_listener_names_do_not_depend_on_the_characters_of_racks() -> None:
    racks = distinct_racks(["/dc1/r1", None, "b ü", "", "/dc1/r1"])
    assert racks == ("/dc1/r1", "b ü")
    assert rack_listeners(racks) == {"/dc1/r1": "RACK_0", "b ü": "RACK_1"}


def test_environment_variables_encode_every_separator() -> None:
    assert environment_variables({"broker.rack": "a", "x_y-z.w": "1"}) == {
        "KAFKA_BROKER_RACK": "a",
        "KAFKA_X__Y___Z_W": "1",
    }
