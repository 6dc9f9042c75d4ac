"""Repeats and violations are reported; a short soak has none."""

from __future__ import annotations

import pytest

from integration.chaos.workload import RACKS
from integration.clients.soak import (
    CLIENTS,
    PARTITIONS,
    Faults,
    Result,
    problems,
    run,
    table,
)
from rackward.testing import LocalCluster

SECONDS = 60.0


def result(client: str, repeated: int, *violations: str) -> Result:
    return Result(client, 100, repeated, 100, {"Timeout": 2}, violations)


def test_more_repeats_than_stock() -> None:
    faults = Faults(members=3, coordinators=2)
    limit = 5 + 3 + 2 * PARTITIONS
    stock = result("stock", 5)
    assert problems([stock, result("confluent", limit)], faults) == []
    found = problems([stock, result("confluent", limit + 1)], faults)
    assert found == [
        f"confluent: repeated {limit + 1} records, stock 5, limit {limit}",
    ]
    assert problems([result("confluent", 10**6)], faults) == [], "nothing to compare with"


def test_violations_are_problems_and_are_counted() -> None:
    results = [result("stock", 0), result("aiokafka", 0, "t-0: skipped")]
    assert problems(results, Faults()) == ["aiokafka: t-0: skipped"]
    lines = table(results, Faults(members=3)).splitlines()
    assert lines[2].split() == ["aiokafka", "100", "0", "100", "2", "1"]
    assert "aiokafka: 2 commits failed with Timeout" in lines
    assert lines[-1] == "killed: 3 members of each group, 0 coordinators"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_short_soak() -> None:
    with LocalCluster(RACKS) as cluster:
        results, faults = run(cluster, seconds=SECONDS, seed=7, members=3)
    print(table(results, faults))
    assert [each.client for each in results] == list(CLIENTS)
    assert min(each.delivered for each in results) > 0
    assert min(each.commits for each in results) > 0
    assert faults.members
    assert faults.coordinators
    assert problems(results, faults) == []
