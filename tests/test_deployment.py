"""The files in deploy/: the dashboard's metrics exist, manifests and image run real commands."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assignors.metrics import AssignmentCollector
from rackward.collector.config import ClusterSource, read_sources
from rackward.controller.config import read_config
from rackward.controller.leader_decision import Decision
from rackward.controller.leader_follower import FollowStatus
from rackward.controller.metrics import ControllerMetrics, MetricsCollector
from rackward.controller.reconcile import ReconcileStatus
from rackward.lead.status import LeadMetrics
from rackward.placement_service import ServiceMetrics
from tests.test_documentation import PROJECT, ROOT, no_properties, parse_command

DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
yaml: Any = importlib.import_module("yaml")

DASHBOARD = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))


def exported_metrics() -> set[str]:
    """Return the names of all metrics, as Prometheus stores them."""
    controller = ControllerMetrics(
        ReconcileStatus(),
        requested=0,
        passes=0,
        failed_passes=0,
        last_response=0.0,
        leaders=FollowStatus(Decision()),
        service=ServiceMetrics(),
    )
    collectors = (
        AssignmentCollector(),
        LeadMetrics(lambda: ()),
        MetricsCollector(lambda: controller),
    )
    return {
        family.name + ("_total" if family.type == "counter" else "")
        for collector in collectors
        for family in collector.collect()
    }


def panels() -> Iterator[dict[str, Any]]:
    """Yield the panels of the dashboard that are not rows."""
    yield from (panel for panel in DASHBOARD["panels"] if panel["type"] != "row")


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    expressions = [target["expr"] for panel in panels() for target in panel["targets"]]
    used = set(re.findall(r"\brackward_\w+", " ".join(expressions)))
    assert used == exported_metrics()


def test_the_dashboard_is_whole() -> None:
    """Ids are unique, panels do not overlap, and every panel has its query's source."""
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        own = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert grid["x"] + grid["w"] <= 24
        assert not own & cells, panel["title"]
        cells |= own
    for panel in panels():
        assert panel["title"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            brackets = [target["expr"].count(each) for each in "(){}[]"]
            assert brackets[0::2] == brackets[1::2], target["expr"]


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests(path: Path) -> None:
    """Commands parse, mounted volumes and probed ports exist, and nothing runs as root."""
    deployments = [each for each in documents(path) if each["kind"] == "Deployment"]
    assert deployments
    for each in deployments:
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"] == labels
        pod = each["spec"]["template"]["spec"]
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        for container in pod["containers"]:
            mounted = {mount["name"] for mount in container.get("volumeMounts", ())}
            assert mounted == volumes
            ports = {port["name"] for port in container.get("ports", ())}
            probes = [container[name] for name in container if name.endswith("Probe")]
            assert {probe["httpGet"]["port"] for probe in probes} == ports
            if container["image"].startswith("rackward:"):
                assert pod["securityContext"]["runAsNonRoot"]
                assert container["image"] == f"rackward:{PROJECT['project']['version']}"
                parse_command(container["args"])


def test_configurations_in_manifests(tmp_path: Path) -> None:
    maps = [each for path in MANIFESTS for each in documents(path) if each["kind"] == "ConfigMap"]
    for each in maps:
        ((name, text),) = each["data"].items()
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        if name == "controller.yaml":
            assert read_config(file, no_properties, dict).health is not None
        else:
            (source,) = read_sources(file, no_properties, ClusterSource("", {}))
            assert source.racks
    assert len(maps) == 2


def test_the_consumer_gets_its_rack_from_the_downward_api() -> None:
    (deployment,) = documents(DEPLOY / "kubernetes" / "consumer.yaml")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (variable,) = container["env"]
    assert variable["name"] == "RACKWARD_RACK"
    assert "zone" in variable["valueFrom"]["fieldRef"]["fieldPath"]


def test_the_image() -> None:
    """It does not run as root, installs known extras, and copies all that the build needs."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER [1-9][0-9]*:[1-9][0-9]*$", text, re.MULTILINE)
    (extras,) = re.findall(r"'\.\[([a-z,-]+)\]'", text)
    assert set(extras.split(",")) <= PROJECT["project"]["optional-dependencies"].keys()
    copied = set(" ".join(re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE)).split())
    packages = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    files = {"pyproject.toml", "constraints.txt", "README.md", "LICENSE"}
    assert copied == packages | files
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{name}" for name in copied} <= set(ignored)


def test_the_public_pipeline_runs_the_same_script() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    steps = yaml.safe_load(workflow)["jobs"]["run"]["steps"]
    assert steps[-1] == {"run": "bash .ci/run"}
