"""Configuration of nodes."""

from __future__ import annotations

from rackward.testing.broker_config import environment_variables


def test_environment_variables_encode_every_separator() -> None:
    assert environment_variables({"broker.rack": "a", "x_y-z.w": "1"}) == {
        "KAFKA_BROKER_RACK": "a",
        "KAFKA_X__Y___Z_W": "1",
    }
