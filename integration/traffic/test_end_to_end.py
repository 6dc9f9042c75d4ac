"""Bytes per pair of racks: computed by the pipeline, and counted by the brokers.

``python -m benchmarks.traffic_end_to_end`` does the same for three minutes on a new cluster.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.support.traffic import run
from rackward.testing import Cluster

SECONDS = 30.0
TOLERANCE = 0.05


# In containers all clients have one address, and kafka-python's own assignors send no rack.
@pytest.mark.parametrize("cluster", ["local"], indirect=True)
@pytest.mark.timeout(900)
@pytest.mark.slow
def test_the_pipeline_and_the_brokers_agree(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = run(cluster, SECONDS, tmp_path / "snapshots")
    with capsys.disabled():
        print(f"\n{figures.as_table()}")
    assert figures.unknown == 0
    assert len(figures.counted) == 9
    errors = figures.differences()
    # The built-in assignor ignores racks, so all pairs have traffic.
    assert len(errors) >= 7
    assert abs(figures.difference) <= TOLERANCE
    assert {pair: share for pair, share in errors.items() if abs(share) > TOLERANCE} == {}
    crossing = {
        group: sum(count for (one, other), count in pairs.items() if one != other)
        for group, pairs in figures.per_group.items()
    }
    assert crossing["rackward"] == 0
    assert crossing["built-in range"] > 0.3 * sum(figures.per_group["built-in range"].values())
