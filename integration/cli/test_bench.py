"""``rackward bench run`` on a real cluster: two strategies, a few seconds of traffic."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rackward.bench.report import prediction_error
from rackward.bench.results import ResultFolder

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

CONFIG = """
workloads = ["one-rack-leads"]
strategies = ["confluent-range", "rackward-confluent"]
seconds = 4
groups_at_once = 2
"""


def bench(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rackward.cli.main", "bench", "run", *arguments],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
        env={**os.environ, "TMPDIR": str(folder)},
    )


def test_two_strategies_are_measured_predicted_and_reported(tmp_path: Path) -> None:
    config, temporary, output = tmp_path / "bench.toml", tmp_path / "tmp", tmp_path / "results"
    config.write_text(CONFIG)
    temporary.mkdir()
    arguments = ("--config", str(config), "--output", str(output))
    done = bench(*arguments, folder=temporary)
    # A status of 1 is a check of so few bytes that contradicts; 2 would be an error.
    assert done.returncode in (0, 1), done.stderr
    assert "failed" not in done.stderr
    results = ResultFolder(output).results()
    (stock,) = results["one-rack-leads", "confluent-range"]
    (aware,) = results["one-rack-leads", "rackward-confluent"]
    for result in (stock, aware):
        # Each record was read once; few bytes are not records.
        assert result.records_read >= result.produced_bytes / 4096
        assert 0 < result.overhead < 0.1
        assert prediction_error(result) < 0.1
        assert result.partition_range == (6, 6)
    # a leads 24 of 36 partitions, and its two members read 12 of them.
    assert [step.optimum for step in aware.steps] == [12]
    assert [step.crossing for step in aware.steps] == [12]
    assert stock.steps[0].crossing > 12
    assert stock.crossing_bytes > aware.crossing_bytes
    assert "## One rack leads most" in (output / "report.md").read_text()
    # Nothing is left, and a second run has nothing to do.
    assert list(temporary.iterdir()) == []
    before = (output / "results.jsonl").read_bytes()
    again = bench(*arguments, folder=temporary)
    assert again.returncode == done.returncode, again.stderr
    assert "starting" not in again.stderr
    assert (output / "results.jsonl").read_bytes() == before
