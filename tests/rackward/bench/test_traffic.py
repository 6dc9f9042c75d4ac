"""The order in which a producer writes to partitions, and bytes by strategy and racks."""

from __future__ import annotations

from collections import Counter

import pytest

from rackward.bench.traffic import BrokerMeter, client_racks, weighted_cycle


def test_equal_weights_are_a_round() -> None:
    assert weighted_cycle([1, 1, 1]) == [0, 1, 2]


def test_each_partition_has_its_weight_and_its_turns_are_spread() -> None:
    cycle = weighted_cycle([6, 2, 1])
    assert Counter(cycle) == {0: 6, 1: 2, 2: 1}
    assert cycle == [0, 0, 1, 0, 2, 0, 0, 1, 0]


@pytest.mark.parametrize("weights", [[], [0, 1], [-1]])
def test_a_partition_without_traffic_is_an_error(weights: list[int]) -> None:
    with pytest.raises(ValueError, match="each must be at least 1"):
        weighted_cycle(weights)


# ---- Bytes by strategy and racks.


class FakeCluster:
    """A cluster with given counters."""

    def __init__(self, *readings: dict[tuple[str, int], int]) -> None:
        self._readings = list(readings)

    def bytes_out(self) -> dict[tuple[str, int], int]:
        return self._readings.pop(0)


def meter_on(*readings: dict[tuple[str, int], int]) -> BrokerMeter:
    return BrokerMeter(FakeCluster(*readings).bytes_out, {0: "a", 1: "b"})


def test_counts_from_the_first_reading() -> None:
    meter = meter_on({("range:a", 0): 100}, {("range:a", 0): 150, ("range:a", 1): 7})
    assert meter.read(["range"]) == {"range": {"a": {"a": 50, "b": 7}}}


def test_bytes_are_summed_by_strategy_and_rack() -> None:
    cluster = FakeCluster({}, {("x:a", 0): 1, ("x:a", 2): 2, ("y:a", 0): 4})
    meter = BrokerMeter(cluster.bytes_out, {0: "a", 2: "a"})
    assert meter.read(["x", "y"]) == {
        "x": {"a": {"a": 3}},
        "y": {"a": {"a": 4}},
    }


def test_the_counters_of_a_killed_broker_restart_at_zero() -> None:
    meter = meter_on(
        {("x:a", 0): 0}, {("x:a", 0): 100}, {("x:b", 1): 5}, {("x:a", 0): 130, ("x:b", 1): 5}
    )
    assert meter.read(["x"]) == {"x": {"a": {"a": 100}}}
    meter.reset_broker(0)
    assert meter.read(["x"]) == {"x": {"a": {"a": 100}, "b": {"b": 5}}}
    # The new counter exceeds the old one already, and all of it is new.
    assert meter.read(["x"]) == {"x": {"a": {"a": 230}, "b": {"b": 5}}}


def test_client_racks_of_strategies_and_racks() -> None:
    assert client_racks(["x", "y"], ["a", "b"]) == ("x:a", "x:b", "y:a", "y:b")
