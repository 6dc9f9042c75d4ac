"""Prediction, latency, pauses and rebalances, from values."""

from __future__ import annotations

import pytest

from placement_core import Broker, ClusterView, TopicPartition
from rackward.bench.figures import (
    GroupState,
    bursts,
    divided_at_change,
    group_case,
    optimum,
    predicted,
    quantile,
    read_figures,
    what_if,
)
from rackward.bench.strategies import STRATEGIES
from rackward.measurement.groups import Read
from tests.support.bench_results import crossing_result, result

PARTITIONS = [TopicPartition("t", number) for number in range(3)]
VIEW = ClusterView(
    (Broker(0, "a"), Broker(1, "b")),
    dict(zip(PARTITIONS, [(0, 1), (0, 1), (1, 0)], strict=True)),
    leaders=dict(zip(PARTITIONS, [0, 0, 1], strict=True)),
)
STATE = GroupState(
    {"m-a": "a", "m-b": "b"},
    {"m-a": ("t",), "m-b": ("t",)},
    {"m-a": frozenset({0, 2}), "m-b": frozenset({1})},
)


def scenarios(strategy: str) -> dict[str, tuple[int, int]]:
    case = group_case("g", STRATEGIES[strategy], STATE, PARTITIONS, VIEW, [100, 20, 3])
    return {
        name: (each.off_rack_partitions, each.crossing_bytes)
        for name, each in what_if([case])[0].items()
    }


def test_the_assignment_as_it_is_crosses_with_the_bytes_of_its_partitions() -> None:
    found = scenarios("kafka-python-range")
    # m-b reads partition 1 from a, m-a reads partition 2 from b.
    assert found["as_is"] == (2, 23)
    # a leads two partitions and b one, and two members in balance have as many.
    assert found["rackward_cooperative_sticky"] == (0, 0)


@pytest.mark.parametrize(
    ("strategy", "crossing"),
    [
        ("kafka-python-range", 23),
        ("followers-confluent-range", 0),
        ("rackward-nearest", 0),
        ("brokers-uniform", 23),
    ],
)
def test_the_prediction_of_followers_is_that_of_their_scenario(
    strategy: str, crossing: int
) -> None:
    chosen = STRATEGIES[strategy]
    case = group_case("g", chosen, STATE, PARTITIONS, VIEW, [100, 20, 3])
    metrics = predicted(chosen, case)
    name = "follower_fetching" if crossing == 0 else "as_is"
    assert metrics.crossing_bytes == what_if([case])[0][name].crossing_bytes
    assert (metrics.bytes, metrics.crossing_bytes) == (123, crossing)
    assert (metrics.min_partitions, metrics.max_partitions) == (1, 2)


def test_a_partition_without_an_owner_crosses_nothing() -> None:
    state = GroupState(STATE.racks, STATE.topics, {"m-a": frozenset({0})})
    strategy = STRATEGIES["kafka-python-range"]
    case = group_case("g", strategy, state, PARTITIONS, VIEW, [100, 20, 3])
    assert what_if([case])[0]["as_is"].crossing_bytes == 0


def test_what_was_read_is_divided_between_the_snapshots_before_and_after() -> None:
    before = {"m-a": frozenset({0, 1}), "m-b": frozenset({4})}
    after = {"m-a": frozenset({0}), "m-b": frozenset({1, 2, 4})}
    # 0 and 4 keep their owner, 1 changes it; 2 has none at first, 3 never.
    assert divided_at_change([10, 7, 5, 6, 0], before, after) == (
        [5, 3, 0, 0, 0],
        [5, 4, 5, 6, 0],
    )
    assert divided_at_change([10, 7, 5, 6, 0], after, before)[0] == [5, 3, 5, 0, 0]


def test_the_optimum_with_equal_and_with_different_subscriptions() -> None:
    strategy = STRATEGIES["rackward-confluent"]
    case = group_case("g", strategy, STATE, PARTITIONS, VIEW, [1, 1, 1])
    assert optimum(case) == 0
    tps = [*PARTITIONS, TopicPartition("u", 0)]
    rows = {**VIEW.replicas, tps[3]: (0, 1)}
    view = ClusterView(VIEW.brokers, rows, leaders={**VIEW.known_leaders, tps[3]: 0})
    # m-b alone reads u, whose leader is in a.
    state = GroupState(STATE.racks, {"m-a": ("t",), "m-b": ("t", "u")}, STATE.assignment)
    assert optimum(group_case("g", strategy, state, tps, view, [1] * 4)) == 1


# ---- Reads.

SENT = [[10.0, 11.0, 12.0, 13.0], [10.0]]


def read(first: int, last: int, at: float, partition: int = 0) -> Read:
    return Read(partition, first, last, last - first + 1, at)


def test_latency_and_pause() -> None:
    figures = read_figures([read(0, 1, 11.5), read(0, 0, 12.0, 1), read(2, 3, 14.0)], SENT)
    assert (figures.records_read, figures.records_again) == (5, 0)
    # Latencies: 1.5, 0.5, 2.0, 2.0, 1.0.
    assert figures.latency_p50 == 1.5
    assert figures.latency_p99 == 2.0
    # Records 2 and 3 waited from 12.0, the record of the other partition from 10.0.
    assert figures.longest_pause == 2.0


def test_a_pause_begins_when_a_record_waits_not_when_none_does() -> None:
    assert read_figures([read(0, 0, 10.1), read(1, 1, 11.1)], SENT).longest_pause == (
        pytest.approx(0.1)
    )
    # Records waited all the time since the read before.
    stalled = read_figures([read(0, 0, 11.5), read(1, 3, 19.0)], SENT)
    assert stalled.longest_pause == pytest.approx(7.5)


def test_records_that_are_read_again_have_no_latency() -> None:
    figures = read_figures([read(0, 1, 11.5), read(0, 2, 50.0), read(1, 2, 60.0)], SENT)
    assert (figures.records_read, figures.records_again) == (7, 4)
    assert figures.latency_p99 == 38.0


def test_nothing_read() -> None:
    assert read_figures([], SENT).latency_p50 == 0.0


@pytest.mark.parametrize(
    ("count", "share", "value"), [(1, 0.5, 1), (2, 0.5, 1), (3, 0.5, 2), (100, 0.99, 99), (4, 1, 4)]
)
def test_quantiles(count: int, share: float, value: int) -> None:
    assert quantile(list(range(1, count + 1)), share) == value


def test_changes_in_a_burst_are_one_rebalance() -> None:
    assert bursts([1.0, 5.0, 5.5, 6.9, 9.0], since=4.0) == 2
    assert bursts([1.0], since=4.0) == 0


# ---- Results.


def test_shares_of_a_result() -> None:
    crossing = crossing_result("java-range")
    assert crossing.total_bytes == 1_010_000
    assert crossing.crossing_bytes == 605_000
    assert crossing.crossing_share == pytest.approx(605 / 1010)
    assert crossing.predicted_crossing_share == pytest.approx(0.6)
    assert crossing.overhead == pytest.approx(0.01)
    assert result(groups=2, log_bytes=500_000).overhead == pytest.approx(0.01)
