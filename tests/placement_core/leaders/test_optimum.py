"""plan_leaders against an enumeration of all layouts, at every rank of the objective."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from assignors import LeaderRackAwareCooperativeSticky, Member
from placement_core import ClusterView
from placement_core.leaders import plan_leaders
from tests.support.placement import (
    best_value,
    check_layout,
    chosen,
    random_readers,
    random_view,
    value,
)


@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("groups", [0, 1, 2, 3])
def test_one_class_of_topics_is_optimal_at_every_rank(block: int, groups: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        rng = random.Random(seed)
        view = random_view(rng, rng.randint(1, 6), "ts" if seed % 3 == 0 else "t")
        readers = [random_readers(rng, str(n), "ts") for n in range(groups)]
        layout = plan_leaders(view, readers)
        check_layout(view, readers, layout)
        actual = value(view, readers, chosen(view, layout))
        assert actual == best_value(view, readers), f"seed {seed}: {view} {readers}"
        assert (layout.locality_proved and layout.balance_proved) or groups > 1


@pytest.mark.parametrize(("first", "second"), [("t", "su"), ("ts", "su")])
def test_what_is_proved_of_several_classes_is_optimal(first: str, second: str) -> None:
    """Without a common topic, locality is always proved."""
    gaps = 0
    for seed in range(60):
        rng = random.Random(seed)
        view = random_view(rng, rng.randint(2, 6), "tsu")
        readers = [random_readers(rng, "1", first), random_readers(rng, "2", second)]
        layout = plan_leaders(view, readers)
        check_layout(view, readers, layout)
        actual, best = value(view, readers, chosen(view, layout)), best_value(view, readers)
        assert layout.locality_proved or (first, second) == ("ts", "su")
        if layout.locality_proved:
            assert actual[0] == best[0], f"seed {seed}: {view} {readers}"
        if layout.balance_proved:
            assert actual[1] == best[1], f"seed {seed}: {view} {readers}"
        gaps += actual != best
    assert gaps <= 3


@pytest.mark.parametrize("seed", [68, 153, 167])
def test_balance_that_is_not_optimal_is_not_reported_as_proved(seed: int) -> None:
    rng = random.Random(seed)
    view = random_view(rng, rng.randint(2, 7), "tsu")
    readers = [random_readers(rng, "1", "t"), random_readers(rng, "2", "su")]
    layout = plan_leaders(view, readers)
    actual, best = value(view, readers, chosen(view, layout)), best_value(view, readers)
    assert actual[0] == best[0]
    assert actual[1] > best[1], "the balance of this seed is optimal: use another seed"
    assert not layout.balance_proved


def test_a_search_that_is_cut_short_is_not_reported_as_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two groups of one topic; what is found by then is still a layout of the input."""
    for seed in range(20):
        rng = random.Random(seed)
        view = random_view(rng, rng.randint(2, 6), "t")
        readers = [random_readers(rng, "1", "t"), random_readers(rng, "2", "t")]
        monkeypatch.setattr("placement_core.leaders.search.MAX_FLOWS", 0)
        cut = plan_leaders(view, readers)
        monkeypatch.undo()
        check_layout(view, readers, cut)
        everything_local = all(each.after == each.partitions for each in cut.localities)
        counted = [each for each in readers if sum(each.consumers.values())]
        assert cut.locality_proved == (everything_local or len(counted) < 2), seed


@pytest.mark.parametrize("seed", range(40))
def test_the_assignor_reaches_the_planned_locality(seed: int) -> None:
    rng = random.Random(seed)
    view = random_view(rng, rng.randint(1, 60), "ts")
    demand = random_readers(rng, "g", "ts")
    if not sum(demand.consumers.values()):
        demand = replace(demand, consumers={"a": 1})
    layout = plan_leaders(view, [demand])
    [locality] = layout.localities
    for leaders, expected in (
        ({p: row[0] for p, row in view.replicas.items()}, locality.before),
        (chosen(view, layout), locality.after),
    ):
        with_leaders = ClusterView(view.brokers, view.replicas, leaders)  # type: ignore[arg-type]
        leader_racks = with_leaders.leader_racks()
        members = [
            Member(f"{rack}-{n}", demand.topics, rack)
            for rack, count in demand.consumers.items()
            for n in range(count)
        ]
        plan = LeaderRackAwareCooperativeSticky().assign(members, leader_racks)
        known = sum(rack is not None for row in leader_racks.values() for rack in row)
        assert known - plan.off_rack == expected
