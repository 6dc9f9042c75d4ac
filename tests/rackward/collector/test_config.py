"""The configuration file of the collector."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from placement_core import InvalidOptionError
from rackward.collector import ClusterSource, Patterns, SourceError, read_sources
from rackward.config_files import ConfigError

DEFAULTS = ClusterSource("", {"client.id": "x"}, requests_per_second=7.0)

YAML = """
clusters:
  east:
    command_config: sub/east.properties
    requests_per_second: 10
    groups: [billing, audit-*]
    exclude_topics: tmp-*
    racks: {10.1.0.0/16: az1}
    internal_topics: true
  west:
    bootstrap_servers: [w1:9092, w2:9092]
"""


def read_properties(path: Path) -> Mapping[str, str]:
    return {"bootstrap.servers": f"of {path.parent.name}/{path.name}", "sasl.password": "secret"}


def test_every_setting_of_a_cluster_and_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "clusters.yaml"
    file.write_text(YAML)
    east, west = read_sources(file, read_properties, DEFAULTS)
    assert east.name == "east"
    assert east.properties == {
        "client.id": "x",
        "bootstrap.servers": "of sub/east.properties",
        "sasl.password": "secret",
    }
    assert east.requests_per_second == 10.0
    groups = east.selection.groups
    assert groups.matches("billing")
    assert groups.matches("audit-1")
    assert not groups.matches("auditor")
    assert not east.selection.topics.matches("tmp-1")
    assert east.selection.internal
    assert east.racks.rack("/10.1.2.3") == "az1"
    assert "secret" not in repr(east)
    assert west.properties["bootstrap.servers"] == "w1:9092,w2:9092"
    assert west.requests_per_second == 7.0
    assert west.selection == DEFAULTS.selection


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clusters: {}", "write 'clusters:' and, below it, the name of each cluster"),
        ("- a", "write settings here, each as NAME: VALUE"),
        (
            "clusters: {a: {bootstrap_servers: 'x:1'}}\nmore: 1",
            "unknown setting 'more'; the settings are clusters",
        ),
        ("clusters: {a: 3}", "cluster a: write settings here"),
        ("clusters: {a: {}}", "cluster a: no address: set bootstrap_servers"),
        (
            "clusters: {a: {bootstrap_server: 'x:1'}}",
            "cluster a: unknown setting 'bootstrap_server'",
        ),
        ("clusters: {a: {bootstrap_servers: 3}}", "bootstrap_servers is 3"),
        (
            "clusters: {a: {bootstrap_servers: 'x:1', requests_per_second: 0}}",
            "requests_per_second is 0",
        ),
        ("clusters: {a: {bootstrap_servers: 'x:1', groups: 3}}", "groups is 3"),
        (
            "clusters: {a: {bootstrap_servers: 'x:1', racks: [1]}}",
            "racks is not valid: write addresses or networks",
        ),
        (
            "clusters: {a: {bootstrap_servers: 'x:1', racks: {1.2.3.4/99: a}}}",
            "'1.2.3.4/99' is not a valid network",
        ),
        ("clusters: {a: {bootstrap_servers: 'x:1', internal_topics: 'maybe'}}", "write true"),
        ("clusters: {a: 'pass-word", "is not valid YAML: see line 1"),
    ],
)
def test_errors_name_the_file_and_the_cluster(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "clusters.yaml"
    file.write_text(text)
    with pytest.raises((SourceError, InvalidOptionError, ConfigError)) as raised:
        read_sources(file, read_properties, DEFAULTS)
    assert message in str(raised.value)
    assert str(file) in str(raised.value)
    assert "pass-word" not in str(raised.value)


def test_patterns_include_and_exclude() -> None:
    patterns = Patterns(["orders*", "clicks"], ["*-test", "orders.old"])
    matching = [
        name
        for name in ("orders", "orders.new", "orders.old", "clicks", "clicks2", "orders-test")
        if patterns.matches(name)
    ]
    assert matching == ["orders", "orders.new", "clicks"]
    assert Patterns().matches("anything")
