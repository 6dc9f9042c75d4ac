"""Builds the wheel, installs it outside the checkout, and runs smoke tests.

For each extra, and for the wheel alone, a virtual environment is created in a temporary folder,
the wheel is installed with that extra, and a smoke test runs. It fails if code works only because
the checkout is on the path, if the wheel lacks a file, or if no extra names a dependency. Other
versions of Python that this machine has get the smoke tests of all clients and of the commands.
Last, all extras are installed at once, as users install them: the newest releases, unconstrained.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("placement_core", "assignors", "partitioners", "rack_traffic", "rackward")

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
from assignors.rack_discovery import resolve_rack, discover
from partitioners.choice import PartitionChooser
chooser = PartitionChooser("t", "a", 3)
assert chooser.update({0: "a", 1: "b", 2: "c"}) and chooser.candidates() == [0]
assert resolve_rack(None, {"RACKWARD_RACK": "a"}) == "a" and discover("gce").name == "gce"
"""

KAFKA_PYTHON = """
from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor, LeaderRackAwareRangeAssignor,
)
assert LeaderRackAwareRangeAssignor(rack="a").name == "leader-rack-aware-range"
assert LeaderRackAwareCooperativeStickyAssignor(rack="a").name == (
    "leader-rack-aware-cooperative-sticky"
)
from partitioners.kafka_python import RackAwarePartitioner
assert RackAwarePartitioner(rack="a")
"""

CONFLUENT = """
from assignors.confluent import Consumer
from partitioners.confluent import Producer
assert Producer({"bootstrap.servers": "127.0.0.1:1", "client.rack": "a"})
settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "client.rack": "a"}
strategy = "leader-rack-aware-cooperative-sticky"
with Consumer({**settings, "partition.assignment.strategy": strategy}) as consumer:
    assert consumer.poll(0) is None and consumer.assignment() == []
"""

AIOKAFKA = """
from assignors.aiokafka import (
    LeaderRackAwareCooperativeStickyAssignor, LeaderRackAwareRangeAssignor,
)
assert LeaderRackAwareRangeAssignor(rack="a").name == "leader-rack-aware-range"
from partitioners.aiokafka import RackAwareProducer
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
from rackward.testing import LocalCluster
"""

DOCKER = """
from rackward.testing import DockerCluster
"""

CLI = """
import subprocess, sys, pathlib
tool = str(pathlib.Path(sys.executable).with_name("rackward"))
assert "0.1.0" in subprocess.check_output([tool, "--version"], text=True)
commands = "demo", "rack", "topics create", "placement check", "leaders plan", "traffic collect"
for command in commands:
    output = subprocess.check_output([tool, *command.split(), "--help"], text=True)
    assert "--json" in output, command
no_broker = [tool, "topics", "describe", "--bootstrap-server", "127.0.0.1:1", "--timeout", "5"]
completed = subprocess.run(no_broker, stderr=subprocess.PIPE, text=True)
assert completed.returncode == 2 and completed.stderr.count("\\n") == 1, completed
"""

CONTROLLER = """
import subprocess, sys, pathlib
import rackward.controller.app, rackward.placement_service
tool = str(pathlib.Path(sys.executable).with_name("rackward"))
pathlib.Path("c.yaml").write_text("cluster: {bootstrap_servers: '127.0.0.1:1'}")
subprocess.run([tool, "controller", "--config", "c.yaml", "--check"], check=True)
"""

SMOKE_TESTS = {
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

# The smoke tests of each other Python, in one environment. Not Spark: its packages are large.
OTHER_PYTHONS_EXTRAS = ("confluent", "aiokafka", "prometheus", "cli", "controller")

# Runs before each smoke test: the packages must not come from the checkout.
CHECK_ORIGIN = f"""
import pathlib
for name in {PACKAGES!r}:
    path = pathlib.Path(__import__(name).__file__)
    assert "site-packages" in path.parts, path
"""


def run(*command: str | Path, cwd: Path, constrained: bool = True) -> None:
    """Run ``command`` in ``cwd`` without the checkout on any path.

    pip installs the versions of constraints.txt, or the newest ones. Raises CalledProcessError if
    it fails.
    """
    unset = ("PYTHON", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
    if constrained:
        environ["PIP_CONSTRAINT"] = environ["PIP_BUILD_CONSTRAINT"] = str(ROOT / "constraints.txt")
    subprocess.run([str(part) for part in command], cwd=cwd, env=environ, check=True)


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist and, from it, the wheel; return (wheel, sdist)."""
    out = folder / "dist"
    run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=folder)
    (wheel,) = out.glob("*.whl")
    (sdist,) = out.glob("*.tar.gz")
    return wheel, sdist


def check_contents(wheel: Path) -> list[str]:
    """Return what is wrong with the contents of ``wheel``, one line each."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    problems = [
        f"{name}/py.typed is missing" for name in PACKAGES if f"{name}/py.typed" not in names
    ]
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        problems.append("LICENSE is missing")
    allowed = (
        *(f"{name}/" for name in PACKAGES),
        f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/",
    )
    problems.extend(f"unexpected file {name}" for name in names if not name.startswith(allowed))
    return problems


def other_pythons() -> dict[str, Path]:
    """Return the newest interpreter of each other supported version, by version.

    Version managers install each version in a folder beside those of the others.
    """
    found: dict[str, Path] = {}
    supported = ("3.11", "3.12", "3.13", "3.14")
    beside = sorted(Path(sys.base_prefix).parent.glob("*/bin/python3"))
    on_path = [Path(path) for name in supported if (path := shutil.which(f"python{name}"))]
    for python in [*on_path, *beside]:
        shown = subprocess.run(
            [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if (version := shown.stdout.strip()) in supported:
            found[version] = python
    found.pop(f"{sys.version_info.major}.{sys.version_info.minor}", None)
    return found


def check_extras(
    extras: Sequence[str],
    wheel: Path,
    home: Path,
    python: str | Path = sys.executable,
    *,
    constrained: bool = True,
) -> None:
    """Install ``wheel`` with ``extras`` into a new environment and run their smoke tests there."""
    run(python, "-m", "venv", "--without-pip", home / "venv", cwd=home.parent)
    installed = home / "venv" / "bin" / "python"
    # The pip of this interpreter serves all environments.
    pip = (sys.executable, "-m", "pip", "--python", installed)
    requirement = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    install = (*pip, "install", "--quiet", "--no-compile", requirement)
    run(*install, cwd=home, constrained=constrained)
    for extra in extras or [""]:
        run(installed, "-I", "-c", CHECK_ORIGIN + SMOKE_TESTS[extra], cwd=home)


def main() -> int:
    """Return 0, or 1 if the wheel's contents are wrong; a failing command raises."""
    with tempfile.TemporaryDirectory(prefix="rackward-wheel-") as name:
        folder = Path(name)
        wheel, sdist = build(folder)
        print(f"built {wheel.name} ({wheel.stat().st_size:,} bytes) and {sdist.name}", flush=True)
        problems = check_contents(wheel)
        for problem in problems:
            print(f"{wheel.name}: {problem}", file=sys.stderr)
        if problems:
            return 1
        for extra in SMOKE_TESTS:
            check_extras([extra] if extra else [], wheel, folder / (extra or "alone"))
            print(f"wheel with {f'extra {extra}' if extra else 'no extra'}: passed", flush=True)
        for version, python in sorted(other_pythons().items()):
            check_extras(OTHER_PYTHONS_EXTRAS, wheel, folder / version, python)
            print(f"wheel with Python {version}: passed", flush=True)
        every = [extra for extra in SMOKE_TESTS if extra]
        check_extras(every, wheel, folder / "every", constrained=False)
        print("wheel with every extra, unconstrained: passed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
