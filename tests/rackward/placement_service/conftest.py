"""What tests of the placement service share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.placement_server import Gate


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()
