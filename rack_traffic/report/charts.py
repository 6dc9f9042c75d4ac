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
    return f.as_json(made)


def heat_map(grid: RackGrid, measure: Measure, currency: Currency) -> dict[str, Any]:
    """From the racks of rows to the racks of columns; unknown racks apart from the known ones.

    One scale for all cells, from nothing up: blue where bytes stay in a rack, orange where they
    cross, grey where a rack is not known. Racks known are on both sides in the same order.
    """
    known = [rack for rack in grid.racks if rack is not None]
    rows = _side(known, {one for one, _ in grid.cells})
    columns = _side(known, {other for _, other in grid.cells})
    made = f.figure(int(_CELL * max(_end(rows, known) + 0.5, 1.5)) + 64)
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
            textfont={"color": f.INK},
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
        ("crosses racks", f.CROSSING, [each.crossing_bytes for each in buckets.values()]),
        ("in the same rack", f.LOCAL, [each.local_bytes for each in buckets.values()]),
        ("unknown rack", f.UNKNOWN, [each.unknown_bytes for each in buckets.values()]),
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


def _side(known: Sequence[str], present: set[str | None]) -> list[str | None]:
    """The racks along one side: all that are known unless none of them is present there."""
    side: list[str | None] = [*known] if any(rack is not None for rack in present) else []
    return [*side, None] if None in present else side


def _rack_axis(racks: Sequence[str | None], known: Sequence[str]) -> dict[str, Any]:
    return {
        "tickmode": "array",
        "tickvals": [_place(rack, known, racks) for rack in racks],
        "ticktext": [
            f.plain(wording.UNKNOWN_RACK if rack is None else wording.middle_cut(rack, _RACK_LABEL))
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
    return f.plain(currency.text(traffic.cost)) if traffic.cost else "0"


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
