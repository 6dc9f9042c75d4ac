"""Fixtures for tests of the placement service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

# Imported by the fixtures: a missing extra must skip tests, not break the collection.
if TYPE_CHECKING:
    from tests.support.placement_server import Gate


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Yield a gate that is open at the end."""
    from tests.support.placement_server import Gate

    gate = Gate()
    yield gate
    gate.open()
