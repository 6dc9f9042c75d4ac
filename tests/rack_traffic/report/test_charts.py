"""Charts contain all values, escape names, and have axes that begin at zero."""

from __future__ import annotations

from typing import Any

from rack_traffic.report import charts
from rack_traffic.report.charts import Bar, rack_grid
from rack_traffic.report.format import Currency
from rack_traffic.report.model import GroupTotal, PairTotal, Traffic
from tests.support.traffic_report import SUMMARY_START as START
from tests.support.traffic_report import change, scenario

DOLLAR = Currency("$")


def pair(one: str | None, other: str | None, size: int) -> PairTotal:
    traffic = Traffic(unknown_bytes=size)
    if one and other:
        same = one == other
        traffic = Traffic(local_bytes=size) if same else Traffic(crossing_bytes=size, cost=size)
    return PairTotal("main", "consume", one, other, traffic)


def cell_values(figure: dict[str, Any]) -> list[float]:
    return [
        value
        for trace in figure["data"]
        for row in trace["z"]
        for value in row
        if value is not None
    ]


def test_each_cell_is_drawn_once_and_unknown_racks_are_set_apart() -> None:
    pairs = [pair("a", "a", 1), pair("a", "b", 2), pair("b", None, 4), pair(None, None, 8)]
    figure = charts.heat_map(rack_grid(pairs), "bytes", DOLLAR)
    assert sorted(each for each in cell_values(figure) if each) == [1, 2, 4, 8]
    assert len(cell_values(figure)) == 9
    texts = [text for trace in figure["data"] for row in trace["text"] for text in row if text]
    assert sorted(texts) == ["0"] * 5 + ["1 B", "2 B", "4 B", "8 B"]
    ticks = figure["layout"]["xaxis"]
    assert ticks["ticktext"] == ["a", "b", "unknown"]
    assert ticks["tickvals"][2] - ticks["tickvals"][1] > 1
    assert {(trace["zmin"], trace["zmax"]) for trace in figure["data"]} == {(0, 8)}


def test_without_unknown_racks_there_is_no_row_or_column_for_them() -> None:
    figure = charts.heat_map(rack_grid([pair("a", "b", 1)]), "cost", DOLLAR)
    assert figure["layout"]["xaxis"]["ticktext"] == ["a", "b"]
    only_unknown = charts.heat_map(rack_grid([pair(None, None, 5)]), "cost", DOLLAR)
    assert only_unknown["layout"]["xaxis"]["ticktext"] == ["unknown"]
    assert only_unknown["data"][0]["text"] == [["?"]]
    assert charts.heat_map(rack_grid([]), "bytes", DOLLAR)["data"] == []
    produced = charts.heat_map(rack_grid([pair(None, "a", 1), pair(None, "b", 2)]), "bytes", DOLLAR)
    assert cell_values(produced) == [1, 2]
    assert produced["layout"]["yaxis"]["ticktext"] == ["unknown"]
    assert produced["layout"]["xaxis"]["ticktext"] == ["a", "b"]


def test_bars_over_time_start_at_zero_and_add_up() -> None:
    buckets = {START: Traffic(2_000_000, 3_000_000, 1_000_000)}
    figure = charts.over_time(buckets, 1)
    assert figure["layout"]["barmode"] == "stack"
    assert figure["layout"]["yaxis"]["rangemode"] == "tozero"
    assert figure["layout"]["yaxis"]["ticksuffix"] == " MB"
    assert {trace["name"]: trace["y"] for trace in figure["data"]} == {
        "unknown rack": [1.0],
        "across racks": [3.0],
        "in the same rack": [2.0],
    }


def test_bars_of_scenarios_are_parts_of_the_longest() -> None:
    scenarios = [scenario("as_is", 80.0), scenario("rackward_range", 4.0), scenario("new_one", 0)]
    assert charts.scenario_bars(scenarios, DOLLAR) == [
        Bar("Current assignment", "$80.00 · 44.4 %", (("crossing", 100.0),)),
        Bar("rackward Range", "$4.00 · 3.8 %", (("local", 5.0),)),
        Bar("new one", "$0.00 · 0 %", (("neutral", 0.0),)),
    ]
    (bar,) = charts.scenario_bars([scenario("as_is", 0.0)], DOLLAR)
    assert bar.parts == (("crossing", 0.0),)


def test_bars_of_groups_have_what_remains_and_what_is_saved() -> None:
    groups = [
        GroupTotal("east", "billing", Traffic(1), 200.0),
        GroupTotal("west", "billing", Traffic(1), 100.0, change(75.0)),
        # A leader layout for several groups may cost one of them more.
        GroupTotal("west", "ledger", Traffic(1), 20.0, change(-5.0, now=20.0)),
    ]
    assert charts.group_bars(groups, DOLLAR, several_clusters=True) == [
        Bar("east / billing", "$200", (("crossing", 100.0), ("local", 0.0))),
        Bar("west / billing", "$100 → $25.00", (("crossing", 12.5), ("local", 37.5))),
        Bar("west / ledger", "$20.00", (("crossing", 10.0), ("local", 0.0))),
    ]


def test_markup_in_names_is_escaped() -> None:
    name = "<a href='https://x.example'>b</a>"
    heat = charts.heat_map(rack_grid([pair(name[:13], "b", 1)]), "bytes", DOLLAR)
    assert "<a" not in str(heat["layout"])
    assert "&lt;a" in str(heat["layout"])
    cost = charts.heat_map(rack_grid([pair("a", "b", 1)]), "cost", Currency("<b>"))
    assert "&lt;b&gt;" in str(cost["data"])
    assert "<b>1" not in str(cost["data"])


def test_quotes_in_names_are_shown_as_quotes() -> None:
    """Plotly unescapes &lt; and &amp;, but not &quot;."""
    heat = charts.heat_map(rack_grid([pair("\"a\" & 'b'", "c", 1)]), "bytes", DOLLAR)
    assert heat["layout"]["yaxis"]["ticktext"][0] == "\"a\" &amp; 'b'"
