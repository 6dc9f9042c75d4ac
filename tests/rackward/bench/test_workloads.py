"""Strategies and their batches; workloads: leaders by share, traffic by weight, events by seed."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from rackward.bench import BenchError
from rackward.bench.results import Options, ResultFolder
from rackward.bench.runner import plan_batches
from rackward.bench.strategies import STRATEGIES, Client, Producers, select_strategies
from rackward.bench.workloads import (
    RACKS,
    WORKLOADS,
    Event,
    TopicShape,
    choose_leader_moves,
    divide,
    events,
    replicas,
    select_workloads,
    traffic_weights,
)


@pytest.mark.parametrize(("size", "sizes"), [(6, [6, 6, 6, 1, 4]), (12, [9, 9, 1, 4])])
def test_a_batch_has_one_kind_of_brokers_and_leaders(
    tmp_path: Path, size: int, sizes: list[int]
) -> None:
    options = Options(workloads=["even"], groups_at_once=size)
    batches = [batch.strategies for batch in plan_batches(options, ResultFolder(tmp_path))]
    assert [len(batch) for batch in batches] == sizes
    fixed = [key for key, each in STRATEGIES.items() if each.producers is Producers.FIXED]
    assert sorted(each.key for batch in batches for each in batch) == sorted(fixed)
    for batch in batches:
        assert len({(each.leader_layout, each.follower_fetching) for each in batch}) == 1


def test_producers_that_choose_partitions_write_for_one_strategy(tmp_path: Path) -> None:
    options = Options(workloads=["producers"], groups_at_once=6)
    batches = [batch.strategies for batch in plan_batches(options, ResultFolder(tmp_path))]
    choosing = [key for key, each in STRATEGIES.items() if each.producers is not Producers.FIXED]
    assert sorted(each.key for (each,) in batches) == sorted(choosing)


def test_an_unknown_strategy_error_lists_the_known_ones() -> None:
    with pytest.raises(BenchError, match="no strategy 'javarange': give one of kafka-python-range"):
        select_strategies(["javarange"])


def test_a_selection_keeps_its_order_without_repetition() -> None:
    selected = select_strategies(["rackward-range", "java-range", "rackward-range"])
    assert [each.key for each in selected] == ["rackward-range", "java-range"]
    assert len(select_strategies(None)) == len(STRATEGIES)


@pytest.mark.parametrize(
    ("count", "shares", "parts"),
    [
        (36, (1, 1, 1), [12, 12, 12]),
        (36, (4, 1, 1), [24, 6, 6]),
        (10, (1, 1, 1), [4, 3, 3]),
        (36, (2, 1), [24, 12]),
        (2, (5, 1), [2, 0]),
    ],
)
def test_divided_by_shares(count: int, shares: tuple[int, ...], parts: list[int]) -> None:
    assert divide(count, shares) == parts


SIX_BROKERS = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
SHAPE = TopicShape("t")


@pytest.mark.parametrize("seed", range(5))
def test_leaders_are_even_and_each_rack_has_a_replica(seed: int) -> None:
    layout = replicas(SHAPE, 72, SIX_BROKERS, Random(seed))
    assert Counter(row[0] for row in layout) == dict.fromkeys(SIX_BROKERS, 12)
    for row in layout:
        assert {SIX_BROKERS[broker] for broker in row} == {"a", "b", "c"}
        assert len(row) == 3


def test_a_tenth_of_the_leaders_moves_to_replicas_in_other_racks() -> None:
    layout = replicas(SHAPE, 72, SIX_BROKERS, Random(1))
    leaders = [row[0] for row in layout]
    moves = choose_leader_moves(layout, leaders, SIX_BROKERS, 0.1, Random(1))
    assert len(moves) == 7
    for partition, broker in moves.items():
        assert broker in layout[partition]
        assert SIX_BROKERS[broker] != SIX_BROKERS[leaders[partition]]


def test_a_rack_with_more_weight_leads_more() -> None:
    racks = dict(enumerate(RACKS))
    layout = replicas(TopicShape("t", leaders={"a": 4}), 36, racks, Random(1))
    assert Counter(racks[row[0]] for row in layout) == {"a": 24, "b": 6, "c": 6}


def test_traffic_is_even_unless_the_workload_is_skewed() -> None:
    assert traffic_weights(WORKLOADS["even"], 4, Random(1)) == [1] * 4
    skewed = traffic_weights(WORKLOADS["skewed"], 36, Random(1))
    assert sorted(skewed, reverse=True)[:4] == [36, 18, 12, 9]
    assert min(skewed) == 1
    assert skewed != sorted(skewed, reverse=True)


@pytest.mark.parametrize("seed", range(20))
def test_one_member_at_most_is_away(seed: int) -> None:
    changes = [
        each for each in events(WORKLOADS["churn"], Random(seed)) if each is not Event.LEADERS_MOVE
    ]
    assert changes[:1] in ([], [Event.MEMBER_LEAVES])
    assert all(one is not other for one, other in itertools.pairwise(changes))


def test_an_unknown_workload_is_an_error() -> None:
    with pytest.raises(BenchError, match="no workload 'evn': give one of even, one-rack-leads"):
        select_workloads(["evn"])
    assert [each.key for each in select_workloads(["decay", "even"])] == ["decay", "even"]


def test_what_a_client_cannot_do_is_left_out() -> None:
    """Java's VerifiableConsumer took the names of two topics for one, and ended with an error.

    kafka-python's roundrobin raised KeyError in the leader, and the whole batch failed.
    """
    impossible = {
        (workload.key, key)
        for workload in WORKLOADS.values()
        for key, strategy in STRATEGIES.items()
        if not workload.is_possible(strategy)
        and bool(workload.writers) == (strategy.producers is not Producers.FIXED)
    }
    java = [key for key, each in STRATEGIES.items() if each.client is Client.JAVA]
    assert impossible == {("subscriptions", key) for key in [*java, "kafka-python-roundrobin"]}
