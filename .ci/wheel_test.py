"""Builds the wheel and tests it as a stranger gets it, with the sources out of reach.

For every extra, and for none, the wheel goes into a virtual environment of its own in a
temporary folder, and a smoke test runs there. What only works because the checkout is on
the path, a file that the wheel lacks, or a dependency that no extra names, fails here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("placement_core", "assignors", "rack_traffic", "rackward")

PURE = """
import importlib.util, sys
clients = ("kafka", "confluent_kafka", "aiokafka", "pyspark")
for absent in (*clients, "typer", "rich", "jgo", "testcontainers"):
    assert importlib.util.find_spec(absent) is None, absent
import assignors, placement_core
from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
members = [Member(id=rack, topics=frozenset({"t"}), rack=rack) for rack in "abc"]
for assignor in (LeaderRackAwareCooperativeSticky(), LeaderRackAwareRange()):
    plan = assignor.assign(members, {"t": ["c", "a", "b", None]})
    assert (plan.off_rack, plan.optimum, sum(plan.loads.values())) == (0, 0, 4), plan
from assignors.rack_discovery import chosen_rack, discover
assert chosen_rack(None, {"RACKWARD_RACK": "a"}) == "a" and discover("gce").name == "gce"
"""

KAFKA_PYTHON = """
from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor, LeaderRackAwareRangeAssignor,
)
assert LeaderRackAwareRangeAssignor(rack="a").name == "leader-rack-aware-range"
assert LeaderRackAwareCooperativeStickyAssignor(rack="a").name == (
    "leader-rack-aware-cooperative-sticky"
)
"""

CONFLUENT = """
from assignors.confluent import Consumer
settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "client.rack": "a"}
ours = "leader-rack-aware-cooperative-sticky"
with Consumer({**settings, "partition.assignment.strategy": ours}) as consumer:
    assert consumer.poll(0) is None and consumer.assignment() == []
"""

AIOKAFKA = """
from assignors.aiokafka import (
    LeaderRackAwareCooperativeStickyAssignor, LeaderRackAwareRangeAssignor,
)
assert LeaderRackAwareRangeAssignor(rack="a").name == "leader-rack-aware-range"
"""

PROMETHEUS = """
from prometheus_client import CollectorRegistry, generate_latest
from assignors.metrics import AssignmentCollector
registry = CollectorRegistry()
registry.register(AssignmentCollector())
assert b"rackward_assignments_total" in generate_latest(registry)
"""

SPARK = """
import pathlib, rack_traffic.pipeline, rack_traffic.session, rack_traffic.report.page
assert list(pathlib.Path(rack_traffic.report.page.__file__).parent.glob("templates/*"))
"""

CLUSTER = """
from rackward.clusters import LocalCluster
"""

DOCKER = """
from rackward.clusters import DockerCluster
"""

CLI = """
import subprocess, sys, pathlib
tool = str(pathlib.Path(sys.executable).with_name("rackward"))
assert "0.1.0" in subprocess.check_output([tool, "--version"], text=True)
commands = "demo", "rack", "topics create", "placement check", "leaders plan", "traffic collect"
for command in commands:
    told = subprocess.check_output([tool, *command.split(), "--help"], text=True)
    assert "--json" in told, command
nobody = [tool, "topics", "describe", "--bootstrap-server", "127.0.0.1:1", "--timeout", "5"]
refused = subprocess.run(nobody, stderr=subprocess.PIPE, text=True)
assert refused.returncode == 2 and refused.stderr.count("\\n") == 1, refused
"""

CONTROLLER = """
import subprocess, sys, pathlib
import rackward.controller.app, rackward.placement_service
tool = str(pathlib.Path(sys.executable).with_name("rackward"))
pathlib.Path("c.yaml").write_text("cluster: {bootstrap_servers: '127.0.0.1:1'}")
told = subprocess.check_output([tool, "controller", "--config", "c.yaml", "--check"], text=True)
assert told == "c.yaml: sound\\n", told
"""

SMOKE = {
    "": PURE,
    "kafka-python": KAFKA_PYTHON,
    "confluent": KAFKA_PYTHON + CONFLUENT,
    "aiokafka": AIOKAFKA,
    "prometheus": PROMETHEUS,
    "spark": SPARK,
    "cluster": KAFKA_PYTHON + CLUSTER,
    "docker": KAFKA_PYTHON + CLUSTER + DOCKER,
    "cli": KAFKA_PYTHON + CLUSTER + CLI,
    "controller": CONTROLLER,
}

# Says where the packages came from, before the smoke test proper.
OUT_OF_REACH = f"""
import pathlib
for name in {PACKAGES!r}:
    path = pathlib.Path(__import__(name).__file__)
    assert "site-packages" in path.parts, path
"""


def run(*command: str | Path, cwd: Path) -> None:
    """Run ``command`` in ``cwd`` without this checkout on any path; raise where it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    clean["PIP_CONSTRAINT"] = clean["PIP_BUILD_CONSTRAINT"] = str(ROOT / "constraints.txt")
    subprocess.run([str(part) for part in command], cwd=cwd, env=clean, check=True)


def build(scratch: Path) -> tuple[Path, Path]:
    """Build the sdist and, from it, the wheel; return (wheel, sdist)."""
    out = scratch / "dist"
    run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=scratch)
    (wheel,) = out.glob("*.whl")
    (sdist,) = out.glob("*.tar.gz")
    return wheel, sdist


def faults_of(wheel: Path) -> list[str]:
    """What is wrong with the contents of ``wheel``, one line each."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    faults = [f"no {name}/py.typed" for name in PACKAGES if f"{name}/py.typed" not in names]
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        faults.append("no LICENSE")
    allowed = (
        *(f"{name}/" for name in PACKAGES),
        f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/",
    )
    faults.extend(f"does not belong: {name}" for name in names if not name.startswith(allowed))
    return faults


def try_extra(extra: str, wheel: Path, scratch: Path) -> None:
    """Install ``wheel`` with ``extra`` into a fresh environment and run its smoke test there."""
    home = scratch / (extra or "alone")
    venv.create(home / "venv", with_pip=False)
    python = home / "venv" / "bin" / "python"
    requirement = f"{wheel}[{extra}]" if extra else str(wheel)
    # One pip for all of them, from outside.
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--no-compile", requirement, cwd=home)
    run(python, "-I", "-c", OUT_OF_REACH + SMOKE[extra], cwd=home)
    print(f"wheel with {f'extra {extra}' if extra else 'no extra'}: works", flush=True)


def main() -> int:
    """0 where the wheel is sound, 1 where its contents are not; a failing step raises."""
    with tempfile.TemporaryDirectory(prefix="rackward-wheel-") as folder:
        scratch = Path(folder)
        wheel, sdist = build(scratch)
        print(f"built {wheel.name} ({wheel.stat().st_size:,} bytes) and {sdist.name}", flush=True)
        faults = faults_of(wheel)
        for fault in faults:
            print(f"{wheel.name}: {fault}", file=sys.stderr)
        if faults:
            return 1
        for extra in SMOKE:
            try_extra(extra, wheel, scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
