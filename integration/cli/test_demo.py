"""``rackward demo`` as a command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.timeout(600)

KAFKA_PYTHON = ("kafka-python-range", "kafka-python-cooperative-sticky")
RACKWARD = ("rackward-range", "rackward-kafka-python")
COMMAND = [
    *(sys.executable, "-u", "-m", "rackward.cli.main"),
    *("demo", "--rate", "1", "--step-seconds", "2"),
]
STEPS = ["start", "leaders-move", "member-leaves", "member-joins", "broker-dies", "broker-returns"]
RECORD_BYTES = 4096


def demo(*arguments: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Run the demo; return its JSON file and its standard output."""
    file = folder / "demo.json"
    completed = subprocess.run(
        [*COMMAND, "--output", str(file), *arguments],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    document: dict[str, Any] = json.loads(file.read_text())
    return document, completed.stdout


def check_results(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Check what holds in every run; return the results by strategy."""
    assert document["is_optimal"] is True
    results = {result["strategy"]: result for result in document["results"]}
    assert list(results) == [*KAFKA_PYTHON, *RACKWARD]
    crossing = {}
    for key, result in results.items():
        cells = {
            (reader, broker): size
            for reader, row in result["bytes"].items()
            for broker, size in row.items()
        }
        assert min(cells.values()) >= 0
        total = sum(cells.values())
        crossing[key] = sum(size for (reader, broker), size in cells.items() if reader != broker)
        assert sum(step["bytes"] for step in result["steps"]) == total
        # Each record was read once; headers and repeated reads add few bytes.
        assert 0.9 < total / result["produced_bytes"] < 1.4
        assert result["records_read"] >= 0.99 * result["produced_bytes"] / RECORD_BYTES
        for step in result["steps"]:
            assert step["max_partitions"] - step["min_partitions"] <= 1
            assert step["crossing"] >= step["optimum"]
            if key in RACKWARD and step["event"] in ("start", "member-leaves", "member-joins"):
                assert step["crossing"] == step["optimum"]
    assert max(crossing[key] for key in RACKWARD) < min(crossing[key] for key in KAFKA_PYTHON) / 2
    return results


def test_all_steps_on_a_new_cluster(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    document, printed = demo("--partitions", "36", "--keep-logs", str(logs), folder=tmp_path)
    results = check_results(document)
    for result in results.values():
        assert [step["event"] for step in result["steps"]] == STEPS
    start, leaders_move, *_ = results["rackward-kafka-python"]["steps"]
    assert (start["crossing"], start["optimum"]) == (0, 0)
    assert start["crossing_bytes"] < 0.05 * start["bytes"]
    # Leader moves do not make a group rebalance.
    assert leaders_move["moved"] == 0
    assert leaders_move["crossing"] > 0
    assert "Optimal: after every rebalance" in printed
    assert "\x1b" not in printed
    assert sorted(file.name for file in logs.iterdir()) == [
        *(f"broker-{number}.log" for number in range(6)),
        *sorted(f"{key}-0.log" for key in (*KAFKA_PYTHON, *RACKWARD)),
    ]
    assert "leader-rack-aware" in (logs / "rackward-kafka-python-0.log").read_text()


@pytest.mark.slow
def test_ctrl_c_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        COMMAND,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "Forming 4 consumer groups" in line:
                break
        # Twice, and to the whole process group, as a terminal does.
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors
    # The processes of the groups end when their parent has exited.
    wait_until(lambda: not _runs(process.pid), TEST_TIMEOUT, "no process is left")
    assert list(tmp_path.iterdir()) == []


def _runs(group: int) -> bool:
    """Return whether the process group has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
