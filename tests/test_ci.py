"""The scripts of .ci: other releases of the client libraries, and the Kafka image."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import docker  # noqa: F401 - kafka_image.py needs it
import pytest

from assignors.aiokafka import internals as aiokafka_internals
from assignors.confluent import internals as confluent_internals
from assignors.kafka_python import internals as kafka_python_internals
from partitioners import aiokafka as aiokafka_producer
from partitioners.confluent import producer as confluent_producer

ROOT = Path(__file__).parents[1]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "client_versions", ROOT / ".ci" / "client_versions.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_errors_name_the_requirements_that_are_tested(script: ModuleType) -> None:
    supported = [script.requirement(client) for client in script.CLIENTS if client.use]
    assert supported == [
        kafka_python_internals.SUPPORTED,
        confluent_internals.SUPPORTED,
        aiokafka_internals.SUPPORTED,
    ]
    assert supported[1:] == [confluent_producer.SUPPORTED, aiokafka_producer.SUPPORTED]
    assert all(script.oldest(each) for each in supported)


def test_a_requirement_without_a_lower_bound(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match="has no lower bound"):
        script.oldest("kafka-python<4")


@pytest.mark.parametrize(
    ("oldest", "newest", "installed", "to_test"),
    [
        ("3.0.8", "3.0.12", "3.0.12", ["3.0.8"]),
        ("3.0.8", "3.0.13", "3.0.12", ["3.0.8", "3.0.13"]),
        ("2.16", "2.16.0", "2.16.0", []),
        ("0.13", "0.14.0", "0.13.0", ["0.14.0"]),
        ("0.13", "0.14.0", "0.13.5", ["0.13", "0.14.0"]),
        ("10.0", "10.10", "10.1", ["10.0", "10.10"]),
    ],
)
def test_the_installed_release_is_not_tested_again(
    script: ModuleType, oldest: str, newest: str, installed: str, to_test: list[str]
) -> None:
    assert script.to_test(oldest, newest, installed) == to_test


def test_the_page_names_the_releases_of_frameworks(script: ModuleType) -> None:
    page = (ROOT / "docs" / "frameworks.md").read_text()
    for framework in script.FRAMEWORKS:
        assert f"{framework.distribution} {framework.version}" in page


def test_every_test_exists(script: ModuleType) -> None:
    for client in (*script.CLIENTS, *script.FRAMEWORKS):
        for test in client.tests:
            path, _, function = test.partition("::")
            found = ROOT / path
            assert (
                found.is_dir() or (f"def {function}(" if function else "def ") in found.read_text()
            )


# ---- The Kafka image.


def kafka_image(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / ".ci" / "kafka_image.py", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        # No engine listens there.
        env={**os.environ, "DOCKER_HOST": "tcp://127.0.0.1:1"},
    )


def test_help() -> None:
    completed = kafka_image("--help")
    assert completed.returncode == 0
    for option in ("--kafka-version", "--base", "--rebuild"):
        assert option in completed.stdout


def test_without_an_engine_the_error_is_one_line() -> None:
    completed = kafka_image()
    assert completed.returncode == 1
    assert completed.stdout == ""
    assert completed.stderr.startswith("error: no Docker engine answers")
    assert completed.stderr.count("\n") == 1
    assert "Traceback" not in completed.stderr
