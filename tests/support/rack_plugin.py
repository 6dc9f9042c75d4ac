"""Plug-ins as packages bring them: a distribution's entry points, on the path."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from assignors.rack_discovery import SourceError
from assignors.rack_discovery.resolve import GROUP

HERE = __name__
LET_GO = threading.Event()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **plugins: str) -> None:
    """Make functions of this module, or anything else, the plug-ins of those names."""
    info = folder / "someone-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: someone\nVersion: 1.0\n")
    lines = [
        f"{name} = {where if ':' in where else f'{HERE}:{where}'}"
        for name, where in plugins.items()
    ]
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))
    monkeypatch.syspath_prepend(folder)


def rack_a() -> str:
    return "a"


def rack_b() -> str:
    return " b\n"


def none() -> None:
    return None


def number() -> int:
    return 7


def empty() -> str:
    return ""


def html() -> str:
    return "<html>log in</html>"


def fails() -> str:
    raise ZeroDivisionError("planted\nin two lines")


def refuses() -> str:
    raise SourceError("is not in the inventory\n" + "x" * 5000)


def leaves() -> str:
    raise SystemExit(3)


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError


def unspeakable() -> str:
    raise _Unspeakable


def slow() -> str:
    time.sleep(2)
    return "late"


def hangs() -> str:
    LET_GO.wait(60)
    return "far too late"
