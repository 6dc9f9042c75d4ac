"""The results file, its tables, memory, and what counts as an effect of a fault: pure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from integration.chaos.effects import (
    check_signalled,
    delayed_packets,
    dropped_packets,
    process_state,
)
from integration.chaos.memory import MemoryUse, grown, memory_use, resident
from integration.chaos.results import COLUMNS, Results
from integration.chaos.run import Outcome
from integration.chaos.scenarios import SCENARIOS, soak
from integration.support.process_clients import SOURCES

OUTCOME = Outcome(
    "zombie",
    "mixed",
    delivered=90,
    repeated=3,
    commits=40,
    generations=5,
    recovered=11.04,
    violations=(),
)
MEMORY = MemoryUse("mixed: members", 12, seconds=1500.0, settled=51_200, highest=52_224)


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert Results.read(path) == Results()
    results = Results().with_outcomes([replace(OUTCOME, memory=(MEMORY,))], 7, "2026-01-02")
    results.write(path)
    Results.read(path).write(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == path.read_text()
    assert Results.read(path).tables() == Results.read(tmp_path / "again.json").tables()
    assert len(path.read_text().splitlines()) == 3


def test_only_what_is_missing_runs_again() -> None:
    results = Results().with_outcomes([OUTCOME], 7, "2026-01-02")
    assert results.missing("zombie", COLUMNS) == [name for name in COLUMNS if name != "mixed"]
    assert results.missing("rack-renamed", ["mixed"]) == ["mixed"]
    old = Results([{**each, "versions": {"kafka": "1.0"}} for each in results.outcomes])
    assert old.missing("zombie", ["mixed"]) == ["mixed"]
    newer = results.with_outcomes([replace(OUTCOME, recovered=9.0)], 8, "2026-01-03")
    assert [each["recovered"] for each in newer.outcomes] == [9.0]


def test_the_table_has_seconds_repeats_and_violations() -> None:
    wrong = replace(OUTCOME, client="java", violations=("lost",))
    results = Results().with_outcomes([OUTCOME, wrong], 7, "2026-01-02")
    lines = results.tables().splitlines()
    assert len(lines) >= len(SCENARIOS) + 2
    (zombie,) = [line for line in lines if line.startswith("| zombie |")]
    assert zombie == "| zombie | not run | not run | not run | 11.0 s, 3 | not run | 11.0 s, 3! |"
    (led,) = [line for line in lines if line.startswith("| lead-killed |")]
    assert led == "| lead-killed |  |  |  |  | not run | not run |"


def test_the_document_has_the_tables_of_the_results() -> None:
    text = (SOURCES / "docs" / "chaos.md").read_text()
    assert Results.read(SOURCES / "integration" / "chaos" / "results.json").tables() in text


def test_memory_of_the_soak_is_in_a_table() -> None:
    lead = replace(MEMORY, name="mixed: rackward lead", processes=1, highest=61_440)
    soaked = replace(OUTCOME, scenario="soak", memory=(MEMORY, lead))
    text = Results().with_outcomes([soaked], 7, "2026-01-02").tables()
    assert "| mixed: members | 12 | 25 | 50 | 51 | 2.0% |" in text
    assert "| mixed: rackward lead | 1 | 25 | 50 | 60 | 20.0% |" in text


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        # A sample each 100 s.
        ([10, 20, 30, 100, 100, 105], None),
        ([10, 100, 30, 30, 110, 100], None),
        ([10, 20, 30, 100, 111, 100], "m grew from 100 KiB until 300 s to 111 KiB (1.11 times)"),
        # They did not run for longer than they may grow.
        ([10, 20, 30, 100], None),
        ([10, 2000], None),
    ],
)
def test_memory_that_grows(sizes: list[int], expected: str | None) -> None:
    use = memory_use("m", [(50.0 + 100 * index, 7, size) for index, size in enumerate(sizes)])
    found = grown([] if use is None else [use])
    assert len(found) == (expected is not None)
    assert found == [] or found[0].startswith(str(expected))


def test_memory_is_that_of_the_largest_process() -> None:
    first = [(float(at), 7, 100) for at in range(0, 400, 100)]
    second = [(float(at), 8, 40 + at) for at in range(300, 1500, 10)]
    use = memory_use("m", sorted(first + second))
    # The second process grows by 1 KiB a second, and is the larger one from 60 s on.
    assert use == MemoryUse("m", 2, 1490.0, 340, 1530)


def test_resident_memory_of_this_process() -> None:
    size = resident(os.getpid())
    assert size is not None
    assert size > 10_000


def test_signals_take_effect() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL):
            process.send_signal(number)
            check_signalled(process.pid, number, "sleep")
    finally:
        process.kill()
        process.wait()
    assert process_state(process.pid) is None


RULES = """\
Chain INPUT (policy ACCEPT 120 packets, 9000 bytes)
    pkts      bytes target     prot opt in     out     source               destination
      17     1020 DROP       0    --  *      *       172.18.0.4           0.0.0.0/0

Chain OUTPUT (policy ACCEPT 99 packets, 8000 bytes)
    pkts      bytes target     prot opt in     out     source               destination
       5      300 DROP       0    --  *      *       0.0.0.0/0            172.18.0.4
"""
LIMITED = """\
qdisc tbf 8001: root refcnt 2 rate 20Kbit burst 16Kb lat 2s
 Sent 40960 bytes 97 pkt (dropped 3, overlimits 211 requeues 0)
 backlog 0b 0p requeues 0
"""
UNLIMITED = """\
qdisc noqueue 0: root refcnt 2
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
"""


def test_packets_that_a_fault_dropped_or_delayed() -> None:
    assert dropped_packets(RULES) == 22
    assert dropped_packets(RULES.replace("DROP", "ACCEPT")) is None
    assert delayed_packets(LIMITED) == 211
    assert delayed_packets(UNLIMITED) is None


def test_a_soak_repeats_with_its_seed_and_takes_its_time() -> None:
    scenario = soak(1800.0, 2000.0)
    steps = scenario.drawn(3)
    assert steps == scenario.drawn(3)
    assert steps != scenario.drawn(4)
    assert 1750 < steps[-1].at < 1850
    assert len({step.action for step in steps}) >= 10
