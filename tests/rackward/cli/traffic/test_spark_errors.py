"""Failures of Spark are one line on stderr and exit status 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

import rackward.cli.traffic.options as traffic_options
from rack_traffic.errors import SparkError
from rackward.cli.traffic.options import SparkRunOptions
from tests.support.waiting import TEST_TIMEOUT


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--driver-memory", "nonsense"), "Spark cannot start with master local[*]: "),
        (("--master", "nonsense"), "Spark cannot start with master nonsense: "),
        (("--master", "spark://127.0.0.1:1"), "cannot reach the Spark master (127.0.0.1:1: "),
        (("--master", "sc://127.0.0.1:1"), "cannot reach the Spark Connect server (127.0.0.1:1: "),
    ],
)
def test_spark_that_cannot_be_started_or_reached(
    options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    (tmp_path / "brokers").mkdir()
    command = [sys.executable, "-m", "rackward.cli.main", "traffic", "run", str(tmp_path), "out"]
    done = subprocess.run(
        [*command, *options], check=False, capture_output=True, text=True, timeout=2 * TEST_TIMEOUT
    )
    assert done.returncode == 2, done.stderr
    error = done.stderr.splitlines()[-1]
    assert error.startswith(f"rackward: {message}"), done.stderr
    assert "--master" in error
    assert "Traceback" not in done.stderr
    # Lines before the error are those of the log.
    assert [line for line in done.stderr.splitlines()[:-1] if " starting Spark " not in line] == []


def test_a_jvm_that_ends_during_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    session = MagicMock()
    session.stop.side_effect = Py4JNetworkError("the JVM has exited")
    monkeypatch.setattr(traffic_options, "spark_session", lambda _options: session)
    with (
        pytest.raises(SparkError, match=r"^Spark failed: the JVM has exited"),
        SparkRunOptions().session(),
    ):
        raise Py4JNetworkError("no answer")
    session.stop.assert_called_once()
