"""Bars over time: their number is limited, and they cover all hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rack_traffic.report.model import HourTotal, Traffic, total
from rack_traffic.report.page import MAX_BARS, bar_text, hours_per_bar, sum_by_bar
from tests.support.traffic_report import SUMMARY_START as START


@pytest.mark.parametrize(
    ("hours", "per_bar", "text"),
    [
        (1, 1, "hour"),
        (180, 1, "hour"),
        (181, 3, "3 hours"),
        (24 * 90, 12, "12 hours"),
        (24 * 180, 24, "day"),
        (24 * 700, 168, "week"),
    ],
)
def test_the_number_of_bars_is_limited(hours: int, per_bar: int, text: str) -> None:
    moments = [START + timedelta(hours=hour) for hour in range(hours)]
    assert hours_per_bar(moments) == per_bar
    assert bar_text(per_bar) == text
    totals = [HourTotal("main", "consume", each, Traffic(1)) for each in moments]
    bars = sum_by_bar(totals, per_bar)
    assert len(bars) <= MAX_BARS + 1
    assert total(bars.values()).bytes == hours
    assert list(bars) == sorted(bars)


def test_weeks_begin_on_mondays_and_gaps_have_no_bar() -> None:
    hour = datetime(2026, 11, 21, 13, tzinfo=UTC)
    totals = [HourTotal("m", "consume", each, Traffic(1)) for each in (hour, hour + timedelta(21))]
    assert [each.strftime("%A") for each in sum_by_bar(totals, 168)] == ["Monday", "Monday"]
