"""What a command prints, as text."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console

PIPE = 100_000
"""The width of what commands print where nothing wraps."""


def rendered(show: Callable[[Console], object], width: int = 80) -> str:
    """Return what ``show`` prints to a console of that width, or in a PIPE."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        soft_wrap=width == PIPE,
        highlight=False,
        markup=False,
        color_system=None,
    )
    show(console)
    return out.getvalue()
