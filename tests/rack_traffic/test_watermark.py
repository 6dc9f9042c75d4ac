"""When a stream may publish an hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rack_traffic.stream import Closing, closings, final_before

DELAY, GAP = timedelta(minutes=10), timedelta(hours=2)


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, 2, hour, minute, tzinfo=UTC)


def test_an_hour_closes_once_the_watermark_has_passed_it() -> None:
    first = {"c": at(8, 30)}
    assert closings({}, {"c": at(9, 9)}, first, DELAY, GAP) == []
    assert closings({}, {"c": at(9, 10)}, first, DELAY, GAP) == [Closing("c", at(8), at(9))]
    assert closings({"c": at(9, 10)}, {"c": at(10, 9)}, first, DELAY, GAP) == []


def test_hours_that_may_still_change_come_along() -> None:
    before, after = {"c": at(14, 20)}, {"c": at(15, 20)}
    assert closings(before, after, {"c": at(3)}, DELAY, GAP) == [Closing("c", at(12), at(15))]
    assert closings(before, after, {"c": at(13)}, DELAY, GAP) == [Closing("c", at(13), at(15))]


def test_each_cluster_has_its_own_clock() -> None:
    before = {"a": at(9, 20), "b": at(9, 20)}
    after = {"a": at(9, 20), "b": at(12, 0), "new": at(6, 5)}
    first = {"a": at(8), "b": at(9), "new": at(6)}
    assert closings(before, after, first, DELAY, GAP) == [Closing("b", at(9), at(11))]


def test_what_comes_too_late() -> None:
    assert final_before(at(15, 20), DELAY, GAP) == at(13)
