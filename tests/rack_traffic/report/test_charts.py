"""What the charts are given: nothing lost, nothing read as markup, axes from zero."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rack_traffic.report import charts
from rack_traffic.report.charts import (
    MOST_BARS,
    MOST_RACKS,
    bucketed,
    rack_grid,
    span_hours,
    span_text,
)
from rack_traffic.report.format import Currency
from rack_traffic.report.model import HourTotal, PairTotal, Traffic, total
from tests.support.traffic_report import SUMMARY_START as START
from tests.support.traffic_report import change, group, scenario

DOLLAR = Currency("$")


def pair(one: str | None, other: str | None, size: int) -> PairTotal:
    traffic = Traffic(unknown_bytes=size)
    if one and other:
        same = one == other
        traffic = Traffic(local_bytes=size) if same else Traffic(crossing_bytes=size, cost=size)
    return PairTotal("main", "consume", one, other, traffic)


def shown(figure: dict[str, Any]) -> list[float]:
    return [
        value
        for trace in figure["data"]
        for row in trace["z"]
        for value in row
        if value is not None
    ]


def test_every_cell_is_drawn_once_and_unknown_racks_apart() -> None:
    pairs = [pair("a", "a", 1), pair("a", "b", 2), pair("b", None, 4), pair(None, None, 8)]
    figure = charts.heat_map(rack_grid(pairs), "bytes", DOLLAR)
    assert sorted(each for each in shown(figure) if each) == [1, 2, 4, 8]
    assert len(shown(figure)) == 9
    texts = [text for trace in figure["data"] for row in trace["text"] for text in row if text]
    assert sorted(texts) == ["0"] * 5 + ["1 B", "2 B", "4 B", "8 B"]
    ticks = figure["layout"]["xaxis"]
    assert ticks["ticktext"] == ["a", "b", "unknown"]
    assert ticks["tickvals"][2] - ticks["tickvals"][1] > 1
    assert {(trace["zmin"], trace["zmax"]) for trace in figure["data"]} == {(0, 8)}


def test_without_unknown_racks_there_is_no_place_for_them() -> None:
    figure = charts.heat_map(rack_grid([pair("a", "b", 1)]), "cost", DOLLAR)
    assert figure["layout"]["xaxis"]["ticktext"] == ["a", "b"]
    alone = charts.heat_map(rack_grid([pair(None, None, 5)]), "cost", DOLLAR)
    assert alone["layout"]["xaxis"]["ticktext"] == ["unknown"]
    assert alone["data"][0]["text"] == [["?"]]
    assert charts.heat_map(rack_grid([]), "bytes", DOLLAR)["data"] == []
    produced = charts.heat_map(rack_grid([pair(None, "a", 1), pair(None, "b", 2)]), "bytes", DOLLAR)
    assert shown(produced) == [1, 2]
    assert produced["layout"]["yaxis"]["ticktext"] == ["unknown"]
    assert produced["layout"]["xaxis"]["ticktext"] == ["a", "b"]


def test_many_opaque_racks_are_the_largest_and_the_others() -> None:
    pairs = [pair(f"r{n}", f"r{(n + 1) % 40}", n + 1) for n in range(40)]
    grid = rack_grid([*pairs, pair(None, "r1", 3)])
    assert len(grid.racks) == MOST_RACKS + 1
    assert grid.racks[-2:] == ("25 others", None)
    assert total(grid.cells.values()) == total(
        each.traffic for each in [*pairs, pair(None, "x", 3)]
    )
    assert grid.note == "40 racks: the 15 with the most bytes, and the others."


def test_many_racks_with_levels_are_told_by_the_wider_ones() -> None:
    racks = [f"/dc{d}/room{m}/r{r}" for d in range(2) for m in range(3) for r in range(5)]
    grid = rack_grid([pair(one, other, 1) for one in racks for other in racks])
    assert grid.racks == tuple(f"/dc{d}/room{m}" for d in range(2) for m in range(3))
    assert grid.note == "30 racks, shown by their first 2 levels."
    assert grid["/dc0/room0", "/dc0/room0"].bytes == 25


@pytest.mark.parametrize(
    ("hours", "span", "text"),
    [
        (1, 1, "hour"),
        (180, 1, "hour"),
        (181, 3, "3 hours"),
        (24 * 90, 12, "12 hours"),
        (24 * 180, 24, "day"),
        (24 * 700, 168, "week"),
    ],
)
def test_bars_are_few_enough_to_be_seen(hours: int, span: int, text: str) -> None:
    moments = [START + timedelta(hours=hour) for hour in range(hours)]
    assert span_hours(moments) == span
    assert span_text(span) == text
    totals = [HourTotal("main", "consume", each, Traffic(1)) for each in moments]
    found = bucketed(totals, span)
    assert len(found) <= MOST_BARS + 1
    assert total(found.values()).bytes == hours
    assert list(found) == sorted(found)


def test_weeks_begin_on_mondays_and_gaps_have_no_bar() -> None:
    hour = datetime(2026, 11, 21, 13, tzinfo=UTC)
    totals = [HourTotal("m", "consume", each, Traffic(1)) for each in (hour, hour + timedelta(21))]
    assert [each.strftime("%A") for each in bucketed(totals, 168)] == ["Monday", "Monday"]


def test_bars_over_time_start_at_zero_and_add_up() -> None:
    buckets = {START: Traffic(2_000_000, 3_000_000, 1_000_000)}
    figure = charts.over_time(buckets, 1)
    assert figure["layout"]["barmode"] == "stack"
    assert figure["layout"]["yaxis"]["rangemode"] == "tozero"
    assert figure["layout"]["yaxis"]["ticksuffix"] == " MB"
    assert {trace["name"]: trace["y"] for trace in figure["data"]} == {
        "unknown rack": [1.0],
        "crosses racks": [3.0],
        "in the same rack": [2.0],
    }


def test_bars_of_scenarios_and_groups_start_at_zero() -> None:
    scenarios = [scenario("as_is", 80.0), scenario("rackward_range", 4.0), scenario("new_one", 5)]
    figure = charts.what_if_chart(scenarios, DOLLAR)
    assert figure["data"][0]["x"] == [80.0, 4.0, 5.0]
    texts = [each["text"] for each in figure["layout"]["annotations"]]
    assert texts[::2] == ["As it is", "rackward Range", "new one"]
    costly = charts.groups_chart([group("g", Traffic(1), change(75.0))], DOLLAR)
    assert [trace["x"] for trace in costly["data"]] == [[25.0], [75.0]]
    assert [each["text"] for each in costly["layout"]["annotations"]] == ["g", "$100 → $25.00"]
    for each in (figure, costly):
        assert each["layout"]["xaxis"]["rangemode"] == "tozero"


def test_names_are_no_markup_to_plotly() -> None:
    name = "<a href='https://x.example'>b</a>"
    heat = charts.heat_map(rack_grid([pair(name[:13], "b", 1)]), "bytes", DOLLAR)
    bars = charts.groups_chart([group(name[:20], Traffic(1), change(1.0))], Currency("<b>"))
    assert "<a" not in str(heat["layout"])
    assert "<a" not in str(bars["layout"])
    assert "&lt;b&gt;" in bars["layout"]["annotations"][1]["text"]


def test_quotes_in_names_are_shown_as_quotes() -> None:
    """Plotly knows &lt; and &amp;, and shows &quot; as it is written."""
    bars = charts.groups_chart([group("say \"a\" & 'b'", Traffic(1), change(1.0))], DOLLAR)
    assert bars["layout"]["annotations"][0]["text"] == "say \"a\" &amp; 'b'"
