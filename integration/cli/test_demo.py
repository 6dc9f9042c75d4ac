"""`rackward demo`, run as its users run it."""

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
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.timeout(600)

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
    """Run the demo; return its JSON and what it printed."""
    file = folder / "demo.json"
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "rackward.cli.main",
            "demo",
            *QUICK,
            "--json",
            str(file),
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    document: dict[str, Any] = json.loads(file.read_text())
    return document, ran.stdout


def check_strategies(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What holds in every run; returns the strategies by key."""
    assert document["at_optimum"] is True
    strategies = {strategy["key"]: strategy for strategy in document["strategies"]}
    assert list(strategies) == ["range", "sticky", "our-range", "our-sticky"]
    for strategy in strategies.values():
        cells = [size for row in strategy["bytes"].values() for size in row.values()]
        assert sum(cells) == strategy["total_bytes"]
        assert min(cells) >= 0
        # Everything was read once; what batches, headers and re-reading add is little.
        assert 0.9 < strategy["total_bytes"] / document["produced_bytes"] < 1.4
        assert strategy["records_read"] >= 0.99 * document["produced_records"]
        assert strategy["most_partitions"] - strategy["fewest_partitions"] <= 1
        for step in strategy["steps"]:
            assert step["off_rack"] >= step["optimum"]
    for ours in (strategies["our-range"], strategies["our-sticky"]):
        for step in ours["steps"]:
            assert step["at_optimum"] or not step["rebalances"]
        for theirs in (strategies["range"], strategies["sticky"]):
            assert ours["crossing_bytes"] < theirs["crossing_bytes"] / 2
    return strategies


def test_the_whole_story_on_a_cluster_of_its_own(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    document, printed = demo("--partitions", "36", "--keep-logs", str(logs), folder=tmp_path)
    strategies = check_strategies(document)
    assert document["bytes_counted_by"] == "brokers"
    for strategy in strategies.values():
        assert [(step["key"], step["rebalances"]) for step in strategy["steps"]] == STEPS
    start = strategies["our-sticky"]["steps"][0]
    assert (start["off_rack"], start["optimum"]) == (0, 0)
    assert start["crossing_bytes"] < 0.05 * start["total_bytes"]
    # A leader that moves makes no group rebalance.
    assert strategies["our-sticky"]["steps"][1]["interrupted"] == 0
    assert "Optimal: after every rebalance" in printed
    assert "\x1b" not in printed
    assert sorted(file.name for file in logs.iterdir()) == [
        *(f"broker-{number}.log" for number in range(6)),
        "our-range.log",
        "our-sticky.log",
        "range.log",
        "sticky.log",
    ]
    assert "leader-rack-aware" in (logs / "our-sticky.log").read_text()


@pytest.mark.slow
def test_a_cluster_that_is_there_keeps_its_brokers_and_loses_the_topic(
    cluster: Cluster, tmp_path: Path
) -> None:
    before = cluster.view()
    document, printed = demo("--bootstrap-server", cluster.bootstrap_servers, folder=tmp_path)
    strategies = check_strategies(document)
    assert document["bytes_counted_by"] == "estimate"
    assert document["left_out"] == ["leaders-move", "broker-dies", "broker-returns"]
    assert [step["key"] for step in strategies["range"]["steps"]] == [
        "start",
        "member-leaves",
        "member-joins",
    ]
    assert "estimated" in printed
    after = cluster.view()
    assert after.brokers == before.brokers
    assert {place.topic for place in after.replicas} == {place.topic for place in before.replicas}


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
            if "members form" in line:
                break
        # As a terminal does it: to the whole group of processes, and impatiently.
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors
    # The last of them end when they notice that their parent has, and are then reaped.
    wait_until(lambda: not _runs(process.pid), PATIENCE, "no process is left")
    assert list(tmp_path.iterdir()) == []


def _runs(group: int) -> bool:
    """Whether a process of this process group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
