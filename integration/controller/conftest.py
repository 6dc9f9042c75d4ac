"""The cluster of the controllers' tests."""

from __future__ import annotations

import pytest

from rackward.testing import Cluster


@pytest.fixture
def cluster(three_brokers: Cluster) -> Cluster:
    """Brokers 0, 1 and 2 in racks a, b and c, all of which run again after each test."""
    return three_brokers
