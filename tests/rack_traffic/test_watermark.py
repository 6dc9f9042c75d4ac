"""The hours that a batch of the stream closes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rack_traffic.stream import ClosedHours, closed_hours, late_before

DELAY, GAP = timedelta(minutes=10), timedelta(hours=2)


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, 2, hour, minute, tzinfo=UTC)


def test_an_hour_closes_when_the_watermark_reaches_its_end() -> None:
    first = {"c": at(8, 30)}
    assert closed_hours({}, {"c": at(9, 9)}, first, DELAY, GAP) == []
    assert closed_hours({}, {"c": at(9, 10)}, first, DELAY, GAP) == [ClosedHours("c", at(8), at(9))]
    assert closed_hours({"c": at(9, 10)}, {"c": at(10, 9)}, first, DELAY, GAP) == []


def test_hours_that_may_have_changed_are_published_again() -> None:
    before, after = {"c": at(14, 20)}, {"c": at(15, 20)}
    assert closed_hours(before, after, {"c": at(3)}, DELAY, GAP) == [
        ClosedHours("c", at(12), at(15))
    ]
    assert closed_hours(before, after, {"c": at(13)}, DELAY, GAP) == [
        ClosedHours("c", at(13), at(15))
    ]


def test_each_cluster_has_its_own_watermark() -> None:
    before = {"a": at(9, 20), "b": at(9, 20)}
    after = {"a": at(9, 20), "b": at(12, 0), "new": at(6, 5)}
    first = {"a": at(8), "b": at(9), "new": at(6)}
    assert closed_hours(before, after, first, DELAY, GAP) == [ClosedHours("b", at(9), at(11))]


def test_snapshots_before_the_last_published_hour_are_late() -> None:
    assert late_before(at(15, 20), DELAY, GAP) == at(13)
