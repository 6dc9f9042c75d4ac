"""Plots as SVG: bars of bytes across racks, and lines over the steps of a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

ROW = 22
NAMES = 330
BARS = 420
VALUES = 70
TOP = 34
BOTTOM = 16

_STYLE = """<style>
text { font: 13px sans-serif; fill: #1f2328 }
.title { font-weight: bold } .value { font-size: 12px } .axis { font-size: 11px; fill: #57606a }
.rackward { fill: #1a7f37; stroke: #1a7f37 } .peer { fill: #bf5b16; stroke: #bf5b16 }
.line { fill: none; stroke-width: 2 } .mark { stroke: #1f2328; stroke-width: 2 }
.grid { stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .axis { fill: #9198a1 } .mark { stroke: #e6edf3 } .grid { stroke: #3d444d }
.rackward { fill: #3fb950; stroke: #3fb950 } .peer { fill: #f0883e; stroke: #f0883e }
}
</style>"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A strategy's share (0 to 1) of bytes across racks: mean, minimum, maximum, and predicted."""

    name: str
    share: float
    low: float
    high: float
    predicted: float
    is_rackward: bool


def bar_plot(title: str, bars: Sequence[Bar]) -> str:
    """Return a plot of shares, with a mark where the prediction is."""
    height = TOP + ROW * len(bars) + BOTTOM
    longest = max([0.1, *(max(bar.high, bar.predicted) for bar in bars)])
    scale = BARS / longest
    parts = [f'<text class="title" x="8" y="18">{escape(title)}</text>']
    for index, bar in enumerate(bars):
        top = TOP + ROW * index
        middle = top + ROW / 2
        kind = "rackward" if bar.is_rackward else "peer"
        width = max(1.0, bar.share * scale)
        mark = NAMES + bar.predicted * scale
        parts += [
            f'<text x="{NAMES - 8}" y="{middle + 4:g}" text-anchor="end">{escape(bar.name)}</text>',
            f'<rect class="{kind}" stroke="none" x="{NAMES}" y="{top + 4:g}" '
            f'width="{width:.1f}" height="{ROW - 8}"/>',
            f'<line class="mark" x1="{mark:.1f}" x2="{mark:.1f}" y1="{top + 2:g}" '
            f'y2="{top + ROW - 2:g}"/>',
            f'<text class="value" x="{NAMES + max(bar.high, bar.predicted) * scale + 8:.1f}" '
            f'y="{middle + 4:g}">{bar.share:.1%}</text>',
        ]
        if bar.high > bar.low:
            parts.append(
                f'<line class="mark" x1="{NAMES + bar.low * scale:.1f}" '
                f'x2="{NAMES + bar.high * scale:.1f}" y1="{middle:g}" y2="{middle:g}"/>'
            )
    return _svg(NAMES + BARS + VALUES, height, parts)


def line_plot(
    title: str, lines: Mapping[str, Sequence[float]], rackward: Sequence[str], unit: str
) -> str:
    """Return a plot of values over steps; ``rackward`` are the names of its lines."""
    width, height, left, right = NAMES + BARS + VALUES, 320, 44, NAMES
    steps = max([2, *map(len, lines.values())])
    top = max([1.0, *(value for values in lines.values() for value in values)])
    across = (width - left - right) / (steps - 1)
    down = (height - TOP - 34) / top
    base = height - 34
    parts = [f'<text class="title" x="8" y="18">{escape(title)}</text>']
    for share in (0.0, 0.5, 1.0):
        y = base - share * top * down
        parts += [
            f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}"/>',
            f'<text class="axis" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{share * top:g}</text>",
        ]
    parts.append(
        f'<text class="axis" x="{left}" y="{height - 12}">'
        f"{escape(unit)}, by step 1 to {steps}</text>"
    )
    used: list[float] = []
    for name, values in sorted(lines.items(), key=lambda line: -line[1][-1]):
        kind = "rackward" if name in rackward else "peer"
        points = " ".join(
            f"{left + index * across:.1f},{base - value * down:.1f}"
            for index, value in enumerate(values)
        )
        label = base - values[-1] * down + 4
        # Labels do not overlap: each is below the ones before.
        label = max([label, *(y + 15 for y in used[-1:])])
        used.append(label)
        parts += [
            f'<polyline class="line {kind}" style="fill:none" points="{points}"/>',
            f'<text class="value" x="{width - right + 8}" y="{label:.1f}">{escape(name)}</text>',
        ]
    return _svg(width, max(height, int(max([0.0, *used])) + 12), parts)


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">\n{_STYLE}\n{body}\n</svg>\n'
    )
