"""The four charts, from plain values to Plotly's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from rack_traffic.report import figures as f
from rack_traffic.report import wording
from rack_traffic.report.model import GroupTotal, ScenarioTotal, Traffic
from rack_traffic.report.rack_grid import RackGrid
from rack_traffic.report.wording import Currency

Measure = Literal["bytes", "cost"]

_CELL = 46
_TEXT_IN_CELLS_UP_TO = 9
_RACK_LABEL = 14
_APART = 0.35
_PICTURE = 300


def what_if_chart(scenarios: Sequence[ScenarioTotal], currency: Currency) -> dict[str, Any]:
    """Cost per month of all groups under each scenario."""
    made = f.rows_figure(
        [
            (
                wording.scenario_name(each.scenario),
                f"{currency.text(each.cost_per_month)}  ·  "
                f"{wording.percent(each.crossing_share)} crosses",
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
    made.update_xaxes(tickprefix=f.plain(currency.prefix), tickformat=",~r")
    return f.as_json(made)


def groups_chart(groups: Sequence[GroupTotal], currency: Currency) -> dict[str, Any]:
    """Cost per month of ``groups``: what a change leaves, and what it saves."""
    made = f.rows_figure([(each.group, _now_and_after(each, currency)) for each in groups])
    saved = [each.change.saving_per_month if each.change else 0.0 for each in groups]
    left = [
        max((each.cost_per_month or 0) - part, 0) for each, part in zip(groups, saved, strict=True)
    ]
    rows = list(range(len(groups)))
    for values, colour in ((left, f.CROSSING), (saved, f.LOCAL)):
        made.add_bar(
            orientation="h",
            x=[round(max(value, 0), 6) for value in values],
            y=rows,
            marker={"color": colour},
            hoverinfo="skip",
        )
    made.update_layout(barmode="stack")
    made.update_xaxes(tickprefix=f.plain(currency.prefix), tickformat=",~r")
    return f.as_json(made)


def heat_map(grid: RackGrid, measure: Measure, currency: Currency) -> dict[str, Any]:
    """From the racks of rows to the racks of columns; unknown racks apart from the known ones.

    One scale for all known cells, from nothing up: blue where a rack reads from itself, orange
    where bytes cross.
    """
    known = [rack for rack in grid.racks if rack is not None]
    unknown = len(known) < len(grid.racks)
    size = len(known) + (1 + _APART if unknown and known else len(grid.racks) - len(known))
    made = f.figure(int(_CELL * max(size, 1.5)) + 64)
    top = max((_value(grid[one, other], measure) for one in known for other in known), default=0)
    doubtful = [_value(traffic, measure) for key, traffic in grid.cells.items() if None in key]
    with_text = len(grid.racks) <= _TEXT_IN_CELLS_UP_TO

    def block(
        rows: Sequence[str | None],
        columns: Sequence[str | None],
        hue: str,
        highest: float,
        keep: Literal["all", "same", "other"] = "all",
    ) -> None:
        if not rows or not columns:
            return
        cells = [[_kept(one, other, keep) for other in columns] for one in rows]
        texts = [[_text(grid[one, other], measure, currency) for other in columns] for one in rows]
        made.add_heatmap(
            z=[
                [
                    _value(grid[one, other], measure) if wanted else None
                    for other, wanted in zip(columns, wants, strict=True)
                ]
                for one, wants in zip(rows, cells, strict=True)
            ],
            text=texts,
            x0=_place(columns[0], known),
            dx=1,
            y0=_place(rows[0], known),
            dy=1,
            zmin=0,
            zmax=highest or 1,
            xgap=3,
            ygap=3,
            colorscale=[[0, f"var(--{hue}-low)"], [1, f"var(--{hue}-high)"]],
            showscale=False,
            hoverongaps=False,
            texttemplate="%{text}" if with_text else None,
            hovertemplate="from %{y}<br>to %{x}<br><b>%{text}</b><extra></extra>",
        )

    block(known, known, "local", top, "same")
    block(known, known, "crossing", top, "other")
    if unknown:
        most = max(doubtful, default=0)
        block(known, [None], "unknown", most)
        block([None], known, "unknown", most)
        block([None], [None], "unknown", most)
    labels = [
        f.plain(wording.UNKNOWN_RACK if rack is None else wording.middle_cut(rack, _RACK_LABEL))
        for rack in grid.racks
    ]
    axis = {
        "tickmode": "array",
        "tickvals": [_place(rack, known) for rack in grid.racks],
        "ticktext": labels,
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
        "automargin": True,
        "ticks": "",
    }
    end = (_place(None, known) if unknown else len(known) - 1) + 0.5
    made.update_xaxes(**axis, side="top", range=[-0.5, end])
    made.update_yaxes(**axis, range=[end, -0.5])
    return f.as_json(made)


def over_time(buckets: Mapping[datetime, Traffic], span: int) -> dict[str, Any]:
    """Bytes of spans of ``span`` hours, stacked: in one rack, across racks, unknown."""
    top = max((each.bytes for each in buckets.values()), default=0)
    unit, size = _unit(top)
    made = f.figure(
        _PICTURE,
        barmode="stack",
        bargap=0 if len(buckets) > 60 else 0.12,
        hovermode="x unified",
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
    )
    starts = [each.strftime("%Y-%m-%dT%H:%M:%S") for each in buckets]
    parts = (
        ("unknown rack", f.UNKNOWN, [each.unknown_bytes for each in buckets.values()]),
        ("crosses racks", f.CROSSING, [each.crossing_bytes for each in buckets.values()]),
        ("in the same rack", f.LOCAL, [each.local_bytes for each in buckets.values()]),
    )
    for name, colour, values in parts:
        marker: dict[str, Any] = {"color": colour, "line": {"width": 0}}
        if name.startswith("unknown"):
            marker["pattern"] = {"shape": "/", "fgcolor": f.PANEL, "size": 5, "solidity": 0.35}
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
        tickfont={"color": f.MUTED, "size": 12},
        nticks=9,
        automargin=True,
        showline=True,
        linecolor=f.MUTED,
        hoverformat="%a %Y-%m-%d %H:%M UTC",
    )
    made.update_yaxes(
        rangemode="tozero",
        gridcolor=f.GRID,
        zeroline=False,
        fixedrange=True,
        ticksuffix=f" {unit}",
        tickfont={"color": f.MUTED, "size": 12},
        nticks=5,
        automargin=True,
    )
    return f.as_json(made)


def _scenario_colour(scenario: str) -> str:
    if scenario == "as_is":
        return f.CROSSING
    return f.LOCAL if scenario.startswith("rackward") else f.NEUTRAL


def _now_and_after(each: GroupTotal, currency: Currency) -> str:
    now = currency.text(each.cost_per_month or 0.0)
    if each.change is None or each.change.saving_per_month <= 0:
        return now
    return f"{now} → {currency.text(each.change.cost_per_month_after)}"


def _kept(one: str | None, other: str | None, keep: Literal["all", "same", "other"]) -> bool:
    return keep == "all" or (one == other) == (keep == "same")


def _value(traffic: Traffic, measure: Measure) -> float:
    return traffic.bytes if measure == "bytes" else round(traffic.cost, 6)


def _text(traffic: Traffic, measure: Measure, currency: Currency) -> str:
    if measure == "bytes":
        return wording.bytes_text(traffic.bytes) if traffic.bytes else "0"
    if traffic.unknown_bytes and not traffic.cost:
        return "?"
    return f.plain(currency.text(traffic.cost)) if traffic.cost else "0"


def _place(rack: str | None, known: Sequence[str]) -> float:
    """Where a rack stands on an axis: unknown ones a little apart."""
    if rack is not None:
        return known.index(rack)
    return len(known) + _APART if known else 0


def _unit(top: float) -> tuple[str, float]:
    """The unit in which ``top`` bytes are at least one, and its bytes."""
    text = wording.bytes_text(top).rsplit(" ", 1)[1]
    return text, 1000.0 ** ("B", "kB", "MB", "GB", "TB", "PB", "EB").index(text)
