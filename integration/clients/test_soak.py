"""The checks of the soak find each kind of violation; and a short soak finds none."""

from __future__ import annotations

import pytest

from integration.clients.soak import (
    CLIENTS,
    PARTITIONS,
    RACKS,
    Faults,
    Result,
    decreases,
    problems,
    run,
    shared_partitions,
    skipped,
    table,
)
from integration.support.groups import Reads
from rackward.clusters import LocalCluster

SECONDS = 60.0


def reads(*offsets: int) -> dict[int, Reads]:
    return {0: Reads([(float(at), offset, "m") for at, offset in enumerate(offsets)])}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (reads(0, 1, 2), ""),
        (reads(0, 1, 1, 0, 1, 2), ""),
        # A member whose partition has another owner already.
        (reads(0, 1, 0, 2, 1, 2), ""),
        ({}, "3 records are not delivered"),
        (reads(0, 1), "1 records are not delivered"),
        (reads(0, 2, 1, 2), "m read 2 before 1"),
        (reads(1, 0, 1, 2), "m read 1 before 0"),
    ],
)
def test_skipped_records(seen: dict[int, Reads], expected: str) -> None:
    found = skipped({0: {0, 1, 2}}, seen)
    assert len(found) == bool(expected)
    assert expected in "".join(found)


def test_reads_are_checked_in_the_order_of_their_times() -> None:
    seen = {0: Reads([(2.0, 1, "new"), (1.0, 0, "old"), (3.0, 2, "new")])}
    assert skipped({0: {0, 1, 2}}, seen) == []


def test_committed_offsets_that_go_back() -> None:
    history = {("t", 0): [1, 2, 2, 5], ("t", 1): [1, 3, 2, 4]}
    assert decreases(history) == ["t-1: 1 committed offsets are lower than the one before"]


def test_a_partition_with_two_readers_in_a_generation() -> None:
    fine = [(4, ("t", 0), "a"), (4, ("t", 1), "b"), (5, ("t", 0), "b"), (4, ("t", 0), "a")]
    assert shared_partitions(fine) == []
    # Outside a generation nothing is known of the owners.
    assert shared_partitions([*fine, (-1, ("t", 0), "a"), (-1, ("t", 0), "b")]) == []
    found = shared_partitions([*fine, (5, ("t", 0), "a")])
    assert found == ["t-0 is read by a and b in generation 5"]


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
