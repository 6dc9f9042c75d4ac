"""The controller's configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from placement_core import RackwardError
from rackward.controller.config import Door, LeaderLayouts, Settings, read_settings

EVERYTHING = """
cluster:
  bootstrap_servers: kafka-1:9092
  command_config: client.properties
placement:
  placer: multi-level
  properties: {seed: 7, flag: true}
  locator: static
  locator_properties: {1: /dc1/a}
  ignore_racks: true
under_replicated:
  allowed: true
  partitions_at_once: 12
  throttle: 1.5MB/s
service:
  listen: "[::1]:9480"
  ca_file: ca.pem
  cert_file: controller.pem
  key_file: controller.key
health:
  listen: off
leaders:
  every: 1.5h
  groups: [orders, billing-*]
  least_gain: 0.2
"""


def read(path: Path) -> dict[str, str]:
    assert path.name == "client.properties"
    return {"sasl.password": "hidden", "bootstrap.servers": "other:1"}


def written(folder: Path, text: str, name: str = "controller.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_everything(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path, EVERYTHING), read)
    assert found == Settings(
        properties={"sasl.password": "hidden", "bootstrap.servers": "kafka-1:9092"},
        placer="multi-level",
        placer_properties={"seed": "7", "flag": "true"},
        locator="static",
        locator_properties={"1": "/dc1/a"},
        ignore_racks=True,
        under_replicated=True,
        partitions_at_once=12,
        throttle=1_500_000,
        service=Door(
            "::1",
            9480,
            str(tmp_path / "ca.pem"),
            str(tmp_path / "controller.pem"),
            str(tmp_path / "controller.key"),
        ),
        health=None,
        leaders=LeaderLayouts(5400.0, ("orders", "billing-*"), 0.2),
    )
    assert "hidden" not in repr(found)


def test_what_is_left_out_is_safe(tmp_path: Path) -> None:
    path = written(tmp_path, '[cluster]\nbootstrap_servers = "kafka-1:9092"\n', "controller.toml")
    found = read_settings(path, read)
    assert found == Settings(
        {"bootstrap.servers": "kafka-1:9092"},
        service=Door("127.0.0.1", 9480),
        health=Door("127.0.0.1", 9481),
    )
    assert not found.under_replicated
    assert found.leaders is None
    assert found.throttle is None


@pytest.mark.parametrize(
    ("written_as", "rate"), [("off", None), ("50000000", 50_000_000), ("50MiB", 50 << 20)]
)
def test_throttles(tmp_path: Path, written_as: str, rate: int | None) -> None:
    text = f"{CLUSTER}under_replicated: {{throttle: {written_as}, partitions_at_once: 500}}"
    assert read_settings(written(tmp_path, text), read).throttle == rate


CLUSTER = "cluster: {bootstrap_servers: 'k:1'}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "say where the cluster is"),
        ("cluster: {}", "say where the cluster is"),
        ("cluster: 7", "cluster: write settings here"),
        ("- a", "write settings here"),
        ("cluster: {bootstrap_servers: 7}", "bootstrap_servers is 7: write a text"),
        (CLUSTER + "more: 1", "'more' is no setting; there are cluster, placement"),
        (CLUSTER + "placement: {place: x}", "placement: 'place' is no setting"),
        (CLUSTER + "placement: {properties: [1]}", "write properties, each with its name"),
        (CLUSTER + "under_replicated: {allowed: 'yes'}", "allowed is 'yes': write true or false"),
        (CLUSTER + "under_replicated: {partitions_at_once: 0}", "write a number from 1 to 10000"),
        (CLUSTER + "under_replicated: {partitions_at_once: 1.5}", "write a number from 1"),
        (CLUSTER + "under_replicated: {throttle: fast}", "'fast': write bytes per second, such as"),
        (
            CLUSTER + "under_replicated: {throttle: true}",
            "throttle is True: write bytes",
        ),
        (CLUSTER + "under_replicated: {throttle: 1MB, partitions_at_once: 501}", "500 at most"),
        (CLUSTER + "service: {listen: here}", "listen is 'here': write HOST:PORT, or off"),
        (CLUSTER + "service: {cert_file: x.pem}", "TLS takes ca_file and cert_file"),
        (CLUSTER + "health: {port: 1}", "health: 'port' is no setting"),
        (CLUSTER + "leaders: {every: 5s, groups: [a]}", "write a time of at least 1m"),
        (CLUSTER + "leaders: {every: daily, groups: [a]}", "every is 'daily'"),
        (CLUSTER + "leaders: {every: 6h}", "say whose consumers count: groups"),
        (CLUSTER + "leaders: {every: 6h, groups: 7}", "write a list of names"),
        (CLUSTER + "leaders: {every: 6h, groups: [a], least_gain: 2}", "from 0 to 1"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(RackwardError) as raised:
        read_settings(path, read)
    assert told in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
