"""The controller's configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rack_traffic.writers import Writers
from rackward.config_files import ConfigError
from rackward.controller.config import (
    ControllerConfig,
    FollowConfig,
    ListenConfig,
    Placement,
    UnderReplicated,
    read_config,
)
from rackward.groups.host_racks import HostRacks
from rackward.lead import PROTOCOL_STRATEGIES, TakeOver, TakeOverPolicy
from rackward.placement_service import MutualTls

COMPLETE = """
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
  follow: [orders, billing-*]
  min_gain: 0.2
  min_rate: 5kB/s
  settle: 1.5m
  rest: 2h
  elections_per_hour: 60
  max_imbalance: 0.5
  writers: a=3,b=1
  mapping: {10.0.1.0/24: az1}
"""


def read_properties(path: Path) -> dict[str, str]:
    assert path.name == "client.properties"
    return {"sasl.password": "hidden", "bootstrap.servers": "other:1"}


def write(folder: Path, text: str, name: str = "controller.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_all_settings(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, COMPLETE), read_properties, dict)
    assert config == ControllerConfig(
        properties={"sasl.password": "hidden", "bootstrap.servers": "kafka-1:9092"},
        placement=Placement(
            placer="multi-level",
            properties={"seed": 7, "flag": True},
            locator="static",
            locator_properties={1: "/dc1/a"},
            ignore_racks=True,
        ),
        under_replicated=UnderReplicated(allowed=True, partitions_at_once=12, throttle="1.5MB/s"),
        service=ListenConfig(
            "::1",
            9480,
            MutualTls(*(str(tmp_path / f) for f in ("ca.pem", "controller.pem", "controller.key"))),
        ),
        health=None,
        leaders=FollowConfig(
            *(("orders", "billing-*"), 0.2, 5000.0, 90.0, 7200.0, 60, 0.5),
            Writers({"*": {"a": 0.75, "b": 0.25}}),
            HostRacks.parse({"10.0.1.0/24": "az1"}, "mapping"),
        ),
    )
    assert config.under_replicated.rate == 1_500_000
    assert "hidden" not in repr(config)
    assert "/dc1/a" not in repr(config)


def test_defaults(tmp_path: Path) -> None:
    path = write(tmp_path, '[cluster]\nbootstrap_servers = "kafka-1:9092"\n', "controller.toml")
    config = read_config(path, read_properties, dict)
    assert config == ControllerConfig(
        {"bootstrap.servers": "kafka-1:9092"},
        service=ListenConfig("127.0.0.1", 9480),
        health=ListenConfig("127.0.0.1", 9481),
    )
    assert not config.under_replicated.allowed
    assert config.leaders is None
    assert config.under_replicated.rate is None


def test_groups_to_lead(tmp_path: Path) -> None:
    text = f"""{CLUSTER}lead:
  groups: [payments, team-*]
  take_over: remove
  remove_static: true
  mapping: {{10.0.1.0/24: az1}}
  protocols: {{rack-affinity: sticky}}
"""
    lead = read_config(write(tmp_path, text), read_properties, dict).lead
    assert lead is not None
    assert lead.groups == ("payments", "team-*")
    assert lead.options.take_over == TakeOverPolicy(TakeOver.REMOVE, remove_static=True)
    assert lead.options.host_racks.rack("/10.0.1.7") == "az1"
    assert lead.options.protocols["rack-affinity"] == PROTOCOL_STRATEGIES["sticky"]


@pytest.mark.parametrize(
    ("written_as", "rate"), [("off", None), ("50000000", 50_000_000), ("50MiB", 50 << 20)]
)
def test_throttle(tmp_path: Path, written_as: str, rate: int | None) -> None:
    text = f"{CLUSTER}under_replicated: {{throttle: {written_as}, partitions_at_once: 500}}"
    config = read_config(write(tmp_path, text), read_properties, dict)
    assert config.under_replicated.rate == rate


CLUSTER = "cluster: {bootstrap_servers: 'k:1'}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cluster: no cluster is given: set bootstrap_servers"),
        ("cluster: {}", "cluster: no cluster is given: set bootstrap_servers"),
        ("cluster: 7", "cluster: write settings here, each as NAME: VALUE"),
        ("- a", "write settings here"),
        ("cluster: {bootstrap_servers: 7}",
         "cluster: bootstrap_servers is 7: write a text, or a list of texts"),
    ],
)  # fmt: skip
def test_errors_of_the_document_and_the_cluster(tmp_path: Path, text: str, message: str) -> None:
    check_error(tmp_path, text, message)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("more: 1", "unknown setting 'more'; the settings are cluster, placement"),
        ("placement: {place: x}", "placement: unknown setting 'place'; the settings are placer"),
        ("placement: {properties: [1]}",
         "properties is not valid: write properties, each as NAME: VALUE"),
        ("under_replicated: {allowed: 'yes'}", "allowed is 'yes': write true or false"),
        ("under_replicated: {partitions_at_once: 0}",
         "partitions_at_once is 0: write a whole number from 1 to 10000"),
        ("under_replicated: {partitions_at_once: 1.5}",
         "partitions_at_once is 1.5: write a whole number from 1"),
        ("under_replicated: {throttle: fast}", "throttle is 'fast': write bytes per second"),
        ("under_replicated: {throttle: true}", "throttle is True: write bytes"),
        ("under_replicated: {throttle: 1MB, partitions_at_once: 501}", "at most 500"),
        ("service: {listen: here}", "listen is 'here': write HOST:PORT, or off"),
        ("service: {cert_file: x.pem}", "TLS requires ca_file and cert_file"),
        ("health: {port: 1}", "health: unknown setting 'port'; the settings are listen"),
        ("leaders: {every: 6h}", "unknown setting 'every'; the settings are follow"),
        ("leaders: {follow: 7}", "follow is 7: write a text, or a list of texts"),
        ("leaders: {min_gain: 2}", "from 0 to 1"),
        ("leaders: {min_rate: fast}", "min_rate fast: expected a number of bytes"),
        ("leaders: {rest: soon}", "rest is 'soon': write a time such as 10m"),
        ("leaders: {elections_per_hour: 0}", "a whole number from 1"),
        ("leaders: {max_imbalance: .inf}", "from 0 to 1000"),
        ("leaders: {writers: [a]}", "writers 'a': give RACK=SHARE"),
        ("lead: {groups: g, take_over: later}", "take_over is 'later': write wait or remove"),
        ("lead: {groups: g, protocols: {x: best}}", "protocols x=best: write NAME=STRATEGY"),
        ("lead: {groups: g, mapping: {10.0.0.0/99: a}}",
         "mapping: '10.0.0.0/99' is not a valid network"),
    ],
)  # fmt: skip
def test_errors_name_the_file_and_the_setting(tmp_path: Path, settings: str, message: str) -> None:
    check_error(tmp_path, CLUSTER + settings, message)


def test_the_cluster_of_the_file_and_that_of_options(tmp_path: Path) -> None:
    def options() -> dict[str, object]:
        return {"metadata.broker.list": "other:9092"}

    def refuse() -> dict[str, object]:
        raise AssertionError("not needed")

    for text in ("", "cluster: {}", "lead: {groups: g}"):
        path = write(tmp_path, text)
        assert read_config(path, read_properties, options).properties == options()
    path = write(tmp_path, CLUSTER)
    of_file = read_config(path, read_properties, refuse).properties
    assert of_file["bootstrap.servers"]
    assert read_config(path, read_properties, options, overridden=True).properties == options()


def check_error(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        read_config(path, read_properties, dict)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
