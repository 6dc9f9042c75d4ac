"""Names that packages import when they are first used."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from placement_core.lazy_exports import lazy_exports


def test_a_name_is_imported_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("lazy_package")
    part = ModuleType("lazy_package.part")
    part.__dict__["answer"] = 42
    monkeypatch.setitem(sys.modules, package.__name__, package)
    package.__dict__["__getattr__"] = lazy_exports(
        package.__name__, {"lazy_package.part": ["answer", "missing"], "lazy_package.none": ["x"]}
    )
    with pytest.raises(ModuleNotFoundError):
        package.__getattr__("answer")
    monkeypatch.setitem(sys.modules, part.__name__, part)
    assert "answer" not in vars(package)
    assert package.answer == 42
    # Later uses need no import.
    assert vars(package)["answer"] == 42
    with pytest.raises(AttributeError, match="'lazy_package' has no attribute 'other'"):
        package.__getattr__("other")
    with pytest.raises(AttributeError):
        package.__getattr__("missing")
