"""The four charts, from plain values to Plotly's figures."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import plotly.graph_objects as go

from placement_core import parse_rack
from rack_traffic.report import format as wording
from rack_traffic.report.format import Currency, middle_cut
from rack_traffic.report.model import (
    KINDS,
    GroupTotal,
    HourTotal,
    PairTotal,
    ScenarioTotal,
    Summary,
    Traffic,
    share,
    total,
)

# ---- What all charts share: how a figure is begun, and what its colours are called.
#
# Colours are names of the page's style sheet (``var(--crossing)``), which alone knows what they are
# in light, in dark and on paper; the page's script puts in the colours before it draws. Names from
# clusters are escaped, since Plotly takes text for a subset of HTML.

INK = "var(--ink)"
MUTED = "var(--muted)"
GRID = "var(--grid)"
LOCAL = "var(--local)"
CROSSING = "var(--crossing)"
UNKNOWN = "var(--unknown)"
NEUTRAL = "var(--neutral)"
PANEL = "var(--panel)"
CLEAR = "rgba(0,0,0,0)"

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_LABEL_WIDTH = 34
_NARROW_LABEL_WIDTH = 28
_ROW = 46


def figure(height: int, **layout: Any) -> go.Figure:
    """An empty figure in the style of the page; ``layout`` adds to it."""
    made = go.Figure()
    made.update_layout(
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
    made.update_layout(**layout)
    return made


def rows_figure(labels: list[tuple[str, str]]) -> go.Figure:
    """An empty figure for horizontal bars: a name at the left and a value at the right of each row.

    Both stand above the bar, so that a phone has room for them. Row i is at y = i, from the top.
    With each value told there is no need of an axis; it begins at 0 all the same.
    """
    made = figure(
        _ROW * max(len(labels), 1) + 8,
        xaxis={
            "rangemode": "tozero",
            "visible": False,
            "fixedrange": True,
        },
        yaxis={
            "range": [len(labels) - 0.45, -0.8],
            "visible": False,
            "fixedrange": True,
        },
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        meta={"narrow": [plain(middle_cut(name, _NARROW_LABEL_WIDTH)) for name, _ in labels]},
        bargap=0.62,
    )
    for row, (name, value) in enumerate(labels):
        for text, side in ((middle_cut(name, _LABEL_WIDTH), "left"), (value, "right")):
            made.add_annotation(
                text=plain(text),
                x=0 if side == "left" else 1,
                y=row - 0.42,
                xref="paper",
                yref="y",
                xanchor=side,
                yanchor="middle",
                showarrow=False,
                borderpad=0,
                xshift=-1 if side == "left" else 1,
            )
    return made


def plain(text: str) -> str:
    """``text`` such that Plotly shows it as it is: it would show escaped quotes as written."""
    return html.escape(text, quote=False)


def as_json(made: go.Figure) -> dict[str, Any]:
    """Data and layout, for the page's script."""
    whole: dict[str, Any] = json.loads(made.to_json())
    whole["layout"].pop("template", None)
    return whole


# ---- Racks by racks, few enough to be looked at: wide levels for deep racks, "others" for many.

MOST_RACKS = 16


@dataclass(frozen=True, slots=True)
class RackGrid:
    """Traffic between the rows and columns ``racks``; None, at the end, is unknown.

    ``cells`` is keyed by (from, to). ``note`` says where a label stands for several racks.
    """

    racks: tuple[str | None, ...]
    cells: Mapping[tuple[str | None, str | None], Traffic]
    note: str | None = None

    def __getitem__(self, pair: tuple[str | None, str | None]) -> Traffic:
        return self.cells.get(pair, Traffic())


def rack_grid(pairs: Iterable[PairTotal], most: int = MOST_RACKS) -> RackGrid:
    """The grid of ``pairs``, with at most ``most`` known racks.

    Too many racks with levels are told by the deepest level at which they are few enough; failing
    that, those with the least bytes are added up as others.
    """
    pairs = list(pairs)
    sizes: dict[str, int] = {}
    for each in pairs:
        for rack in {each.from_rack, each.to_rack}:
            if rack is not None:
                sizes[rack] = sizes.get(rack, 0) + each.traffic.bytes
    labels, others, note = _labels(sizes, most)
    cells: dict[tuple[str | None, str | None], Traffic] = {}
    for each in pairs:
        key = _label(labels, each.from_rack), _label(labels, each.to_rack)
        cells[key] = cells.get(key, Traffic()) + each.traffic
    named = sorted(set(labels.values()), key=lambda label: (label == others, label))
    unknown = any(None in key for key in cells)
    return RackGrid((*named, None) if unknown else tuple(named), cells, note)


def _labels(sizes: Mapping[str, int], most: int) -> tuple[dict[str, str], str | None, str | None]:
    """The label per rack; the one that stands for the rest, where there is one; and a note."""
    if len(sizes) <= most:
        return {rack: rack for rack in sizes}, None, None
    paths = {rack: parse_rack(rack) or (rack,) for rack in sizes}
    for level in range(max(map(len, paths.values())) - 1, 0, -1):
        cut = {rack: "/" + "/".join(path[:level]) for rack, path in paths.items()}
        if 1 < len(set(cut.values())) <= most:
            names = "level" if level == 1 else f"{level} levels"
            return cut, None, f"{len(sizes):,} racks, shown by their first {names}."
    ranked = sorted(sizes, key=lambda rack: (-sizes[rack], rack))
    kept = ranked[: most - 1]
    others = f"{len(sizes) - len(kept):,} others"
    labels = {rack: rack if rack in kept else others for rack in ranked}
    note = f"{len(sizes):,} racks: the {len(kept)} with the most bytes, and the others."
    return labels, others, note


def _label(labels: Mapping[str, str], rack: str | None) -> str | None:
    return None if rack is None else labels[rack]


Measure = Literal["bytes", "cost"]

_CELL = 46
_TEXT_IN_CELLS_UP_TO = 9
_RACK_LABEL = 14
_APART = 0.35
_PICTURE = 300


def what_if_chart(scenarios: Sequence[ScenarioTotal], currency: Currency) -> dict[str, Any]:
    """Cost per month of all groups under each scenario."""
    made = rows_figure(
        [
            (
                wording.scenario_name(each.scenario),
                f"{currency.text(each.cost_per_month)}  ·  {wording.percent(each.crossing_share)}",
            )
            for each in scenarios
        ]
    )
    made.add_bar(
        orientation="h",
        x=[round(each.cost_per_month, 6) for each in scenarios],
        y=list(range(len(scenarios))),
        marker={"color": [_scenario_colour(each.scenario) for each in scenarios]},
        hoverinfo="skip",
    )
    return as_json(made)


def groups_chart(groups: Sequence[GroupTotal], currency: Currency) -> dict[str, Any]:
    """Cost per month of ``groups``: what a change leaves, and what it saves."""
    made = rows_figure([(each.group, _now_and_after(each, currency)) for each in groups])
    saved = [each.change.saving_per_month if each.change else 0.0 for each in groups]
    left = [
        max((each.cost_per_month or 0) - part, 0) for each, part in zip(groups, saved, strict=True)
    ]
    rows = list(range(len(groups)))
    for values, colour in ((left, CROSSING), (saved, LOCAL)):
        made.add_bar(
            orientation="h",
            x=[round(max(value, 0), 6) for value in values],
            y=rows,
            marker={"color": colour},
            hoverinfo="skip",
        )
    made.update_layout(barmode="stack")
    return as_json(made)


def heat_map(grid: RackGrid, measure: Measure, currency: Currency) -> dict[str, Any]:
    """From the racks of rows to the racks of columns; unknown racks apart from the known ones.

    One scale for all cells, from nothing up: blue where bytes stay in a rack, orange where they
    cross, grey where a rack is not known. Racks known are on both sides in the same order.
    """
    known = [rack for rack in grid.racks if rack is not None]
    rows = _side(known, {one for one, _ in grid.cells})
    columns = _side(known, {other for _, other in grid.cells})
    made = figure(int(_CELL * max(_end(rows, known) + 0.5, 1.5)) + 64)
    top = max((_value(traffic, measure) for traffic in grid.cells.values()), default=0)
    with_text = len(grid.racks) <= _TEXT_IN_CELLS_UP_TO

    def block(
        under: Sequence[str | None],
        over: Sequence[str | None],
        hue: str,
        keep: Literal["all", "same", "other"] = "all",
    ) -> None:
        if not under or not over:
            return
        cells = [[grid[one, other] for other in over] for one in under]
        wanted = [[_kept(one, other, keep) for other in over] for one in under]
        made.add_heatmap(
            z=[
                [_value(cell, measure) if want else None for cell, want in zip(*line, strict=True)]
                for line in zip(cells, wanted, strict=True)
            ],
            # A cell without a value would have its text drawn all the same.
            text=[
                [
                    _text(cell, measure, currency) if want else ""
                    for cell, want in zip(*line, strict=True)
                ]
                for line in zip(cells, wanted, strict=True)
            ],
            x0=_place(over[0], known, columns),
            dx=1,
            y0=_place(under[0], known, rows),
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

    down = [rack for rack in rows if rack is not None]
    across = [rack for rack in columns if rack is not None]
    block(down, across, "local", "same")
    block(down, across, "crossing", "other")
    if None in columns:
        block(down, [None], "unknown")
    if None in rows:
        block([None], across, "unknown")
    if None in rows and None in columns:
        block([None], [None], "unknown")
    made.update_xaxes(**_rack_axis(columns, known), side="top")
    made.update_xaxes(range=[-0.5, _end(columns, known)])
    made.update_yaxes(**_rack_axis(rows, known), range=[_end(rows, known), -0.5])
    return as_json(made)


def over_time(buckets: Mapping[datetime, Traffic], span: int) -> dict[str, Any]:
    """Bytes of spans of ``span`` hours, stacked: in one rack, across racks, unknown."""
    top = max((each.bytes for each in buckets.values()), default=0)
    unit, size = _unit(top)
    made = figure(
        _PICTURE,
        barmode="stack",
        bargap=0 if len(buckets) > 60 else 0.12,
        hovermode="x unified",
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
    )
    starts = [each.strftime("%Y-%m-%dT%H:%M:%S") for each in buckets]
    parts = (
        ("crosses racks", CROSSING, [each.crossing_bytes for each in buckets.values()]),
        ("in the same rack", LOCAL, [each.local_bytes for each in buckets.values()]),
        ("unknown rack", UNKNOWN, [each.unknown_bytes for each in buckets.values()]),
    )
    for name, colour, values in parts:
        marker: dict[str, Any] = {"color": colour, "line": {"width": 0}}
        if name.startswith("unknown"):
            marker["pattern"] = {"shape": "/", "fgcolor": PANEL, "size": 5, "solidity": 0.35}
        made.add_bar(
            x=starts,
            y=[float(f"{value / size:.4g}") for value in values],
            name=name,
            marker=marker,
            width=span * 3_600_000 * (1 if len(buckets) > 60 else 0.88),
            offset=0,
            hovertemplate="%{y:,.3~r} " + unit,
        )
    made.update_xaxes(
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
    made.update_yaxes(
        rangemode="tozero",
        gridcolor=GRID,
        zeroline=False,
        fixedrange=True,
        ticksuffix=f" {unit}",
        tickfont={"color": MUTED, "size": 12},
        nticks=5,
        automargin=True,
    )
    return as_json(made)


def _scenario_colour(scenario: str) -> str:
    if scenario == "as_is":
        return CROSSING
    return LOCAL if scenario.startswith("rackward") else NEUTRAL


def _now_and_after(each: GroupTotal, currency: Currency) -> str:
    now = currency.text(each.cost_per_month or 0.0)
    if each.change is None or each.change.saving_per_month <= 0:
        return now
    return f"{now} → {currency.text(each.change.cost_per_month_after)}"


def _side(known: Sequence[str], present: set[str | None]) -> list[str | None]:
    """The racks along one side: all that are known unless none of them is present there."""
    side: list[str | None] = [*known] if any(rack is not None for rack in present) else []
    return [*side, None] if None in present else side


def _rack_axis(racks: Sequence[str | None], known: Sequence[str]) -> dict[str, Any]:
    return {
        "tickmode": "array",
        "tickvals": [_place(rack, known, racks) for rack in racks],
        "ticktext": [
            plain(wording.UNKNOWN_RACK if rack is None else wording.middle_cut(rack, _RACK_LABEL))
            for rack in racks
        ],
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
        "automargin": True,
        "ticks": "",
    }


def _kept(one: str | None, other: str | None, keep: Literal["all", "same", "other"]) -> bool:
    return keep == "all" or (one == other) == (keep == "same")


def _value(traffic: Traffic, measure: Measure) -> float:
    return traffic.bytes if measure == "bytes" else round(traffic.cost, 6)


def _text(traffic: Traffic, measure: Measure, currency: Currency) -> str:
    if measure == "bytes":
        return wording.bytes_text(traffic.bytes) if traffic.bytes else "0"
    if traffic.unknown_bytes and not traffic.cost:
        return "?"
    return plain(currency.text(traffic.cost)) if traffic.cost else "0"


def _place(rack: str | None, known: Sequence[str], side: Sequence[str | None]) -> float:
    """Where a rack stands on its side: the unknown one a little apart from others."""
    if rack is not None:
        return known.index(rack)
    return len(known) + _APART if len(side) > 1 else 0


def _end(side: Sequence[str | None], known: Sequence[str]) -> float:
    """Where the last rack of a side ends."""
    return (_place(side[-1], known, side) if side else 0) + 0.5


def _unit(top: float) -> tuple[str, float]:
    """The unit in which ``top`` bytes are at least one, and its bytes."""
    text = wording.bytes_text(top).rsplit(" ", 1)[1]
    return text, 1000.0 ** ("B", "kB", "MB", "GB", "TB", "PB", "EB").index(text)


# ---- Hours put together into spans that are few enough for bars.

MOST_BARS = 180
_SPANS = (1, 3, 6, 12, 24, 7 * 24, 28 * 24)
# A Monday, so that weeks begin with one.
_ORIGIN = datetime(1969, 12, 29, tzinfo=UTC)


def span_hours(hours: Iterable[datetime], most: int = MOST_BARS) -> int:
    """The shortest span, in hours, of which at most ``most`` cover ``hours``."""
    found = list(hours)
    if not found:
        return 1
    length = (max(found) - min(found)) // timedelta(hours=1) + 1
    return next((span for span in _SPANS if length <= span * most), _SPANS[-1])


def bucketed(hours: Iterable[HourTotal], span: int) -> dict[datetime, Traffic]:
    """Traffic by the beginning of its span, in order; a span without an hour is not there."""
    found: dict[datetime, Traffic] = {}
    for each in hours:
        start = each.hour - (each.hour - _ORIGIN) % timedelta(hours=span)
        found[start] = found.get(start, Traffic()) + each.traffic
    return dict(sorted(found.items()))


def span_text(span: int) -> str:
    """Such as "hour", "6 hours", "day"."""
    if span == 1:
        return "hour"
    if span < 24:
        return f"{span} hours"
    if span == 24:
        return "day"
    return "week" if span == 7 * 24 else f"{span // (7 * 24)} weeks"


# ---- The charts and tables that the reader chooses by cluster and kind of traffic.

MOST_CLUSTERS = 12
ALL_CLUSTERS = "All clusters"
_PAIR_ROWS = 200


@dataclass(frozen=True, slots=True)
class Scopes:
    """``names`` of the choices of clusters, ``kinds`` (key and name), and ``views`` for the page's
    script: by position of the name, then by kind. ``left_out`` clusters have no view of their own.
    """

    names: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]
    views: list[dict[str, Any]]
    span: int
    left_out: int


def scopes(summary: Summary, currency: Currency) -> Scopes:
    """All views of ``summary``: for all clusters, and for each of the largest."""
    sizes = {each.cluster: 0 for each in summary.clusters}
    for pair in summary.pairs:
        sizes[pair.cluster] = sizes.get(pair.cluster, 0) + pair.traffic.bytes
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))
    shown = sorted(ranked[:MOST_CLUSTERS])
    chosen: list[Sequence[str]] = [[name] for name in shown]
    names = tuple(shown)
    if len(sizes) != 1:
        chosen.insert(0, ranked)
        names = (ALL_CLUSTERS, *names)
    kinds = [kind for kind in KINDS if summary.of_kind(kind).bytes] or [KINDS[0]]
    span = span_hours({each.hour for each in summary.hours})
    return Scopes(
        names=names,
        kinds=tuple((kind, wording.KIND_NAMES[kind]) for kind in kinds),
        views=[
            {kind: _view(summary, frozenset(clusters), kind, span, currency) for kind in kinds}
            for clusters in chosen
        ],
        span=span,
        left_out=len(ranked) - len(shown),
    )


def _view(
    summary: Summary, clusters: frozenset[str], kind: str, span: int, currency: Currency
) -> dict[str, Any]:
    pairs = [each for each in summary.pairs if each.kind == kind and each.cluster in clusters]
    hours = [each for each in summary.hours if each.kind == kind and each.cluster in clusters]
    grid = rack_grid(pairs)
    buckets = bucketed(hours, span)
    traffic = total(each.traffic for each in pairs)
    cells = sorted(
        ((key, each) for key, each in grid.cells.items() if each.bytes),
        key=lambda cell: (-cell[1].bytes, str(cell[0])),
    )
    return {
        "bytes": heat_map(grid, "bytes", currency),
        "cost": heat_map(grid, "cost", currency),
        "time": over_time(buckets, span),
        "note": grid.note or "",
        "said": (
            f"{wording.bytes_text(traffic.bytes)}: "
            f"{wording.bytes_text(traffic.local_bytes)} in the same rack, "
            f"{wording.bytes_text(traffic.crossing_bytes)} across racks, "
            f"{wording.bytes_text(traffic.unknown_bytes)} with an unknown rack"
        ),
        "pairs": [
            [
                wording.UNKNOWN_RACK if one is None else one,
                wording.UNKNOWN_RACK if other is None else other,
                wording.bytes_text(each.bytes),
                wording.percent(share(each.bytes, traffic.bytes)),
                "not known" if None in (one, other) else currency.text(each.cost),
            ]
            for (one, other), each in cells[:_PAIR_ROWS]
        ],
        "spans": [
            [
                wording.time_text(start),
                wording.bytes_text(each.local_bytes),
                wording.bytes_text(each.crossing_bytes),
                wording.bytes_text(each.unknown_bytes),
            ]
            for start, each in buckets.items()
        ],
    }
