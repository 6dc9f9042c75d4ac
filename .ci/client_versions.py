"""Runs the adapters' tests with the oldest and the newest release of each library that they use,
and the programs of docs/frameworks.md with the frameworks.

    python .ci/client_versions.py                # all
    python .ci/client_versions.py quixstreams    # of these libraries and frameworks

The oldest is the lower bound of the requirement in pyproject.toml, the newest what pip resolves the
requirement to today. All other tests run with the installed release, so it is not tested again.
With a release below the bound, a consumer has to refuse it by name.
Each release is installed into a temporary folder, without its dependencies, which precedes the
environment on the path of the tests. A framework is installed with its dependencies.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 600.0
"""Seconds for the tests of one release."""


@dataclass(frozen=True)
class Client:
    """A client library: its distribution, the extra that requires it, and tests of its adapter."""

    distribution: str
    extra: str
    module: str
    tests: tuple[str, ...]
    below: str = ""
    """A release below the lower bound."""
    use: str = ""
    """A program that has to raise UnsupportedClientError with that release."""


CLIENTS = (
    Client(
        "kafka-python",
        "kafka-python",
        "kafka",
        (
            "tests/assignors/kafka_python",
            "tests/assignors/confluent",
            "integration/clients/test_groups.py::test_a_broker_without_a_rack",
        ),
        below="3.0.7",
        use="from assignors.kafka_python import install; install()",
    ),
    Client(
        "confluent-kafka",
        "confluent",
        "confluent_kafka",
        ("tests/assignors/confluent", "tests/partitioners/test_confluent.py"),
        below="2.11.1",
        use="""
from assignors.confluent import Consumer, UnsupportedClientError
from partitioners.confluent import Producer
try:
    Consumer({"group.id": "g", "partition.assignment.strategy": "leader-rack-aware-range"})
except UnsupportedClientError:
    Producer({})
""",
    ),
    Client(
        "aiokafka",
        "aiokafka",
        "aiokafka",
        ("tests/assignors/aiokafka",),
        below="0.12.0",
        use="from assignors.aiokafka import install; install()",
    ),
    Client("pyspark", "spark", "pyspark", ("tests/rack_traffic/test_batch.py",)),
)


@dataclass(frozen=True)
class Framework:
    """A framework: its release, with the extras that programs need, and the tests of these."""

    distribution: str
    extras: str
    version: str
    module: str
    tests: tuple[str, ...]

    @property
    def requirement(self) -> str:
        """What pip installs."""
        return f"{self.distribution}{self.extras}=={self.version}"


FRAMEWORKS = (
    Framework(
        "faststream",
        "[confluent,kafka]",
        "0.7.8",
        "faststream",
        (
            "integration/lead/test_frameworks.py::test_faststream_with_aiokafka",
            "integration/lead/test_frameworks.py::test_faststream_with_confluent",
            "integration/lead/test_frameworks.py::test_faststream_with_rackwards_assignor",
        ),
    ),
    Framework(
        "quixstreams",
        "",
        "3.28.1",
        "quixstreams",
        ("integration/lead/test_frameworks.py::test_quix_streams",),
    ),
    Framework(
        "faust-streaming",
        "",
        "0.15.3",
        "faust",
        ("integration/lead/test_frameworks.py::test_faust",),
    ),
)


def requirement(client: Client) -> str:
    """Return the requirement of a client library in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (found,) = (
        each
        for each in project["optional-dependencies"][client.extra]
        if re.match(rf"{client.distribution}\b", each)
    )
    return str(found)


def oldest(requirement: str) -> str:
    """Return the lower bound. Exit if the requirement has none."""
    bound = re.search(r">=([0-9.]+)", requirement)
    if bound is None:
        sys.exit(f"pyproject.toml: {requirement!r} has no lower bound: add one, such as >=1.2")
    return bound[1]


def newest(requirement: str) -> str:
    """Return the newest release that satisfies the requirement."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"]
    # Not constrained to the release that is installed.
    environment = {k: v for k, v in os.environ.items() if k != "PIP_CONSTRAINT"}
    report = subprocess.run(
        [*command, "--ignore-installed", "--report", "-", requirement],
        stdout=subprocess.PIPE,
        check=True,
        env=environment,
    )
    (found,) = json.loads(report.stdout)["install"]
    return str(found["metadata"]["version"])


def to_test(lowest: str, highest: str, installed: str) -> list[str]:
    """Return those of the oldest and the newest release that are not installed."""
    # 2.16 is 2.16.0.
    releases = {re.sub(r"(\.0)+$", "", each): each for each in (lowest, highest, installed)}
    del releases[re.sub(r"(\.0)+$", "", installed)]
    return list(releases.values())


def install(folder: str, module: str, *arguments: str) -> dict[str, str]:
    """Install a release into ``folder``; return an environment with ``module`` from there."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
    environment = {k: v for k, v in os.environ.items() if k != "PIP_CONSTRAINT"}
    # Only what is in the folder counts.
    command += ["--no-warn-conflicts", "--target", folder]
    subprocess.run([*command, *arguments], check=True, env=environment)
    environment["PYTHONPATH"] = os.pathsep.join((folder, str(ROOT)))
    check = f"import {module}; assert {module}.__file__.startswith({folder!r})"
    subprocess.run([sys.executable, "-c", check], check=True, env=environment, cwd=folder)
    return environment


def run_tests(client: Client, release: str) -> bool:
    """Run the tests of ``client`` with ``release``; return whether they pass.

    Below the bound, run its ``use`` instead; return whether it is refused.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        environment = install(
            folder, client.module, "--no-deps", f"{client.distribution}=={release}"
        )
        refused = release == client.below
        tests = ["-m", "pytest", "-q", "-m", "not docker", *client.tests]
        done = subprocess.run(
            [sys.executable, *(["-c", client.use] if refused else tests)],
            check=False,
            env=environment,
            cwd=ROOT,
            timeout=TIMEOUT,
            stderr=subprocess.PIPE if refused else None,
            text=True,
        )
    passed = "UnsupportedClientError: " in done.stderr if refused else done.returncode == 0
    return report(f"{client.distribution} {release}", started, passed=passed)


def run_framework(framework: Framework) -> bool:
    """Run the tests of a framework; return whether they pass."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        environment = install(folder, framework.module, framework.requirement)
        # The tests print the figures of the page.
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-s", *framework.tests],
            check=False,
            env=environment,
            cwd=ROOT,
            timeout=TIMEOUT,
        )
    return report(framework.requirement, started, passed=done.returncode == 0)


def report(name: str, started: float, *, passed: bool) -> bool:
    """Print the result of a release; return ``passed``."""
    result = "passed" if passed else "FAILED"
    print(f"{name}: {result}, {time.monotonic() - started:.0f} s", flush=True)
    return passed


def main(names: Sequence[str]) -> None:
    """Test the releases of ``names``, or all; exit with status 1 if a test failed."""
    known = [each.distribution for each in (*CLIENTS, *FRAMEWORKS)]
    if unknown := set(names).difference(known):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; write some of {', '.join(known)}")
    failed = []
    for client in CLIENTS:
        if names and client.distribution not in names:
            continue
        required, installed = requirement(client), version(client.distribution)
        lowest, highest = oldest(required), newest(required)
        versions = [*to_test(lowest, highest, installed), *filter(None, [client.below])]
        print(
            f"{required}: oldest {lowest}, newest {highest}; all other tests run with {installed};"
            f" to test here: {', '.join(versions) or 'none, there is no other'}",
            flush=True,
        )
        failed += [
            f"{client.distribution} {each}" for each in versions if not run_tests(client, each)
        ]
    for framework in FRAMEWORKS:
        if names and framework.distribution not in names:
            continue
        if not run_framework(framework):
            failed.append(framework.requirement)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
