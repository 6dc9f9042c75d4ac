"""Bytes per strategy and racks, from counters that restart and from logs that grow."""

from __future__ import annotations

from typing import cast

from rackward.clusters import Cluster
from rackward.demo.environment import BrokerCounters, attribute, doors
from tests.support.demo_results import ASTRAY, LOCAL, standing

RACKS = {0: "a", 1: "b"}


class Counters:
    """The one call of a cluster that the meter makes."""

    def __init__(self, *readings: dict[tuple[str, int], int]) -> None:
        self._readings = list(readings)

    def bytes_out(self) -> dict[tuple[str, int], int]:
        return self._readings.pop(0)


def meter_on(*readings: dict[tuple[str, int], int]) -> BrokerCounters:
    return BrokerCounters(cast("Cluster", Counters(*readings)), RACKS)


def test_counts_from_where_the_counters_stood() -> None:
    meter = meter_on({("range:a", 0): 100}, {("range:a", 0): 150, ("range:a", 1): 7})
    assert meter.read({"range": standing()}) == {"range": {("a", "a"): 50, ("a", "b"): 7}}


def test_strategies_are_told_apart_and_brokers_of_a_rack_added_up() -> None:
    counters = Counters({}, {("x:a", 0): 1, ("x:a", 2): 2, ("y:a", 0): 4})
    meter = BrokerCounters(cast("Cluster", counters), {0: "a", 2: "a"})
    assert meter.read({"x": standing(), "y": standing()}) == {
        "x": {("a", "a"): 3},
        "y": {("a", "a"): 4},
    }


def test_a_killed_broker_counts_from_zero_again() -> None:
    meter = meter_on(
        {("x:a", 0): 0}, {("x:a", 0): 100}, {("x:b", 1): 5}, {("x:a", 0): 130, ("x:b", 1): 5}
    )
    x = {"x": standing()}
    assert meter.read(x) == {"x": {("a", "a"): 100}}
    meter.forget(0)
    assert meter.read(x) == {"x": {("a", "a"): 100, ("b", "b"): 5}}
    # Its new count is already higher than the old one, and still all of it is new.
    assert meter.read(x) == {"x": {("a", "a"): 230, ("b", "b"): 5}}


def test_growth_goes_from_the_leaders_rack_to_the_readers() -> None:
    grown = [10, 20, 30, 40, 50, 60]
    assert attribute(grown, standing(LOCAL)) == {("a", "a"): 50, ("b", "b"): 70, ("c", "c"): 90}
    assert attribute(grown, standing(ASTRAY)) == {
        ("a", "a"): 10,
        ("a", "b"): 20,
        ("b", "a"): 40,
        ("b", "b"): 50,
        ("c", "c"): 90,
    }


def test_doors_name_strategy_and_rack() -> None:
    assert doors(["x", "y"], ["a", "b"]) == ("x:a", "x:b", "y:a", "y:b")
