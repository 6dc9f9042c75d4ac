"""Charts contain all values, have axes that begin at zero, and a limited size."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rack_traffic.report.charts import (
    BAR_WIDTH,
    MAX_BARS,
    MAX_RACKS,
    Bar,
    TimeChart,
    bar_text,
    group_bars,
    heat_map,
    hours_per_bar,
    over_time,
    scenario_bars,
    sum_by_bar,
)
from rack_traffic.report.format import Currency
from rack_traffic.report.model import GroupTotal, HourTotal, PairTotal, Traffic, total
from tests.support.traffic_report import START, change, scenario

DOLLAR = Currency("$")
HOUR = timedelta(hours=1)


def pair(one: str | None, other: str | None, size: int) -> PairTotal:
    traffic = Traffic(unknown_bytes=size)
    if one and other:
        same = one == other
        traffic = Traffic(local_bytes=size) if same else Traffic(crossing_bytes=size, cost=size)
    return PairTotal("main", "consume", one, other, traffic)


def test_heat_map_has_a_cell_per_pair_of_racks() -> None:
    pairs = [pair("a", "a", 1), pair("a", "b", 2), pair("b", None, 4), pair(None, None, 8)]
    heat = heat_map(pairs, DOLLAR)
    assert heat.columns == ("a", "b", "unknown")
    cells = [[(each.style, each.bytes_share, each.bytes) for each in row] for _, row in heat.rows]
    assert cells == [
        [("local", 12.5, "1 B"), ("crossing", 25.0, "2 B"), ("unknown", 0.0, "0")],
        [("crossing", 0.0, "0"), ("local", 0.0, "0"), ("unknown", 50.0, "4 B")],
        [("unknown", 0.0, "0"), ("unknown", 0.0, "0"), ("unknown", 100.0, "8 B")],
    ]
    assert [name for name, _ in heat.rows] == ["a", "b", "unknown"]
    (_, row), *_ = heat.rows
    assert (row[1].cost, row[1].cost_share) == ("$2.00", 100.0)
    assert row[1].description == "from a to b: 2 B (13.3 %), cost $2.00"


def test_heat_map_has_no_line_for_absent_racks() -> None:
    produced = heat_map([pair(None, "a", 1), pair(None, "b", 2)], DOLLAR)
    assert produced.columns == ("a", "b")
    assert [name for name, _ in produced.rows] == ["unknown"]
    unknown = heat_map([pair(None, None, 5)], DOLLAR)
    assert unknown.rows[0][1][0].cost == "?"
    assert heat_map([], DOLLAR).rows == ()


def test_plain_racks_beyond_the_limit_are_added_up() -> None:
    pairs = [pair(f"r{n}", f"r{(n + 1) % 40}", n + 1) for n in range(40)]
    heat = heat_map([*pairs, pair(None, "r1", 3)], DOLLAR)
    names = [name for name, _ in heat.rows]
    assert len(names) == MAX_RACKS + 1
    assert names[-2:] == ["25 others", "unknown"]
    # Of 0 + 1 + ... + 25 bytes between the others, and 3 of the unknown rack.
    assert heat.rows[-2][1][-1].bytes == "300 B"
    assert heat.rows[-1][1][-1].bytes == "3 B"
    assert heat.note == "40 racks: the 15 with the most bytes, and the sum of the others."


def test_racks_with_levels_beyond_the_limit_are_added_by_level() -> None:
    racks = [f"/dc{d}/room{m}/r{r}" for d in range(2) for m in range(3) for r in range(5)]
    heat = heat_map([pair(one, other, 1) for one in racks for other in racks], DOLLAR)
    assert heat.columns == tuple(f"/dc{d}/room{m}" for d in range(2) for m in range(3))
    assert heat.note == "30 racks, grouped by their first 2 levels."
    assert heat.rows[0][1][0].bytes == "25 B"


def drawn(chart: TimeChart | None) -> TimeChart:
    assert chart is not None
    return chart


def test_bars_over_time_are_stacked_from_zero() -> None:
    chart = drawn(over_time({START: Traffic(2_000_000, 5_000_000, 1_000_000)}, 1))
    assert chart.marks == (
        (0.0, "0 B"), (25.0, "2.00 MB"), (50.0, "4.00 MB"), (75.0, "6.00 MB"), (100.0, "8.00 MB"),
    )  # fmt: skip
    assert dict(chart.paths) == {
        "crossing": "M0 1000h9v-625h-9z",
        "local": "M0 375h9v-250h-9z",
        "unknown": "M0 125h9v-125h-9z",
    }
    assert chart.bars == (
        (0, "Sat 2026-11-14 00:00: 5.00 MB across racks, 2.00 MB in the same rack, "
            "1.00 MB unknown"),
    )  # fmt: skip
    assert over_time({}, 1) is None


def test_times_without_snapshots_have_no_bar() -> None:
    chart = drawn(over_time({START: Traffic(1), START + 3 * HOUR: Traffic(0)}, 1))
    assert chart.width == 4 * BAR_WIDTH
    assert [left for left, _ in chart.bars] == [0, 3 * BAR_WIDTH]
    assert [place for place, _ in chart.times] == [0, 25, 50, 75]
    assert chart.bars[1][1].endswith("nothing")


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
    moments = [START + hour * HOUR for hour in range(hours)]
    assert hours_per_bar(moments) == per_bar
    assert bar_text(per_bar) == text
    bars = sum_by_bar([HourTotal("main", "consume", each, Traffic(1)) for each in moments], per_bar)
    assert len(bars) <= MAX_BARS + 1
    assert total(bars.values()).bytes == hours
    assert list(bars) == sorted(bars)


def test_weeks_begin_on_mondays() -> None:
    hour = datetime(2026, 11, 21, 13, tzinfo=UTC)
    totals = [HourTotal("m", "consume", each, Traffic(1)) for each in (hour, hour + timedelta(21))]
    assert [each.strftime("%A") for each in sum_by_bar(totals, 168)] == ["Monday", "Monday"]


def test_bars_of_scenarios_are_parts_of_the_longest() -> None:
    scenarios = [scenario("as_is", 80.0), scenario("rackward_range", 4.0), scenario("new_one", 0)]
    assert scenario_bars(scenarios, DOLLAR) == [
        Bar("Current assignment", "$80.00 · 44.4 %", (("crossing", 100.0),)),
        Bar("rackward Range", "$4.00 · 3.8 %", (("local", 5.0),)),
        Bar("new one", "$0.00 · 0 %", (("neutral", 0.0),)),
    ]
    (bar,) = scenario_bars([scenario("as_is", 0.0)], DOLLAR)
    assert bar.parts == (("crossing", 0.0),)


def test_bars_of_groups_show_what_remains_and_what_is_saved() -> None:
    groups = [
        GroupTotal("east", "billing", Traffic(1), 200.0),
        GroupTotal("west", "billing", Traffic(1), 100.0, change(75.0)),
        # A leader layout for several groups may cost one of them more.
        GroupTotal("west", "ledger", Traffic(1), 20.0, change(-5.0, now=20.0)),
    ]
    assert group_bars(groups, DOLLAR, several_clusters=True) == [
        Bar("east / billing", "$200", (("crossing", 100.0), ("local", 0.0))),
        Bar("west / billing", "$100 → $25.00", (("crossing", 12.5), ("local", 37.5))),
        Bar("west / ledger", "$20.00", (("crossing", 10.0), ("local", 0.0))),
    ]
