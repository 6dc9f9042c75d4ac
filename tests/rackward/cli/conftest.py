"""Make the output of commands independent of the terminal that the tests run in."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset COLUMNS, which pytest-xdist sets, so that output to pipes is not wrapped."""
    monkeypatch.delenv("COLUMNS", raising=False)
