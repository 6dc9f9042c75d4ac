"""The machinery that compares plans: reference plans pass it, plans made worse do not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from assignors import Plan
from tests.support.assignment_exact import check_range_plan, check_sticky_plan
from tests.support.assignment_facts import read_group
from tests.support.assignment_invariants import holders_of
from tests.support.oracles.reference import plan_of, range_reference, sticky_reference
from tests.support.random_groups import MIDDLE, SMALL, Group, random_group

KINDS: dict[str, tuple[Callable[[Group], Plan], Callable[[Group, Plan], None]]] = {
    "sticky": (sticky_reference, check_sticky_plan),
    "range": (range_reference, check_range_plan),
}


@pytest.mark.parametrize("kind", KINDS)
def test_reference_plans_pass_every_check(kind: str) -> None:
    make, check = KINDS[kind]
    for number in range(150):
        group = random_group(f"pass-{number}", MIDDLE, imbalance=number % 3 == 0)
        check(group, make(group))


@pytest.mark.parametrize("kind", KINDS)
def test_plans_with_two_partitions_exchanged_or_one_given_away_are_caught(kind: str) -> None:
    """Not every change is for the worse; many are, and a changed plan that passes must have
    the figures of the reference."""
    make, check = KINDS[kind]
    caught = 0
    for number in range(400):
        group = random_group(f"worse-{number}", SMALL)
        facts = read_group(group.members, group.leader_racks, group.weights)
        if not facts.cells:
            continue
        plan = make(group)
        holders = list(holders_of(facts, plan))
        rng = Random(number)
        cell = rng.randrange(len(holders))
        other = rng.choice([i for i, t in enumerate(facts.takers) if t == facts.takers[cell]])
        if rng.random() < 0.5:
            holders[cell], holders[other] = holders[other], holders[cell]
        else:
            holders[cell] = rng.choice(facts.takers[cell])
        worse = plan_of(facts, holders)
        try:
            check(group, worse)
        except AssertionError:
            caught += 1
        else:
            assert sorted(worse.loads.values()) == sorted(plan.loads.values()) or kind == "range"
            if kind == "sticky" and group.weights is None:
                assert (worse.crossings, worse.moved) == (plan.crossings, plan.moved)
    assert caught >= 50
