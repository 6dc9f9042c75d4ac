"""When the policy asks: by example, and for any sequence of looks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.refresh import Observation, RefreshPolicy, RefreshState, checked_refresh
from placement_core import InvalidOptionError
from tests.assignors.refresh.histories import (
    PARTITIONS,
    Leader,
    Look,
    asked_late,
    asked_wrongly,
    histories,
    played,
    policies,
    seen,
)

HOME = [Leader("a", 0)] * PARTITIONS
MOVED = [Leader("b", 1)] * 3 + HOME[3:]
QUICK = RefreshPolicy(settling=60, patience=300, cool_down=600, check_interval=30)


def asked_at(policy: RefreshPolicy, *looks: tuple[float, Observation]) -> list[float]:
    told = played(policy, [Look(at, look) for at, look in looks])
    return [look.at for look in told if look.asked]


@given(policies(), histories())
def test_it_never_asks_too_soon_too_often_or_for_too_little(
    policy: RefreshPolicy, looks: list[Look]
) -> None:
    assert asked_wrongly(policy, played(policy, looks)) == []


@given(policies(), histories(), st.sampled_from([0, PARTITIONS]))
def test_it_asks_in_time_once_leaders_keep_still(
    policy: RefreshPolicy, looks: list[Look], unwell: int
) -> None:
    start = looks[-1].at if looks else 0.0
    still = seen([Leader("c", 99)] * PARTITIONS, unwell, PARTITIONS)
    count = math.ceil((policy.patience + policy.cool_down) / policy.check_interval) + 2
    ends = [Look(start + n * policy.check_interval, still) for n in range(1, count + 1)]
    assert not asked_late(policy, played(policy, [*looks, *ends]), still_since=len(looks))


class Hasty(RefreshPolicy):
    """Does not wait for leaders to settle."""

    def rest(self, whole: bool) -> float:  # noqa: ARG002
        return 0.0


class Restless(RefreshPolicy):
    """Forgets that it has just asked."""

    def step(self, state: RefreshState, seen: Observation, now: float) -> tuple[RefreshState, bool]:
        state, asks = RefreshPolicy.step(self, state, seen, now)
        return replace(state, no_sooner_than=-math.inf), asks


class Greedy(RefreshPolicy):
    """Takes any gain."""

    def enough(self, partitions: int) -> float:  # noqa: ARG002
        return 0.1


class Blind(RefreshPolicy):
    """Sees leaders where they were first seen."""

    def step(self, state: RefreshState, seen: Observation, now: float) -> tuple[RefreshState, bool]:
        first = state.seen or seen
        blind = replace(seen, racks=first.racks, epochs=first.epochs)
        return RefreshPolicy.step(self, state, blind, now)


@pytest.mark.parametrize("faulty", [Hasty, Restless, Greedy, Blind])
def test_the_checker_finds_planted_faults(faulty: type[RefreshPolicy]) -> None:
    policy = faulty(settling=60, patience=300, cool_down=600)
    worth = [seen(HOME, worth=0.5), seen(MOVED, worth=3)]
    back = seen([Leader("b", 7)] * PARTITIONS, worth=3)
    looks = [worth[0]] * 3 + [worth[1]] * 2 + [back] * 5
    told = played(policy, [Look(30.0 * n, look) for n, look in enumerate(looks)])
    assert asked_wrongly(policy, told)


def test_a_policy_that_never_asks_is_late() -> None:
    looks = [Look(30.0 * n, seen(MOVED, worth=3)) for n in range(40)]
    assert asked_late(QUICK, looks, still_since=0)


def test_leaders_that_moved_are_followed_when_they_have_settled() -> None:
    looks = [(30.0 * n, seen(MOVED, worth=3)) for n in range(1, 8)]
    assert asked_at(QUICK, (0.0, seen(HOME)), *looks) == [90.0]


def test_the_worked_example_of_the_documentation() -> None:
    home = [Leader("abc"[n % 3], 0) for n in range(36)]
    away = [Leader("bac"[n % 3], 1) if n in (0, 1, 3, 4) else home[n] for n in range(36)]
    looks = [(20.0 + 30 * n, seen(away, worth=4)) for n in range(20)]
    assert asked_at(RefreshPolicy(), (-10.0, seen(home)), *looks) == [140.0]
    one = [(at, replace(look, gain=seen(away, worth=1).gain)) for at, look in looks]
    assert asked_at(RefreshPolicy(), *one) == []


def test_what_is_not_worth_it_never_is() -> None:
    assert asked_at(QUICK, *((30.0 * n, seen(MOVED, worth=0.9)) for n in range(100))) == []
    fifth = replace(QUICK, min_gain=0.2)
    assert asked_at(fifth, *((30.0 * n, seen(MOVED, worth=2.3)) for n in range(100))) == []
    assert asked_at(fifth, *((30.0 * n, seen(MOVED, worth=2.4)) for n in range(10))) == [60.0]


def test_a_share_that_is_a_whole_number_is_met_by_that_number() -> None:
    # 0.07 x 100 is a little more than 7 in floating point.
    policy = RefreshPolicy(min_gain=0.07, settling=0)
    assert asked_at(policy, (0.0, seen([Leader("a", 0)] * 100, worth=7))) == [0.0]


def test_flapping_leaders_are_left_alone() -> None:
    ways = [seen(HOME), seen(MOVED, worth=3)]
    assert asked_at(QUICK, *((30.0 * n, ways[n % 2]) for n in range(1000))) == []
    # Nor where it happens between the looks, which is what the epochs are for.
    unseen = [seen([Leader("b", n)] * 3 + HOME[3:], worth=3) for n in range(1000)]
    assert asked_at(QUICK, *((30.0 * n, look) for n, look in enumerate(unseen))) == []


def test_one_partition_that_flaps_does_not_hold_up_the_rest() -> None:
    policy = replace(QUICK, min_partitions=2)
    flapping = [seen([*MOVED[:-1], Leader("ab"[n % 2], n)], worth=3 + n % 2) for n in range(1000)]
    assert asked_at(policy, *((30.0 * n, look) for n, look in enumerate(flapping))) == [
        60.0 + 600.0 * n for n in range(50)
    ]


def test_a_rolling_restart_is_one_rebalance_at_most() -> None:
    # Six brokers, four minutes each: leaders go, the broker comes back, leaders stay away until
    # the election of preferred ones, which comes up to five minutes after all is over.
    looks = []
    for n in range(8 * 6):
        leaders = [Leader("abc"[(p + n // 8) % 3], n // 8) for p in range(PARTITIONS)]
        looks.append((30.0 * n, seen(leaders, unwell=PARTITIONS // 2, worth=4)))
    looks += [(30.0 * n, seen(leaders, unwell=4, worth=4)) for n in range(48, 58)]
    elected = [leader._replace(epoch=9) for leader in HOME]
    looks += [(30.0 * n, seen(elected)) for n in range(58, 200)]
    assert asked_at(RefreshPolicy(), *looks) == []
    # Without that election: one, when patience is over.
    kept = looks[:58] + [(30.0 * n, looks[57][1]) for n in range(58, 90)]
    assert asked_at(RefreshPolicy(), *kept) == [30.0 * 48 + 900]


def test_brokers_that_come_back_begin_the_rest_anew() -> None:
    away = [(30.0 * n, seen(MOVED, unwell=6, worth=3)) for n in range(5)]
    back = [(30.0 * n, seen(MOVED, worth=3)) for n in range(5, 10)]
    assert asked_at(QUICK, *away, *back) == [210.0]


def test_one_that_comes_back_of_two_does_so_too() -> None:
    both = [(30.0 * n, seen(MOVED, unwell=9, worth=3)) for n in range(5)]
    one = [(30.0 * n, seen(MOVED, unwell=4, worth=3)) for n in range(5, 20)]
    assert asked_at(QUICK, *both, *one) == [150.0 + 300]


def test_a_broker_that_stays_away_is_the_new_state_of_things() -> None:
    away = [(30.0 * n, seen(MOVED, unwell=6, worth=3)) for n in range(15)]
    assert asked_at(QUICK, *away) == [300.0]


def test_a_leader_that_took_over_waits_for_what_its_predecessor_may_have_asked() -> None:
    state = QUICK.begin(None, now=1000.0)
    asked = []
    for n in range(40):
        state, asks = QUICK.step(state, seen(MOVED, worth=3), 1000.0 + 30 * n)
        asked += [30 * n] * asks
    assert asked == [600]
    # Its next plan is its own: what it remembers holds.
    again = QUICK.begin(state, now=2200.0)
    assert (again.no_sooner_than, again.seen) == (2200.0, None)
    assert QUICK.begin(RefreshState(), now=5.0).no_sooner_than == -math.inf


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"min_gain": 5}, "min_gain is 5: give a share"),
        ({"min_gain": math.nan}, "min_gain is nan"),
        ({"min_gain": "0.05"}, "min_gain is '0.05'"),
        ({"min_partitions": 0}, "min_partitions is 0"),
        ({"min_partitions": 1.5}, "min_partitions is 1.5"),
        ({"settling": -1}, "settling is -1: give seconds, 0 or more"),
        ({"settling": True}, "settling is True"),
        ({"patience": 60}, "patience is 60: give seconds, 120 or more"),
        ({"cool_down": math.inf}, "cool_down is inf"),
        ({"check_interval": 0}, "check_interval is 0: give seconds, 0.1 or more"),
    ],
)
def test_options_out_of_range_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidOptionError, match=told.replace(".", r"\.")):
        RefreshPolicy(**wrong)


def test_only_a_policy_is_one() -> None:
    assert checked_refresh(None) is None
    assert checked_refresh(QUICK) is QUICK
    with pytest.raises(InvalidOptionError, match="refresh is True: give a RefreshPolicy"):
        checked_refresh(True)
