"""What all charts share: how a figure is begun, and what its colours are called.

Colours are names of the page's style sheet (``var(--crossing)``), which alone knows what they are
in light, in dark and on paper; the page's script puts in the colours before it draws. Names from
clusters are escaped, since Plotly takes text for a subset of HTML.
"""

from __future__ import annotations

import html
import json
from typing import Any

import plotly.graph_objects as go

from rack_traffic.report.wording import middle_cut

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
