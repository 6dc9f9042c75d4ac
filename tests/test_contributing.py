"""The map of the source tree in CONTRIBUTING.md lists exactly the files there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGES = ("placement_core", "assignors", "rack_traffic", "rackward")


def listed_files() -> set[str]:
    """Return the paths in the blocks that begin with the folder of a package."""
    files = set()
    for block in re.findall(r"^```\n(\w+/ (?:.*\n)*?)```", TEXT, re.MULTILINE):
        folders: list[str] = []
        for line in block.splitlines():
            name = line.split()[0]
            depth = (len(line) - len(line.lstrip())) // 2
            if name.endswith("/"):
                folders[depth:] = [name]
            else:
                files.add("".join(folders[:depth]) + name)
    return files


def test_the_map_lists_every_source_file() -> None:
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert listed_files() == sources


def test_paths_in_the_text_exist() -> None:
    paths = set(re.findall(r"`((?:\.ci|[a-z_]+)/[a-zA-Z_./]*)`", TEXT))
    paths |= set(re.findall(r"pytest (\S+)", TEXT))
    assert len(paths) > 30
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
