"""Racks out of plug-ins, good ones and others."""

from __future__ import annotations

from pathlib import Path

import pytest

import assignors.discovery.plugins
from assignors.discovery.plugins import installed_plugins
from tests.assignors.discovery.patience import search_patiently
from tests.assignors.discovery.plugged import HERE, install


def test_they_are_asked_by_name_until_one_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, zz="rack_a", bb="none", cc="rack_b", aa="fails")
    found = search_patiently(installed_plugins())
    assert (found.rack, found.source) == ("b", f"plug-in cc ({HERE}:rack_b)")
    assert found.silent == (f"plug-in bb ({HERE}:none)",)
    assert [failure.source for failure in found.failures] == [f"plug-in aa ({HERE}:fails)"]


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        ("number", "answered int where a string is needed"),
        ("empty", "answered nothing"),
        ("html", "answered with what looks like a page or a document"),
        ("fails", r"failed: ZeroDivisionError: planted\nin two lines"),
        ("refuses", "is not in the inventory\\n" + "x" * 472 + "..."),
        ("leaves", "failed: SystemExit: 3"),
        ("unspeakable", f"failed: {HERE}._Unspeakable: <exception str() failed>"),
        ("no.such:thing", "failed: ModuleNotFoundError: No module named 'no'"),
        (f"{HERE}:nothing", f"failed: AttributeError: module '{HERE}' has no attribute 'nothing'"),
        (f"{HERE}:HERE", "failed: TypeError: 'str' object is not callable"),
    ],
)
def test_whatever_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: str, why: str
) -> None:
    install(tmp_path, monkeypatch, odd=plugin)
    (failure,) = search_patiently(installed_plugins()).failures
    assert failure.why == why


def test_plugins_that_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(**_: str) -> None:
        raise ValueError("line 3 of entry_points.txt")

    monkeypatch.setattr(assignors.discovery.plugins, "entry_points", entry_points)
    (failure,) = search_patiently(installed_plugins()).failures
    assert failure.source == "plug-ins of rackward.racks"
    assert "line 3" in failure.why
