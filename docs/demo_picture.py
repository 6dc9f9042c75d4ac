"""Draws the picture of README from a demo: python -m docs.demo_picture demo.json docs/demo.svg

``rackward demo --output demo.json`` writes the first file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from rackward.cli.demo import DEMO_STRATEGIES, DemoResult

ROW, LEFT, BAR, WIDTH = 44, 264, 380, 904
"""Units of the SVG: the height of a row, where bars begin and how long they are, and the width."""

STYLE = """
text { font: 15px system-ui, sans-serif; fill: #1f2328 }
.note { font-size: 13px; fill: #59636e }
.local { fill: #1a7f4b }
.across { fill: #d1495b }
.on { font-size: 13px; fill: #fff }
@media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .note { fill: #9198a1 } }
"""


def picture(demo: DemoResult) -> str:
    """Return an SVG: for each strategy, the shares of bytes read in the rack and across racks."""
    parts = [
        f"<style>{STYLE}</style>",
        f'<text class="note" x="{LEFT}" y="18">What each group read, and what it costs in a month '
        f"at ${demo.price_per_gb:g} per GB</text>",
    ]
    for index, result in enumerate(demo.results):
        top, middle = index * ROW + 32, index * ROW + 52
        local = (1 - result.crossing_share) * BAR
        cost = result.cost_per_month(demo.price_per_gb)
        parts += [
            f'<text x="0" y="{middle}">{DEMO_STRATEGIES[result.strategy].title}</text>',
            f'<rect class="local" x="{LEFT}" y="{top}" width="{local:.1f}" height="30"/>',
            f'<rect class="across" x="{LEFT + local:.1f}" y="{top}" width="{BAR - local:.1f}"'
            ' height="30"/>',
            f'<text class="on" x="{LEFT + 8}" y="{middle}">'
            f"{1 - result.crossing_share:.1%} in the rack</text>",
            f'<text x="{LEFT + BAR + 12}" y="{middle}">'
            f"{result.crossing_bytes / 1e6:.1f} MB across racks, ${cost:.2f}</text>",
        ]
    height = len(demo.results) * ROW + 30
    label = "Bytes that consumer groups read in their rack and across racks"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{label}">\n' + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    demo = msgspec.json.decode(source.read_bytes(), type=DemoResult)
    target.write_text(picture(demo), encoding="utf-8")
