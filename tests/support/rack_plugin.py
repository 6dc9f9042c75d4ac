"""Plug-ins that return racks: callables, and a distribution with entry points to them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from assignors.rack_discovery import SourceError
from assignors.rack_discovery.resolve import PLUGIN_GROUP

HERE = __name__
RELEASE = threading.Event()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **plugins: str) -> None:
    """Install plug-ins by name: functions of this module, or any MODULE:ATTRIBUTE."""
    info = folder / "example-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
    lines = [
        f"{name} = {target if ':' in target else f'{HERE}:{target}'}"
        for name, target in plugins.items()
    ]
    (info / "entry_points.txt").write_text("\n".join([f"[{PLUGIN_GROUP}]", *lines, ""]))
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


def raises_source_error() -> str:
    raise SourceError("is not in the inventory\n" + "x" * 5000)


def exits() -> str:
    raise SystemExit(3)


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError


def unprintable() -> str:
    raise _Unprintable


def slow() -> str:
    time.sleep(2)
    return "late"


def hangs() -> str:
    RELEASE.wait(60)
    return "far too late"
