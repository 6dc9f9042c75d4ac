"""Charts contain all values, escape names, and have axes that begin at zero."""

from __future__ import annotations

from typing import Any

from rack_traffic.report import charts
from rack_traffic.report.charts import rack_grid
from rack_traffic.report.format import Currency
from rack_traffic.report.model import GroupTotal, PairTotal, Traffic
from tests.support.traffic_report import SUMMARY_START as START
from tests.support.traffic_report import change, group, scenario

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


def test_bars_of_scenarios_and_groups_start_at_zero() -> None:
    scenarios = [scenario("as_is", 80.0), scenario("rackward_range", 4.0), scenario("new_one", 5)]
    figure = charts.what_if_chart(scenarios, DOLLAR)
    assert figure["data"][0]["x"] == [80.0, 4.0, 5.0]
    texts = [each["text"] for each in figure["layout"]["annotations"]]
    assert texts[::2] == ["Current assignment", "rackward Range", "new one"]
    costly = charts.groups_chart(
        [group("g", Traffic(1), change(75.0))], DOLLAR, several_clusters=False
    )
    assert [trace["x"] for trace in costly["data"]] == [[25.0], [75.0]]
    assert [each["text"] for each in costly["layout"]["annotations"]] == ["g", "$100 → $25.00"]
    for each in (figure, costly):
        assert each["layout"]["xaxis"]["rangemode"] == "tozero"


def test_groups_of_several_clusters_have_bars_with_different_names() -> None:
    groups = [GroupTotal(name, "billing", Traffic(1), 1.0) for name in ("east", "west")]
    bars = charts.groups_chart(groups, DOLLAR, several_clusters=True)
    names = [each["text"] for each in bars["layout"]["annotations"][::2]]
    assert names == ["east / billing", "west / billing"]


def test_markup_in_names_is_escaped() -> None:
    name = "<a href='https://x.example'>b</a>"
    heat = charts.heat_map(rack_grid([pair(name[:13], "b", 1)]), "bytes", DOLLAR)
    bars = charts.groups_chart(
        [group(name[:20], Traffic(1), change(1.0))], Currency("<b>"), several_clusters=False
    )
    assert "<a" not in str(heat["layout"])
    assert "<a" not in str(bars["layout"])
    assert "&lt;b&gt;" in bars["layout"]["annotations"][1]["text"]


def test_quotes_in_names_are_shown_as_quotes() -> None:
    """Plotly unescapes &lt; and &amp;, but not &quot;."""
    bars = charts.groups_chart(
        [group("say \"a\" & 'b'", Traffic(1), change(1.0))], DOLLAR, several_clusters=False
    )
    assert bars["layout"]["annotations"][0]["text"] == "say \"a\" &amp; 'b'"
