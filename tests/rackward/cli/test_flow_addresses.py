"""The file of --flow-addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from placement_core import RackwardError
from rackward.cli.traffic.options import read_flow_addresses


def write(folder: Path, text: str) -> Path:
    path = folder / "addresses.toml"
    path.write_text(text)
    return path


def test_brokers_and_racks(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        [brokers]
        "203.0.113.7:9092" = "prod/1"
        "203.0.113.8" = "team/prod/2"
        "[2001:db8:0::1]:9092" = "prod/3"
        "2001:db8::2" = "prod/4"
        [racks]
        "10.1.0.0/16" = "a"
        "10.1.2.0/24" = "b"
        """,
    )
    brokers, racks = read_flow_addresses(path)
    assert brokers == {
        ("203.0.113.7", 9092): ("prod", 1),
        ("203.0.113.8", None): ("team/prod", 2),
        ("2001:db8::1", 9092): ("prod", 3),
        ("2001:db8::2", None): ("prod", 4),
    }
    assert [racks.rack(each) for each in ("10.1.2.3", "10.1.9.9", "10.9.9.9")] == ["b", "a", None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[brokers]\n"kafka:9092" = "prod/1"', "'kafka:9092' is not an address or ADDRESS:PORT"),
        ('[brokers]\n"10.0.0.1" = "prod"', "'10.0.0.1' has 'prod': give CLUSTER/BROKER"),
        ('[racks]\n"10.0.0.0/33" = "a"', "'10.0.0.0/33' is not a valid network"),
        ('[subnets]\n"10.0.0.0/8" = "a"', "subnets"),
    ],
)
def test_an_invalid_file_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RackwardError) as caught:
        read_flow_addresses(write(tmp_path, text))
    assert message in str(caught.value)
    assert "addresses.toml" in str(caught.value)
