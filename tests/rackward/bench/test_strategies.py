"""The table of strategies, and their division into batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackward.bench import BenchError
from rackward.bench.results import Options, ResultFolder
from rackward.bench.runner import plan_batches
from rackward.bench.strategies import STRATEGIES, Producers, select_strategies


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
