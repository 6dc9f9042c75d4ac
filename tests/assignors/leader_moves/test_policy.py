"""What a rebalance would gain, against a count apart from the code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.leader_moves import (
    NO_GAIN,
    Gain,
    Observation,
    PartitionState,
    RefreshPolicy,
    RefreshState,
    checked_refresh,
    crossing_gain,
    observe,
)
from placement_core import InvalidOptionError
from tests.support.leader_histories import (
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
from tests.support.random_groups import fed_back, move_leaders, random_leaders

STICKY = LeaderRackAwareCooperativeSticky().assign
RACKS = ("a", "b", "c")


def members(racks: Mapping[str, str | None], topics: Sequence[str] = ("t",)) -> list[Member]:
    return [Member(id_, frozenset(topics), rack) for id_, rack in racks.items()]


def owning(of: Mapping[str, tuple[str | None, Sequence[int]]]) -> list[Member]:
    return [
        Member(id_, frozenset("t"), rack, owned={"t": list(owned)}, generation=1)
        for id_, (rack, owned) in of.items()
    ]


def off_rack(group: Sequence[Member], leaders: Mapping[str, Sequence[str | None]]) -> int:
    return sum(
        leaders[topic][partition] not in (None, member.rack)
        for member in group
        for topic, partitions in member.owned.items()
        for partition in partitions
    )


@given(st.integers(0, 10**6), st.sampled_from([STICKY, LeaderRackAwareRange().assign]))
def test_it_is_what_the_new_plan_reads_less_from_afar(seed: int, assign: object) -> None:
    rng = Random(seed)
    assert callable(assign)
    leaders = random_leaders(rng, 3, 8, RACKS)
    group = members({f"m{n}": rng.choice([*RACKS, None]) for n in range(5)}, list(leaders))
    before = fed_back(group, assign(group, leaders, None), 1)
    moved = move_leaders(rng, leaders, rng.choice([0.0, 0.1, 0.5]), RACKS)
    after = fed_back(group, assign(before, moved, None), 2)
    now, then = off_rack(before, moved), off_rack(after, moved)
    gain = crossing_gain(assign, before, moved)
    assert (gain.off_rack, gain.reachable) == (now, then)
    assert gain.worth == pytest.approx(max(now - then, 0))
    # A plan made a moment ago has nothing to gain.
    assert crossing_gain(assign, after, moved).worth == 0


def test_with_weights_it_is_counted_in_partitions_of_average_traffic() -> None:
    group = owning({"a1": ("a", [0, 1]), "b1": ("b", [2, 3])})
    leaders = {"t": ["b", "a", "a", "b"]}
    assert crossing_gain(STICKY, group, leaders) == Gain(2.0, 2, 0)
    # 0 and 2 change places: 110 of 220 steps no longer cross, of four partitions.
    heavy = crossing_gain(STICKY, group, leaders, {"t": [100, 100, 10, 10]})
    assert heavy.worth == pytest.approx(2.0)
    assert (heavy.off_rack, heavy.reachable) == (2, 0)
    light = crossing_gain(STICKY, group, leaders, {"t": [10, 100, 10, 100]})
    assert light.worth == pytest.approx(4 * 20 / 220)


def test_with_levels_it_is_that_of_the_level_that_gains_most() -> None:
    # Read across the data centres: 0. Across rooms: all.
    group = owning({"x": ("/d1/r1", [0, 1]), "y": ("/d1/r2", [2, 3])})
    leaders = {"t": ["/d1/r2", "/d1/r2", "/d1/r1", "/d1/r1"]}
    assert crossing_gain(STICKY, group, leaders) == Gain(4.0, 4, 0)


def test_a_narrow_level_may_lose_where_a_wide_one_gains() -> None:
    # z is in the other data centre, and must take one of what is led in this one or that one.
    group = owning({"x": ("/d1/r1", [0]), "y": ("/d1/r2", [1]), "z": ("/d2/r1", [2])})
    leaders = {"t": ["/d1/r1", "/d2/r1", "/d1/r1"]}
    # Now 1 and 2 cross data centres. Best: none does, and one of 0 and 2 crosses rooms.
    assert crossing_gain(STICKY, group, leaders) == Gain(2.0, 2, 1)


def test_what_loses_at_a_wide_level_is_no_gain() -> None:
    def worse(group: Sequence[Member], *_: object) -> object:
        return STICKY(group, {"t": ["/d2/r1", "/d1/r1"]}, None)

    group = owning({"x": ("/d1/r1", [0]), "y": ("/d2/r1", [1])})
    gain = crossing_gain(worse, group, {"t": ["/d1/r1", "/d2/r1"]})  # type: ignore[arg-type]
    assert gain == Gain(0.0, 0, 2)


def test_what_nobody_owns_counts_for_nothing() -> None:
    group = owning({"a1": ("a", [0]), "b1": ("b", [])})
    assert crossing_gain(STICKY, group, {"t": ["a", "b", "b"]}) == Gain(0.0, 0, 0)
    assert crossing_gain(STICKY, members({"a1": "a"}), {"t": ["b"]}) == NO_GAIN
    assert crossing_gain(STICKY, members({"a1": "a"}), {}) == NO_GAIN
    # Of partitions that are gone nothing is said either.
    assert crossing_gain(STICKY, owning({"a1": ("a", [0, 7])}), {"t": ["a"]}) == NO_GAIN


# ---- What is read off a client's metadata.

BROKERS = frozenset({0, 1, 2})


def state(
    leader: int, replicas: Sequence[int], in_sync: Sequence[int], partition: int = 0
) -> PartitionState:
    return PartitionState("t", partition, leader, 5, replicas, in_sync)


@pytest.mark.parametrize(
    ("leader", "replicas", "in_sync", "whole"),
    [
        (0, [0, 1, 2], [2, 1, 0], True),
        (0, [0, 1], [0, 1], True),
        (0, [], [], True),  # The client does not know its replicas.
        (-1, [0, 1], [0, 1], False),  # No leader.
        (9, [], [], False),  # A leader that is not there.
        (1, [0, 1], [0, 1], False),  # Not the preferred leader.
        (0, [0, 1, 2], [0, 1], False),  # One is catching up.
        (0, [0, 9], [0, 9], False),  # A broker that others still take to be in sync is away.
    ],
)
def test_what_is_likely_to_change_by_itself(
    leader: int, replicas: list[int], in_sync: list[int], whole: bool
) -> None:
    assert state(leader, replicas, in_sync).is_whole(BROKERS) is whole


def test_partitions_of_which_nothing_is_known_are_not_well() -> None:
    racks: dict[str, list[str | None]] = {"t": ["a", None, "b"], "u": ["c"]}
    states = [
        state(0, [0, 1], [0, 1]),
        state(1, [0, 1], [0, 1], partition=2),
        PartitionState("gone", 0, 0, 1, [0], [0]),
        state(0, [0], [0], partition=7),
    ]
    seen = observe(racks, states, BROKERS, NO_GAIN)
    assert seen.racks == racks
    assert seen.epochs == {"t": [5, -1, 5], "u": [-1]}
    assert (seen.partitions, seen.unwell) == (4, 3)


# ---- When the policy asks: by example, and for any sequence of looks.

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
