"""Runs the adapters' tests with the oldest and the newest release of each client library.

With the newest release below the oldest, the adapter has to raise UnsupportedClientError.

The oldest is the lower bound of the requirement in pyproject.toml, the newest what pip resolves the
requirement to today. All other tests run with the installed release, so it is not tested again.
Each release is installed into a temporary folder, without its dependencies, which precedes the
environment on the path of the tests.
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
from collections.abc import Iterator
from contextlib import contextmanager
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
    adapter: str
    tests: tuple[str, ...]


CLIENTS = (
    Client(
        "kafka-python",
        "kafka-python",
        "kafka",
        "assignors.kafka_python",
        (
            "tests/assignors/kafka_python",
            "tests/assignors/confluent",
            "integration/clients/test_groups.py::test_a_broker_without_a_rack",
        ),
    ),
    Client(
        "confluent-kafka",
        "confluent",
        "confluent_kafka",
        "assignors.confluent",
        ("tests/assignors/confluent",),
    ),
    Client("aiokafka", "aiokafka", "aiokafka", "assignors.aiokafka", ("tests/assignors/aiokafka",)),
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


@contextmanager
def installed(client: Client, release: str) -> Iterator[dict[str, str]]:
    """Install ``release``; yield an environment whose Python imports it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        environment = {k: v for k, v in os.environ.items() if k != "PIP_CONSTRAINT"}
        subprocess.run(
            [*command, "--target", folder, f"{client.distribution}=={release}"],
            check=True,
            env=environment,
        )
        environment["PYTHONPATH"] = os.pathsep.join((folder, str(ROOT)))
        check = f"import {client.module}; assert {client.module}.__file__.startswith({folder!r})"
        subprocess.run([sys.executable, "-c", check], check=True, env=environment, cwd=folder)
        yield environment


def is_refused(client: Client, release: str) -> bool:
    """Return whether the adapter raises UnsupportedClientError with ``release``."""
    script = f"import {client.adapter} as a; getattr(a, 'install', lambda: None)()"
    with installed(client, release) as environment:
        command = [sys.executable, "-c", script]
        done = subprocess.run(
            command, check=False, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
    error = done.stderr.strip().rpartition("\n")[2]
    refused = "UnsupportedClientError" in error
    print(f"{client.distribution} {release}: {'refused' if refused else 'NOT REFUSED'}: {error}")
    return refused


def run_tests(client: Client, release: str) -> bool:
    """Run the tests of ``client`` with ``release``; return whether they pass."""
    started = time.monotonic()
    with installed(client, release) as environment:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "not docker", *client.tests],
            check=False,
            env=environment,
            cwd=ROOT,
            timeout=TIMEOUT,
        )
    passed = done.returncode == 0
    result = "passed" if passed else "FAILED"
    print(
        f"{client.distribution} {release}: {result}, {time.monotonic() - started:.0f} s", flush=True
    )
    return passed


def main() -> None:
    """Test all releases; exit with status 1 if a test failed."""
    failed = []
    for client in CLIENTS:
        required, installed = requirement(client), version(client.distribution)
        lowest, highest = oldest(required), newest(required)
        versions = to_test(lowest, highest, installed)
        print(
            f"{required}: oldest {lowest}, newest {highest}; all other tests run with {installed};"
            f" to test here: {', '.join(versions) or 'none, there is no other'}",
            flush=True,
        )
        failed += [
            f"{client.distribution} {each}" for each in versions if not run_tests(client, each)
        ]
        below = newest(f"{client.distribution}<{lowest}")
        if not is_refused(client, below):
            failed.append(f"{client.distribution} {below}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
