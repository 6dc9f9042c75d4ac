"""The table of strategies, and their division into batches."""

from __future__ import annotations

import pytest

from rackward.bench import BenchError
from rackward.bench.schedule import divide
from rackward.bench.strategies import STRATEGIES, Client, select_strategies


@pytest.mark.parametrize("size", range(1, 13))
def test_a_batch_has_one_kind_of_brokers_and_leaders(size: int) -> None:
    divided = divide(list(STRATEGIES.values()), size)
    assert sorted(each.key for batch in divided for each in batch) == sorted(STRATEGIES)
    for batch in divided:
        assert 1 <= len(batch) <= size
        assert len({each.leader_layout for each in batch}) == 1
        knows_rack = [each for each in batch if each.is_rackward or each.sends_rack]
        assert len({each.follower_fetching for each in knows_rack}) <= 1


@pytest.mark.parametrize(("size", "sizes"), [(6, [6, 6, 5, 1, 5]), (11, [11, 1, 11])])
def test_batches_are_few_and_equally_large(size: int, sizes: list[int]) -> None:
    divided = divide(list(STRATEGIES.values()), size)
    assert [len(batch) for batch in divided] == sizes
    assert [any(each.follower_fetching for each in batch) for batch in divided] == [
        *[False] * (len(sizes) - 1),
        True,
    ]


def test_batches_share_out_the_processes_of_java() -> None:
    divided = divide([each for each in STRATEGIES.values() if not each.follower_fetching], 6)
    assert max(sum(each.client is Client.JAVA for each in batch) for batch in divided) == 1


def test_a_batch_is_not_divided_without_need() -> None:
    two = select_strategies(["java-range", "rackward-confluent"])
    assert divide(two, 2) == [two]
    assert divide([], 2) == []


def test_an_unknown_strategy_error_lists_the_known_ones() -> None:
    with pytest.raises(BenchError, match="no strategy 'javarange': give one of kafka-python-range"):
        select_strategies(["javarange"])


def test_a_selection_keeps_its_order_without_repetition() -> None:
    selected = select_strategies(["rackward-range", "java-range", "rackward-range"])
    assert [each.key for each in selected] == ["rackward-range", "java-range"]
    assert len(select_strategies(None)) == len(STRATEGIES)
