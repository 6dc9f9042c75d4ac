"""Paths and functions that CONTRIBUTING.md names exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGES = ("placement_core", "assignors", "partitioners", "rack_traffic", "rackward")


def test_paths_in_the_text_exist() -> None:
    paths = set(re.findall(r"`((?:\.ci|[a-z_]+)/[a-zA-Z_./]*)`", TEXT))
    paths |= set(re.findall(r"pytest (\S+)", TEXT))
    assert len(paths) > 15
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_functions_in_the_text_exist() -> None:
    names = set(re.findall(r"`(?:[A-Za-z]+\.)?([a-z_]+)\(\)`", TEXT))
    assert len(names) > 20
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    )
    assert [name for name in sorted(names) if f"def {name}(" not in source] == []
