"""Short scenarios with one group of all three libraries; ``make chaos`` runs all, for each client.

Deterministic ones: the faults are at fixed times, and nothing depends on who leads the group.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.chaos.run import CLUSTER_PROPERTIES, run
from integration.chaos.scenarios import SCENARIOS
from integration.chaos.workload import RACKS
from rackward.testing import LocalCluster

SEED = 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers and three controllers."""
    with LocalCluster(RACKS, server_properties=CLUSTER_PROPERTIES, controllers=3) as cluster:
        yield cluster


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name",
    [
        "member-killed-manual-commits",
        "coordinator-killed-manual-commits",
        "controller-failover",
        # The last one: the racks of the brokers are no longer those of the members.
        "rack-renamed",
    ],
)
def test_scenario(cluster: LocalCluster, name: str) -> None:
    (outcome,) = run(cluster, SCENARIOS[name], seed=SEED, groups=["mixed"], report=print)
    assert outcome.violations == ()
    assert outcome.delivered > 0
    assert outcome.commits > 0
    assert outcome.generations > 0
