from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from rackward.collector import ClusterSource, Patterns, SourceError, read_rack_map, read_sources
from rackward.controller.config import DocumentError
from rackward.host_racks import HostRackError

DEFAULTS = ClusterSource("", {"client.id": "x"}, requests_per_second=7.0)

YAML = """
clusters:
  east:
    command_config: sub/east.properties
    requests_per_second: 10
    groups: [billing, audit-*]
    exclude_topics: tmp-*
    racks: {10.1.0.0/16: az1}
    reports_topic: reports
    internal_topics: true
  west:
    bootstrap_servers: [w1:9092, w2:9092]
"""
TOML = """
[clusters.east]
command_config = "sub/east.properties"
requests_per_second = 10
groups = ["billing", "audit-*"]
exclude_topics = "tmp-*"
racks = { "10.1.0.0/16" = "az1" }
reports_topic = "reports"
internal_topics = true
[clusters.west]
bootstrap_servers = "w1:9092,w2:9092"
"""
JSON = """
{"clusters": {
  "east": {"command_config": "sub/east.properties", "requests_per_second": 10,
           "groups": ["billing", "audit-*"], "exclude_topics": "tmp-*",
           "racks": {"10.1.0.0/16": "az1"}, "reports_topic": "reports", "internal_topics": true},
  "west": {"bootstrap_servers": "w1:9092,w2:9092"}}}
"""


def read(path: Path) -> Mapping[str, str]:
    return {"bootstrap.servers": f"of {path.parent.name}/{path.name}", "sasl.password": "secret"}


@pytest.mark.parametrize(("suffix", "text"), [("yaml", YAML), ("toml", TOML), ("json", JSON)])
def test_clusters_come_out_of_any_format(tmp_path: Path, suffix: str, text: str) -> None:
    file = tmp_path / f"clusters.{suffix}"
    file.write_text(text)
    east, west = read_sources(file, read, DEFAULTS)
    assert east.name == "east"
    assert east.properties == {
        "client.id": "x",
        "bootstrap.servers": "of sub/east.properties",
        "sasl.password": "secret",
    }
    assert east.requests_per_second == 10.0
    assert [name for name in ("billing", "audit-1", "auditor") if east.selection.groups.take(name)]
    assert not east.selection.groups.take("auditor")
    assert not east.selection.topics.take("tmp-1")
    assert east.selection.internal
    assert east.racks.rack("/10.1.2.3") == "az1"
    assert east.reports_topic == "reports"
    assert "secret" not in repr(east)
    assert west.properties["bootstrap.servers"] == "w1:9092,w2:9092"
    assert west.requests_per_second == 7.0
    assert west.selection == DEFAULTS.selection
    assert west.reports_topic is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("clusters: {}", "write 'clusters:'"),
        ("- a", "write 'clusters:'"),
        ("clusters: {a: {bootstrap_servers: 'x:1'}}\nmore: 1", "'more' means nothing"),
        ("clusters: {a: 3}", "cluster a: write its settings"),
        ("clusters: {a: {}}", "cluster a: say where it is"),
        ("clusters: {a: {bootstrap_server: 'x:1'}}", "'bootstrap_server' is no setting"),
        ("clusters: {a: {bootstrap_servers: 3}}", "bootstrap_servers is 3"),
        (
            "clusters: {a: {bootstrap_servers: 'x:1', requests_per_second: 0}}",
            "requests_per_second is 0",
        ),
        ("clusters: {a: {bootstrap_servers: 'x:1', groups: 3}}", "groups is 3"),
        ("clusters: {a: {bootstrap_servers: 'x:1', racks: [1]}}", "racks has to be"),
        ("clusters: {a: {bootstrap_servers: 'x:1', racks: {1.2.3.4/99: a}}}", "no subnet"),
        ("clusters: {a: {bootstrap_servers: 'x:1', internal_topics: 'maybe'}}", "write true"),
        ("clusters: {a: 'pass-word", "is not YAML: see line 1"),
    ],
)
def test_mistakes_are_named_with_file_and_cluster(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "clusters.yaml"
    file.write_text(text)
    with pytest.raises((SourceError, HostRackError, DocumentError)) as raised:
        read_sources(file, read, DEFAULTS)
    assert told in str(raised.value)
    assert str(file) in str(raised.value)
    assert "pass-word" not in str(raised.value)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot be read"):
        read_rack_map(tmp_path / "absent.yaml")
    other = tmp_path / "racks.txt"
    other.write_text("x")
    with pytest.raises(DocumentError, match=r"name it \.yaml"):
        read_rack_map(other)
    listed = tmp_path / "racks.json"
    listed.write_text("[]")
    with pytest.raises(SourceError, match="an address or a subnet"):
        read_rack_map(listed)


def test_patterns_include_and_exclude() -> None:
    patterns = Patterns(["orders*", "clicks"], ["*-test", "orders.old"])
    taken = [
        name
        for name in ("orders", "orders.new", "orders.old", "clicks", "clicks2", "orders-test")
        if patterns.take(name)
    ]
    assert taken == ["orders", "orders.new", "clicks"]
    assert Patterns().all
    assert Patterns().take("anything")
    assert not patterns.all
