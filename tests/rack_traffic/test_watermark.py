"""The hours that a batch of the stream closes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from rack_traffic.watermark import (
    ClosedHours,
    ClusterProgress,
    closed_hours,
    late_hours,
    needed_since,
    with_batch,
)
from tests.support.traffic_frames import frame

DELAY, GAP = timedelta(minutes=10), timedelta(hours=2)


def at(hour: int, minute: int = 0, day: int = 20) -> datetime:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


def closed(*progress: ClusterProgress) -> list[ClosedHours]:
    return closed_hours({each.cluster: each for each in progress}, DELAY, GAP)


@pytest.mark.parametrize(
    ("newest", "published_until", "expected"),
    [
        (at(9, 9), None, []),
        (at(9, 10), None, [ClosedHours("c", at(8), at(9))]),
        (at(10, 9), at(9), []),
    ],
)
def test_an_hour_closes_when_the_watermark_reaches_its_end(
    newest: datetime, published_until: datetime | None, expected: list[ClosedHours]
) -> None:
    assert closed(ClusterProgress("c", at(8, 30), newest, published_until)) == expected


@pytest.mark.parametrize(("first", "since"), [(at(3), at(12)), (at(13), at(13))])
def test_hours_that_may_have_changed_are_published_again(first: datetime, since: datetime) -> None:
    assert closed(ClusterProgress("c", first, at(15, 20), at(14))) == [
        ClosedHours("c", since, at(15))
    ]


def test_each_cluster_has_its_own_watermark() -> None:
    assert closed(
        ClusterProgress("a", at(8), at(9, 20), at(9)),
        ClusterProgress("b", at(9), at(12, 0), at(9)),
        ClusterProgress("new", at(6), at(6, 5)),
    ) == [ClosedHours("b", at(9), at(11))]


def test_a_shorter_delay_after_a_restart_leaves_no_hour_out() -> None:
    """With a delay of an hour only the hours until 14:00 were published."""
    assert closed(ClusterProgress("c", at(3), at(15, 50), at(14))) == [
        ClosedHours("c", at(12), at(15))
    ]


def test_snapshots_of_hours_that_stay_published_are_late(spark: SparkSession) -> None:
    before = {"c": ClusterProgress("c", at(3), at(15, 20), at(15), rows=5, late=1)}
    times = (at(12, 59), at(13), at(16))
    commits = frame(spark, "commits", [{"cluster": "c", "taken_at": time} for time in times])
    assert with_batch(before, commits, GAP) == {
        "c": ClusterProgress("c", at(3), at(16), at(15), rows=8, late=2)
    }


def test_snapshots_are_kept_for_the_slowest_active_cluster() -> None:
    fast = ClusterProgress("fast", at(0, day=1), at(15), at(15))
    slow = ClusterProgress("slow", at(0, day=1), at(10, day=15), at(10, day=15))
    silent = ClusterProgress("silent", at(0, day=1), at(10, day=12), at(10, day=12))
    progress = {each.cluster: each for each in (fast, slow, silent)}
    assert needed_since(progress, GAP) == at(10, day=15) - timedelta(hours=2 + 2 + 1 + 24)


def test_published_hours_of_late_flow_records_are_computed_again() -> None:
    slow = ClusterProgress("slow", at(14, 30), at(15, 20), at(15))
    fast = ClusterProgress("fast", at(0, day=1), at(18, 20), at(17))
    progress = {each.cluster: each for each in (fast, slow, ClusterProgress("n", at(3), at(3)))}
    # Those of a day before, and those that are published in any case, are not.
    times = [at(16, day=19), at(17, day=19), at(13), at(14), at(15), at(16), at(17)]
    found = late_hours(progress, [ClosedHours("fast", at(15), at(18))], times)
    assert [(each.cluster, each.since) for each in found] == [
        *(("fast", at(17, day=19)), ("fast", at(13)), ("fast", at(14))),
        ("slow", at(14)),
    ]
