"""Bytes per strategy and racks, from brokers' counters and from the growth of logs."""

from __future__ import annotations

from typing import cast

from rackward.clusters import Cluster
from rackward.demo.environment import traffic_matrix
from rackward.measurement.meter import BrokerMeter, client_racks
from tests.support.demo_results import LOCAL, TWO_OFF_RACK, snapshot

RACKS = {0: "a", 1: "b"}


class FakeCluster:
    """A cluster with given counters."""

    def __init__(self, *readings: dict[tuple[str, int], int]) -> None:
        self._readings = list(readings)

    def bytes_out(self) -> dict[tuple[str, int], int]:
        return self._readings.pop(0)


def meter_on(*readings: dict[tuple[str, int], int]) -> BrokerMeter:
    return BrokerMeter(cast("Cluster", FakeCluster(*readings)), RACKS)


def test_counts_from_the_first_reading() -> None:
    meter = meter_on({("range:a", 0): 100}, {("range:a", 0): 150, ("range:a", 1): 7})
    assert meter.read({"range": snapshot()}) == {"range": {("a", "a"): 50, ("a", "b"): 7}}


def test_bytes_are_summed_by_strategy_and_rack() -> None:
    cluster = FakeCluster({}, {("x:a", 0): 1, ("x:a", 2): 2, ("y:a", 0): 4})
    meter = BrokerMeter(cast("Cluster", cluster), {0: "a", 2: "a"})
    assert meter.read({"x": snapshot(), "y": snapshot()}) == {
        "x": {("a", "a"): 3},
        "y": {("a", "a"): 4},
    }


def test_the_counters_of_a_killed_broker_restart_at_zero() -> None:
    meter = meter_on(
        {("x:a", 0): 0}, {("x:a", 0): 100}, {("x:b", 1): 5}, {("x:a", 0): 130, ("x:b", 1): 5}
    )
    snapshots = {"x": snapshot()}
    assert meter.read(snapshots) == {"x": {("a", "a"): 100}}
    meter.reset_broker(0)
    assert meter.read(snapshots) == {"x": {("a", "a"): 100, ("b", "b"): 5}}
    # The new counter exceeds the old one already, and all of it is new.
    assert meter.read(snapshots) == {"x": {("a", "a"): 230, ("b", "b"): 5}}


def test_growth_is_attributed_to_the_racks_of_leader_and_reader() -> None:
    growth = [10, 20, 30, 40, 50, 60]
    assert traffic_matrix(growth, snapshot(LOCAL)) == {
        ("a", "a"): 50,
        ("b", "b"): 70,
        ("c", "c"): 90,
    }
    assert traffic_matrix(growth, snapshot(TWO_OFF_RACK)) == {
        ("a", "a"): 10,
        ("a", "b"): 20,
        ("b", "a"): 40,
        ("b", "b"): 50,
        ("c", "c"): 90,
    }


def test_client_racks_of_strategies_and_racks() -> None:
    assert client_racks(["x", "y"], ["a", "b"]) == ("x:a", "x:b", "y:a", "y:b")
