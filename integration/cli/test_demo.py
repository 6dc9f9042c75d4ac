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

from rackward.clusters import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.timeout(600)

KAFKA_PYTHON = ("kafka-python-range", "kafka-python-sticky")
RACKWARD = ("rackward-range", "rackward-sticky")
QUICK = ("--rate", "1", "--step-seconds", "2")
STEPS = [
    ("start", True),
    ("leaders-move", False),
    ("member-leaves", True),
    ("member-joins", True),
    ("broker-dies", False),
    ("broker-returns", False),
]


def demo(*arguments: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Run the demo; return its JSON file and its standard output."""
    file = folder / "demo.json"
    completed = subprocess.run(
        [
            sys.executable,
            "-m",
            "rackward.cli.main",
            "demo",
            *QUICK,
            "--output",
            str(file),
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    document: dict[str, Any] = json.loads(file.read_text())
    return document, completed.stdout


def check_strategies(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Check what holds in every run; return the strategies by key."""
    assert document["is_optimal"] is True
    strategies = {strategy["key"]: strategy for strategy in document["strategies"]}
    assert list(strategies) == [*KAFKA_PYTHON, *RACKWARD]
    for strategy in strategies.values():
        cells = [size for row in strategy["bytes"].values() for size in row.values()]
        assert sum(cells) == strategy["total_bytes"]
        assert min(cells) >= 0
        # Each record was read once; headers and repeated reads add few bytes.
        assert 0.9 < strategy["total_bytes"] / document["produced_bytes"] < 1.4
        assert strategy["records_read"] >= 0.99 * document["produced_records"]
        assert strategy["max_partitions"] - strategy["min_partitions"] <= 1
        for step in strategy["steps"]:
            assert step["off_rack"] >= step["optimum"]
    for key in RACKWARD:
        for step in strategies[key]["steps"]:
            assert step["is_optimal"] or not step["rebalances"]
        for other in KAFKA_PYTHON:
            cross_rack_bytes = strategies[other]["cross_rack_bytes"]
            assert strategies[key]["cross_rack_bytes"] < cross_rack_bytes / 2
    return strategies


def test_all_steps_on_a_new_cluster(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    document, printed = demo("--partitions", "36", "--keep-logs", str(logs), folder=tmp_path)
    strategies = check_strategies(document)
    assert document["bytes_source"] == "brokers"
    for strategy in strategies.values():
        assert [(step["key"], step["rebalances"]) for step in strategy["steps"]] == STEPS
    start = strategies["rackward-sticky"]["steps"][0]
    assert (start["off_rack"], start["optimum"]) == (0, 0)
    assert start["cross_rack_bytes"] < 0.05 * start["total_bytes"]
    # Leader moves do not make a group rebalance.
    assert strategies["rackward-sticky"]["steps"][1]["revoked"] == 0
    assert "Optimal: after every rebalance" in printed
    assert "\x1b" not in printed
    assert sorted(file.name for file in logs.iterdir()) == [
        *(f"broker-{number}.log" for number in range(6)),
        *(f"{key}.log" for key in (*KAFKA_PYTHON, *RACKWARD)),
    ]
    assert "leader-rack-aware" in (logs / "rackward-sticky.log").read_text()


@pytest.mark.slow
def test_an_existing_cluster_is_not_changed(cluster: Cluster, tmp_path: Path) -> None:
    before = cluster.view()
    document, printed = demo("--bootstrap-server", cluster.bootstrap_servers, folder=tmp_path)
    strategies = check_strategies(document)
    assert document["bytes_source"] == "estimate"
    assert document["skipped_steps"] == ["leaders-move", "broker-dies", "broker-returns"]
    assert [step["key"] for step in strategies["kafka-python-range"]["steps"]] == [
        "start",
        "member-leaves",
        "member-joins",
    ]
    assert "estimated" in printed
    after = cluster.view()
    assert after.brokers == before.brokers
    assert {each.topic for each in after.replicas} == {each.topic for each in before.replicas}


def test_ctrl_c_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "rackward.cli.main", "demo", *QUICK],
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
