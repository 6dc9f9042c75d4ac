"""The group that most tests lead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.support.leading import LedGroup, led_group
from rackward.testing import Cluster


@pytest.fixture
def led(shared_three_brokers: Cluster) -> Iterator[LedGroup]:
    """A group of confluent's consumers, without members yet."""
    with led_group(shared_three_brokers) as group:
        yield group
