"""plan_leaders against trying everything: every rank of its objective."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from assignors import LeaderRackAwareCooperativeSticky, Member
from placement_core import ClusterView
from placement_core.leaders import plan_leaders
from tests.support.leader_layouts import (
    best_value,
    check_layout,
    chosen,
    random_readers,
    random_view,
    value,
)


@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("groups", [0, 1, 2, 3])
def test_one_class_of_topics_is_exact_at_every_rank(block: int, groups: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        rng = random.Random(seed)
        view = random_view(rng, rng.randint(1, 6), "ts" if seed % 3 == 0 else "t")
        readers = [random_readers(rng, str(n), "ts") for n in range(groups)]
        layout = plan_leaders(view, readers)
        check_layout(view, readers, layout)
        found = value(view, readers, chosen(view, layout))
        assert found == best_value(view, readers), f"seed {seed}: {view} {readers}"
        assert layout.locality_proved
        assert layout.balance_proved


def test_several_classes_are_exact_in_locality() -> None:
    gaps = 0
    for seed in range(60):
        rng = random.Random(seed)
        view = random_view(rng, rng.randint(2, 6), "tsu")
        readers = [random_readers(rng, "1", "t"), random_readers(rng, "2", "su")]
        layout = plan_leaders(view, readers)
        check_layout(view, readers, layout)
        found = value(view, readers, chosen(view, layout))
        best = best_value(view, readers)
        assert layout.locality_proved
        assert found[0] == best[0], f"seed {seed}: {view} {readers}"
        if layout.balance_proved:
            assert found[1] == best[1], f"seed {seed}: {view} {readers}"
        gaps += found != best
    assert gaps <= 3


@pytest.mark.parametrize("seed", [68, 153, 167])
def test_what_a_class_alone_cannot_even_out_is_not_called_proved(seed: int) -> None:
    rng = random.Random(seed)
    view = random_view(rng, rng.randint(2, 7), "tsu")
    readers = [random_readers(rng, "1", "t"), random_readers(rng, "2", "su")]
    layout = plan_leaders(view, readers)
    found, best = value(view, readers, chosen(view, layout)), best_value(view, readers)
    assert found[0] == best[0]
    assert found[1] > best[1], "better than it was: take another seed"
    assert not layout.balance_proved


def test_readers_that_overlap_are_never_called_proved_when_they_are_not() -> None:
    gaps = 0
    for seed in range(60):
        rng = random.Random(seed)
        view = random_view(rng, rng.randint(2, 6), "tsu")
        readers = [random_readers(rng, "1", "ts"), random_readers(rng, "2", "su")]
        layout = plan_leaders(view, readers)
        check_layout(view, readers, layout)
        found, best = value(view, readers, chosen(view, layout)), best_value(view, readers)
        if layout.locality_proved:
            assert found[0] == best[0], f"seed {seed}: {view} {readers}"
        gaps += found[0] != best[0]
    assert gaps <= 3


@pytest.mark.parametrize("seed", range(40))
def test_the_assignor_reaches_what_the_layout_says(seed: int) -> None:
    rng = random.Random(seed)
    view = random_view(rng, rng.randint(1, 60), "ts")
    one = random_readers(rng, "g", "ts")
    if not sum(one.consumers.values()):
        one = replace(one, consumers={"a": 1})
    layout = plan_leaders(view, [one])
    [locality] = layout.localities
    for leaders, expected in (
        ({p: row[0] for p, row in view.replicas.items()}, locality.before),
        (chosen(view, layout), locality.after),
    ):
        led = ClusterView(view.brokers, view.replicas, leaders)  # type: ignore[arg-type]
        leader_racks = led.leader_racks()
        members = [
            Member(f"{rack}-{n}", one.topics, rack)
            for rack, count in one.consumers.items()
            for n in range(count)
        ]
        plan = LeaderRackAwareCooperativeSticky().assign(members, leader_racks)
        known = sum(rack is not None for row in leader_racks.values() for rack in row)
        assert known - plan.off_rack == expected
