"""The charts of the page: two lists of bars, two figures of Plotly, and the grid of racks of one.

Bars are HTML, so that long names can wrap. In figures, colours are names of the page's style sheet
(``var(--crossing)``), which defines them for light mode, dark mode and print; the page's script
inserts the colours before it draws. Names from clusters are escaped in figures, because Plotly
interprets text as a subset of HTML.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import plotly.graph_objects as go

from placement_core import parse_rack
from rack_traffic.report import format as wording
from rack_traffic.report.format import Currency
from rack_traffic.report.model import GroupTotal, PairTotal, ScenarioTotal, Traffic

# ---- Bars with a name and a value each.


@dataclass(frozen=True, slots=True)
class Bar:
    """A name, a value, and the parts of a bar: style, and length in per cent of the longest bar."""

    name: str
    value: str
    parts: tuple[tuple[str, float], ...]


def scenario_bars(scenarios: Sequence[ScenarioTotal], currency: Currency) -> list[Bar]:
    """Return a bar per scenario: the cost per month of all groups."""
    longest = max((each.cost_per_month for each in scenarios), default=0)
    return [
        Bar(
            wording.scenario_name(each.scenario),
            f"{currency.text(each.cost_per_month)} · {wording.percent(each.crossing_share)}",
            ((_scenario_style(each.scenario), _length(each.cost_per_month, longest)),),
        )
        for each in scenarios
    ]


def _scenario_style(scenario: str) -> str:
    if scenario == "as_is":
        return "crossing"
    return "local" if scenario.startswith("rackward") else "neutral"


def group_bars(
    groups: Sequence[GroupTotal], currency: Currency, *, several_clusters: bool
) -> list[Bar]:
    """Return a bar per group: the cost per month after its change, and the saving."""
    longest = max((each.cost_per_month or 0.0 for each in groups), default=0)
    bars = []
    for each in groups:
        now = each.cost_per_month or 0.0
        saved = max(each.change.saving_per_month, 0.0) if each.change else 0.0
        after = f" → {currency.text(now - saved)}" if saved else ""
        bars.append(
            Bar(
                wording.group_name(each.cluster, each.group, several_clusters),
                f"{currency.text(now)}{after}",
                (
                    ("crossing", _length(now - saved, longest)),
                    ("local", _length(saved, longest)),
                ),
            )
        )
    return bars


def _length(value: float, longest: float) -> float:
    return round(100 * max(value, 0.0) / longest, 3) if longest else 0.0


# ---- Traffic between racks as a grid that is small enough to be read.
#
# If there are too many racks, racks with levels are added up at their deepest level that gives few
# enough; other racks with the least bytes are added up as "others".

MAX_RACKS = 16


@dataclass(frozen=True, slots=True)
class RackGrid:
    """Traffic by (from, to) of ``racks``; None, the last of them, is the unknown rack.

    ``note`` is an explanation if some labels stand for several racks.
    """

    racks: tuple[str | None, ...]
    cells: Mapping[tuple[str | None, str | None], Traffic]
    note: str | None = None

    def __getitem__(self, pair: tuple[str | None, str | None]) -> Traffic:
        return self.cells.get(pair, Traffic())


def rack_grid(pairs: Iterable[PairTotal], max_racks: int = MAX_RACKS) -> RackGrid:
    """Return the grid of ``pairs`` with at most ``max_racks`` known racks."""
    pairs = list(pairs)
    sizes: dict[str, int] = {}
    for each in pairs:
        for rack in {each.from_rack, each.to_rack}:
            if rack is not None:
                sizes[rack] = sizes.get(rack, 0) + each.traffic.bytes
    labels, others, note = _labels(sizes, max_racks)
    cells: dict[tuple[str | None, str | None], Traffic] = {}
    for each in pairs:
        key = _label(labels, each.from_rack), _label(labels, each.to_rack)
        cells[key] = cells.get(key, Traffic()) + each.traffic
    named = sorted(set(labels.values()), key=lambda label: (label == others, label))
    unknown = any(None in key for key in cells)
    return RackGrid((*named, None) if unknown else tuple(named), cells, note)


def _labels(
    sizes: Mapping[str, int], max_racks: int
) -> tuple[dict[str, str], str | None, str | None]:
    """Return the label of each rack, the label of the "others" or None, and a note or None."""
    if len(sizes) <= max_racks:
        return {rack: rack for rack in sizes}, None, None
    paths = {rack: parse_rack(rack) or (rack,) for rack in sizes}
    for level in range(max(map(len, paths.values())) - 1, 0, -1):
        cut = {rack: "/" + "/".join(path[:level]) for rack, path in paths.items()}
        if 1 < len(set(cut.values())) <= max_racks:
            names = "level" if level == 1 else f"{level} levels"
            return cut, None, f"{len(sizes):,} racks, grouped by their first {names}."
    ranked = sorted(sizes, key=lambda rack: (-sizes[rack], rack))
    largest = ranked[: max_racks - 1]
    others = f"{len(sizes) - len(largest):,} others"
    labels = {rack: rack if rack in largest else others for rack in ranked}
    note = (
        f"{len(sizes):,} racks: the {len(largest)} with the most bytes, and the sum of the others."
    )
    return labels, others, note


def _label(labels: Mapping[str, str], rack: str | None) -> str | None:
    return None if rack is None else labels[rack]


INK = "var(--ink)"
MUTED = "var(--muted)"
GRID = "var(--grid)"
LOCAL = "var(--local)"
CROSSING = "var(--crossing)"
UNKNOWN = "var(--unknown)"
PANEL = "var(--panel)"
CLEAR = "rgba(0,0,0,0)"

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def figure(height: int, **layout: Any) -> go.Figure:
    """Return an empty figure in the style of the page; ``layout`` is added to its layout."""
    chart = go.Figure()
    chart.update_layout(
        template={},
        height=height,
        autosize=True,
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"family": FONT, "size": 13, "color": INK},
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        showlegend=False,
        dragmode=False,
        hoverlabel={
            "bgcolor": PANEL,
            "bordercolor": MUTED,
            "font": {"family": FONT, "size": 13, "color": INK},
            "align": "left",
        },
    )
    chart.update_layout(**layout)
    return chart


def escape(text: str) -> str:
    """Escape ``text`` for Plotly, which does not unescape quotes."""
    return html.escape(text, quote=False)


def to_json(chart: go.Figure) -> dict[str, Any]:
    """Return data and layout for the page's script."""
    whole: dict[str, Any] = json.loads(chart.to_json())
    whole["layout"].pop("template", None)
    return whole


Measure = Literal["bytes", "cost"]

_CELL = 46
_LARGE_CELL = 62
_MAX_RACKS_WITH_LARGE_CELLS = 4
_MAX_RACKS_WITH_TEXT = 9
_RACK_LABEL = 14
_GAP_BEFORE_UNKNOWN = 0.35
_TIME_CHART_HEIGHT = 300


def heat_map(grid: RackGrid, measure: Measure, currency: Currency) -> dict[str, Any]:
    """Return a heat map: traffic from the racks of the rows to the racks of the columns.

    All cells have one scale, which begins at 0: blue within a rack, orange across racks, grey for
    unknown racks, which are set apart. Known racks have the same order on both axes.
    """
    known = [rack for rack in grid.racks if rack is not None]
    rows = _side(known, {one for one, _ in grid.cells})
    columns = _side(known, {other for _, other in grid.cells})
    cell_height = _LARGE_CELL if len(known) <= _MAX_RACKS_WITH_LARGE_CELLS else _CELL
    chart = figure(int(cell_height * max(_end(rows, known) + 0.5, 1.5)) + 64)
    top = max((_value(traffic, measure) for traffic in grid.cells.values()), default=0)
    with_text = len(grid.racks) <= _MAX_RACKS_WITH_TEXT

    def block(
        from_racks: Sequence[str | None],
        to_racks: Sequence[str | None],
        hue: str,
        select: Literal["all", "same", "other"] = "all",
    ) -> None:
        if not from_racks or not to_racks:
            return
        cells = [[grid[one, other] for other in to_racks] for one in from_racks]
        wanted = [[_is_selected(one, other, select) for other in to_racks] for one in from_racks]
        chart.add_heatmap(
            z=[
                [_value(cell, measure) if want else None for cell, want in zip(*line, strict=True)]
                for line in zip(cells, wanted, strict=True)
            ],
            # Plotly draws the text of a cell even if the cell has no value.
            text=[
                [
                    _text(cell, measure, currency) if want else ""
                    for cell, want in zip(*line, strict=True)
                ]
                for line in zip(cells, wanted, strict=True)
            ],
            x0=_position(to_racks[0], known, columns),
            dx=1,
            y0=_position(from_racks[0], known, rows),
            dy=1,
            zmin=0,
            zmax=top or 1,
            xgap=3,
            ygap=3,
            colorscale=[[0, f"var(--{hue}-low)"], [1, f"var(--{hue}-high)"]],
            showscale=False,
            hoverongaps=False,
            texttemplate="%{text}" if with_text else None,
            textfont={"color": INK},
            hovertemplate="from %{y}<br>to %{x}<br><b>%{text}</b><extra></extra>",
        )

    row_racks = [rack for rack in rows if rack is not None]
    column_racks = [rack for rack in columns if rack is not None]
    block(row_racks, column_racks, "local", "same")
    block(row_racks, column_racks, "crossing", "other")
    if None in columns:
        block(row_racks, [None], "unknown")
    if None in rows:
        block([None], column_racks, "unknown")
    if None in rows and None in columns:
        block([None], [None], "unknown")
    chart.update_xaxes(**_rack_axis(columns, known), side="top")
    chart.update_xaxes(range=[-0.5, _end(columns, known)])
    chart.update_yaxes(**_rack_axis(rows, known), range=[_end(rows, known), -0.5])
    return to_json(chart)


def over_time(buckets: Mapping[datetime, Traffic], hours_per_bar: int) -> dict[str, Any]:
    """Return stacked bars of ``hours_per_bar`` hours: bytes across racks, in one rack, unknown."""
    top = max((each.bytes for each in buckets.values()), default=0)
    unit, size = _unit(top)
    chart = figure(
        _TIME_CHART_HEIGHT,
        barmode="stack",
        bargap=0 if len(buckets) > 60 else 0.12,
        hovermode="x unified",
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
    )
    starts = [each.strftime("%Y-%m-%dT%H:%M:%S") for each in buckets]
    parts = (
        ("across racks", CROSSING, [each.crossing_bytes for each in buckets.values()]),
        ("in the same rack", LOCAL, [each.local_bytes for each in buckets.values()]),
        ("unknown rack", UNKNOWN, [each.unknown_bytes for each in buckets.values()]),
    )
    for name, colour, values in parts:
        marker: dict[str, Any] = {"color": colour, "line": {"width": 0}}
        if name.startswith("unknown"):
            marker["pattern"] = {"shape": "/", "fgcolor": PANEL, "size": 5, "solidity": 0.35}
        chart.add_bar(
            x=starts,
            y=[float(f"{value / size:.4g}") for value in values],
            name=name,
            marker=marker,
            width=hours_per_bar * 3_600_000 * (1 if len(buckets) > 60 else 0.88),
            offset=0,
            hovertemplate="%{y:,.3~r} " + unit,
        )
    chart.update_xaxes(
        type="date",
        showgrid=False,
        fixedrange=True,
        tickfont={"color": MUTED, "size": 12},
        nticks=9,
        automargin=True,
        showline=True,
        linecolor=MUTED,
        hoverformat="%a %Y-%m-%d %H:%M UTC",
    )
    chart.update_yaxes(
        rangemode="tozero",
        gridcolor=GRID,
        zeroline=False,
        fixedrange=True,
        ticksuffix=f" {unit}",
        tickfont={"color": MUTED, "size": 12},
        nticks=5,
        automargin=True,
    )
    return to_json(chart)


def _side(known: Sequence[str], present: set[str | None]) -> list[str | None]:
    """Return the racks of one axis: all known ones, unless none of them is present there."""
    side: list[str | None] = [*known] if any(rack is not None for rack in present) else []
    return [*side, None] if None in present else side


def _rack_axis(racks: Sequence[str | None], known: Sequence[str]) -> dict[str, Any]:
    return {
        "tickmode": "array",
        "tickvals": [_position(rack, known, racks) for rack in racks],
        "ticktext": [
            escape(wording.UNKNOWN_RACK if rack is None else wording.cut_middle(rack, _RACK_LABEL))
            for rack in racks
        ],
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
        "automargin": True,
        # Invisible: they keep the labels off the cells.
        "ticks": "outside",
        "ticklen": 7,
        "tickcolor": CLEAR,
    }


def _is_selected(
    one: str | None, other: str | None, select: Literal["all", "same", "other"]
) -> bool:
    return select == "all" or (one == other) == (select == "same")


def _value(traffic: Traffic, measure: Measure) -> float:
    return traffic.bytes if measure == "bytes" else round(traffic.cost, 6)


def _text(traffic: Traffic, measure: Measure, currency: Currency) -> str:
    if measure == "bytes":
        return wording.bytes_text(traffic.bytes) if traffic.bytes else "0"
    if traffic.unknown_bytes and not traffic.cost:
        return "?"
    return escape(currency.text(traffic.cost)) if traffic.cost else "0"


def _position(rack: str | None, known: Sequence[str], side: Sequence[str | None]) -> float:
    """Return the position of a rack on its axis; the unknown rack is set apart."""
    if rack is not None:
        return known.index(rack)
    return len(known) + _GAP_BEFORE_UNKNOWN if len(side) > 1 else 0


def _end(side: Sequence[str | None], known: Sequence[str]) -> float:
    """Return the position at which the axis ends."""
    return (_position(side[-1], known, side) if side else 0) + 0.5


def _unit(top: float) -> tuple[str, float]:
    """Return the largest unit that ``top`` bytes reach, and its size in bytes."""
    text = wording.bytes_text(top).rsplit(" ", 1)[1]
    return text, 1000.0 ** ("B", "kB", "MB", "GB", "TB", "PB", "EB").index(text)
