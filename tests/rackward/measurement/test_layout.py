"""Placement of replicas and leader moves of the demo's topic."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from rackward.measurement.layout import choose_leader_moves, spread_replicas

SIX_BROKERS = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}


@pytest.mark.parametrize("seed", range(5))
def test_leaders_are_even_and_each_rack_has_a_replica(seed: int) -> None:
    layout = spread_replicas(SIX_BROKERS, 72, Random(seed))
    assert Counter(replicas[0] for replicas in layout) == dict.fromkeys(SIX_BROKERS, 12)
    for replicas in layout:
        assert {SIX_BROKERS[broker] for broker in replicas} == {"a", "b", "c"}
        assert len(replicas) == 3


def test_leaders_are_not_in_step_with_partitions() -> None:
    layout = spread_replicas(SIX_BROKERS, 72, Random(1))
    assert [replicas[0] for replicas in layout] != [index % 6 for index in range(72)]


def test_the_layout_depends_on_the_seed_only() -> None:
    assert spread_replicas(SIX_BROKERS, 36, Random(1)) == spread_replicas(
        SIX_BROKERS, 36, Random(1)
    )
    assert spread_replicas(SIX_BROKERS, 36, Random(1)) != spread_replicas(
        SIX_BROKERS, 36, Random(2)
    )


def test_two_racks_have_two_replicas() -> None:
    layout = spread_replicas({1: "x", 2: "y"}, 4, Random(1))
    assert all(sorted(replicas) == [1, 2] for replicas in layout)


def test_brokers_without_a_rack_get_no_replicas() -> None:
    layout = spread_replicas({1: "x", 2: "y", 3: None}, 10, Random(1))
    assert all(3 not in replicas for replicas in layout)


def test_a_tenth_of_the_leaders_moves_to_replicas_in_other_racks() -> None:
    layout = spread_replicas(SIX_BROKERS, 72, Random(1))
    leaders = [replicas[0] for replicas in layout]
    moves = choose_leader_moves(layout, leaders, SIX_BROKERS, 0.1, Random(1))
    assert len(moves) == 7
    for partition, broker in moves.items():
        assert broker in layout[partition]
        assert SIX_BROKERS[broker] != SIX_BROKERS[leaders[partition]]


def test_at_least_one_leader_moves_if_any_can() -> None:
    assert len(choose_leader_moves([(0, 2), (2, 0)], [0, 2], SIX_BROKERS, 0.01, Random(1))) == 1
    assert choose_leader_moves([(0, 1)], [0], SIX_BROKERS, 1.0, Random(1)) == {}
