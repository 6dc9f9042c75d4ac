"""The tables of the results, memory, and what counts as an effect of a fault: pure."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

from integration.chaos.effects import (
    check_signalled,
    delayed_packets,
    dropped_packets,
    process_state,
)
from integration.chaos.memory import grown, memory_use
from integration.chaos.results import Results
from integration.chaos.scenarios import GROUPS, LED, SCENARIOS, soak
from integration.support.process_clients import SOURCES

RESULTS = Results.read(SOURCES / "integration" / "chaos" / "results.json")
DOCUMENT = (SOURCES / "docs" / "benchmarks.md").read_text()


SHOWN = [name for name in SCENARIOS if f"| {name} |" in DOCUMENT]


@pytest.mark.parametrize("scenario", SHOWN)
def test_the_document_has_the_longest_times(scenario: str) -> None:
    times = {
        outcome["client"]: outcome["recovered"]
        for outcome in RESULTS.outcomes
        if outcome["scenario"] == scenario
    }
    cells = []
    for clients in (GROUPS, LED):
        found = [times[client] for client in clients if client in times]
        cells.append(f"{max(found):.1f} s" if found else "")
    (row,) = re.findall(rf"^\| {scenario} \|.*$", DOCUMENT, re.MULTILINE)
    assert row.endswith(f"| {' | '.join(cells)} |")


def test_the_document_has_growth_of_memory_and_violations() -> None:
    growth: dict[str, list[float]] = {"members": [], "rackward lead": []}
    for outcome in RESULTS.outcomes:
        for use in outcome["memory"]:
            growth[use["name"].partition(": ")[2]].append(use["highest"] / use["settled"] - 1)
    highest = [f"{max(values) * 100:.1f} %" for values in growth.values()]
    assert " and ".join(highest) in DOCUMENT
    violations = [each for each in RESULTS.outcomes if each["violations"]]
    assert {each["client"] for each in violations} == {"stock"}
    found = [each["scenario"] for each in violations]
    assert found == ["two-racks-cut-from-each-other", "disk-full", "soak"]
    assert "Violations in two-racks-cut-from-each-other, disk-full and the soak" in DOCUMENT


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
