"""The script that builds the Kafka image of the Docker tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import docker  # noqa: F401 - the script needs it

ROOT = Path(__file__).parents[2]


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
