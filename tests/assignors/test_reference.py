"""The checks of plans: optimal plans pass, worse plans do not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from assignors import Plan
from tests.support.assignment_problems import read_group
from tests.support.assignments import assignees_of, check_range_plan, check_sticky_plan
from tests.support.oracles.reference import plan_of, range_reference, sticky_reference
from tests.support.random_groups import MIDDLE, SMALL, Group, random_group

KINDS: dict[str, tuple[Callable[[Group], Plan], Callable[[Group, Plan], None]]] = {
    "sticky": (sticky_reference, check_sticky_plan),
    "range": (range_reference, check_range_plan),
}


@pytest.mark.parametrize("kind", KINDS)
def test_reference_plans_pass_every_check(kind: str) -> None:
    reference, check = KINDS[kind]
    for number in range(150):
        group = random_group(f"pass-{number}", MIDDLE, imbalance=number % 3 == 0)
        check(group, reference(group))


@pytest.mark.parametrize("kind", KINDS)
def test_plans_with_exchanged_or_moved_partitions_are_detected(kind: str) -> None:
    """Many changes make a plan worse; a changed plan that passes has the reference's figures."""
    reference, check = KINDS[kind]
    detected = 0
    for number in range(400):
        group = random_group(f"worse-{number}", SMALL)
        facts = read_group(group.members, group.leader_racks, group.weights)
        if not facts.cells:
            continue
        plan = reference(group)
        assignees = list(assignees_of(facts, plan))
        rng = Random(number)
        cell = rng.randrange(len(assignees))
        other = rng.choice(
            [i for i, t in enumerate(facts.candidates) if t == facts.candidates[cell]]
        )
        if rng.random() < 0.5:
            assignees[cell], assignees[other] = assignees[other], assignees[cell]
        else:
            assignees[cell] = rng.choice(facts.candidates[cell])
        worse = plan_of(facts, assignees)
        try:
            check(group, worse)
        except AssertionError:
            detected += 1
        else:
            assert sorted(worse.loads.values()) == sorted(plan.loads.values()) or kind == "range"
            if kind == "sticky" and group.weights is None:
                assert (worse.crossings, worse.moved) == (plan.crossings, plan.moved)
    assert detected >= 50
