"""What a command prints, as text."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console


def rendered(show: Callable[[Console], object], width: int = 80) -> str:
    """Return what ``show`` prints to a console of that width."""
    out = io.StringIO()
    show(Console(file=out, width=width, highlight=False, markup=False, color_system=None))
    return out.getvalue()
