"""The refresh policy: the gain of a rebalance, observations, and when one is requested."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member, Plan
from assignors.group_leader.metadata import PartitionMetadata
from assignors.group_leader.monitor import locality_gain
from assignors.leader_moves import (
    NO_GAIN,
    Gain,
    Observation,
    RefreshPolicy,
    RefreshState,
    observe,
    validate_refresh,
)
from assignors.model import Assignor
from placement_core import InvalidOptionError
from tests.support.random_groups import move_leaders, random_leaders, with_assignments

STICKY = LeaderRackAwareCooperativeSticky()
RANGE = LeaderRackAwareRange()
RACKS = ("a", "b", "c")


def members(racks: Mapping[str, str | None], topics: Sequence[str] = ("t",)) -> list[Member]:
    return [Member(id_, frozenset(topics), rack) for id_, rack in racks.items()]


def owners(owned_by: Mapping[str, tuple[str | None, Sequence[int]]]) -> list[Member]:
    """Return members of topic t, given id to rack and owned partitions."""
    return [
        Member(id_, frozenset("t"), rack, owned={"t": list(owned)}, generation=1)
        for id_, (rack, owned) in owned_by.items()
    ]


def off_rack(group: Sequence[Member], leaders: Mapping[str, Sequence[str | None]]) -> int:
    return sum(
        leaders[topic][partition] not in (None, member.rack)
        for member in group
        for topic, partitions in member.owned.items()
        for partition in partitions
    )


@given(st.integers(0, 10**6), st.sampled_from([STICKY, RANGE]))
def test_the_gain_is_the_difference_in_off_rack_partitions(seed: int, assignor: Assignor) -> None:
    rng = Random(seed)
    leaders = random_leaders(rng, 3, 8, RACKS)
    group = members({f"m{n}": rng.choice([*RACKS, None]) for n in range(5)}, list(leaders))
    before = with_assignments(group, assignor.assign(group, leaders, None), 1)
    moved = move_leaders(rng, leaders, rng.choice([0.0, 0.1, 0.5]), RACKS)
    after = with_assignments(group, assignor.assign(before, moved, None), 2)
    now, then = off_rack(before, moved), off_rack(after, moved)
    gain = locality_gain(assignor, before, moved)
    assert (gain.off_rack, gain.off_rack_after) == (now, then)
    assert gain.improvement == pytest.approx(max(now - then, 0))
    # With the new plan there is no further gain.
    assert locality_gain(assignor, after, moved).improvement == 0


def test_a_gain_with_weights_is_in_partitions_of_average_traffic() -> None:
    group = owners({"a1": ("a", [0, 1]), "b1": ("b", [2, 3])})
    leaders = {"t": ["b", "a", "a", "b"]}
    assert locality_gain(STICKY, group, leaders) == Gain(2.0, 2, 0)
    # 0 and 2 are exchanged: 110 of 220 steps no longer cross, of four partitions.
    heavy = locality_gain(STICKY, group, leaders, {"t": [100, 100, 10, 10]})
    assert heavy.improvement == pytest.approx(2.0)
    assert (heavy.off_rack, heavy.off_rack_after) == (2, 0)
    light = locality_gain(STICKY, group, leaders, {"t": [10, 100, 10, 100]})
    assert light.improvement == pytest.approx(4 * 20 / 220)


def test_the_gain_is_that_of_an_assignment_by_traffic_weights() -> None:
    group = owners({"a1": ("a", [0, 2]), "b1": ("b", [1, 3])})
    leaders = {"t": ["a", "a", "a", "b"]}
    # One of three partitions led in a has to cross; only by weight is it the wrong one.
    assert locality_gain(STICKY, group, leaders).improvement == 0
    gain = locality_gain(STICKY, group, leaders, {"t": [1, 100, 100, 1]})
    assert gain.improvement == pytest.approx(4 * 99 / 202)


def test_gain_is_that_of_the_level_that_improves_most() -> None:
    # None is read across data centres, all are read across rooms.
    group = owners({"x": ("/d1/r1", [0, 1]), "y": ("/d1/r2", [2, 3])})
    leaders = {"t": ["/d1/r2", "/d1/r2", "/d1/r1", "/d1/r1"]}
    assert locality_gain(STICKY, group, leaders) == Gain(4.0, 4, 0)


def test_a_narrow_level_may_get_worse_if_a_wider_one_improves() -> None:
    # z is in the other data centre.
    group = owners({"x": ("/d1/r1", [0]), "y": ("/d1/r2", [1]), "z": ("/d2/r1", [2])})
    leaders = {"t": ["/d1/r1", "/d2/r1", "/d1/r1"]}
    # Now 1 and 2 cross data centres. At best none does, and one of 0 and 2 crosses rooms.
    assert locality_gain(STICKY, group, leaders) == Gain(2.0, 2, 1)


class WorseAssignor(LeaderRackAwareCooperativeSticky):
    """Assigns for leaders in the wrong racks."""

    def assign(self, members: Iterable[Member], *_: object) -> Plan:
        return super().assign(members, {"t": ["/d2/r1", "/d1/r1"]})


def test_a_plan_that_is_worse_at_the_widest_level_has_no_gain() -> None:
    group = owners({"x": ("/d1/r1", [0]), "y": ("/d2/r1", [1])})
    gain = locality_gain(WorseAssignor(), group, {"t": ["/d1/r1", "/d2/r1"]})
    assert gain == Gain(0.0, 0, 2)


def test_partitions_without_an_owner_do_not_count() -> None:
    group = owners({"a1": ("a", [0]), "b1": ("b", [])})
    assert locality_gain(STICKY, group, {"t": ["a", "b", "b"]}) == Gain(0.0, 0, 0)
    assert locality_gain(STICKY, members({"a1": "a"}), {"t": ["b"]}) == NO_GAIN
    assert locality_gain(STICKY, members({"a1": "a"}), {}) == NO_GAIN
    # A deleted partition that is still claimed does not count either.
    assert locality_gain(STICKY, owners({"a1": ("a", [0, 7])}), {"t": ["a"]}) == NO_GAIN


# Observations of a client's metadata.

BROKERS = frozenset({0, 1, 2})


def partition_metadata(
    leader: int, replicas: Sequence[int], in_sync: Sequence[int], partition: int = 0
) -> PartitionMetadata:
    return PartitionMetadata("t", partition, leader, 5, replicas, in_sync)


@pytest.mark.parametrize(
    ("leader", "replicas", "in_sync", "stable"),
    [
        (0, [0, 1, 2], [2, 1, 0], True),
        (0, [0, 1], [0, 1], True),
        (0, [], [], True),  # Its replicas are unknown.
        (-1, [0, 1], [0, 1], False),  # No leader.
        (9, [], [], False),  # The leader is down.
        (1, [0, 1], [0, 1], False),  # Not the preferred leader.
        (0, [0, 1, 2], [0, 1], False),  # One replica is catching up.
        (0, [0, 9], [0, 9], False),  # A broker is down and still in the ISR.
    ],
)
def test_stable_partitions(
    leader: int, replicas: list[int], in_sync: list[int], stable: bool
) -> None:
    assert partition_metadata(leader, replicas, in_sync).is_stable(BROKERS) is stable


def test_partitions_without_metadata_are_unstable() -> None:
    racks: dict[str, list[str | None]] = {"t": ["a", None, "b"], "u": ["c"]}
    partitions = [
        partition_metadata(0, [0, 1], [0, 1]),
        partition_metadata(1, [0, 1], [0, 1], partition=2),
        PartitionMetadata("gone", 0, 0, 1, [0], [0]),
        partition_metadata(0, [0], [0], partition=3),
    ]
    observed = observe(racks, partitions, BROKERS, NO_GAIN)
    assert observed.racks == racks
    assert observed.epochs == {"t": [5, -1, 5], "u": [-1]}
    assert (observed.partitions, observed.unstable_partitions) == (4, 3)


# Histories of leaders, and what must hold of the requests of a policy.

PARTITIONS = 12
TOPIC = "t"


class Leader(NamedTuple):
    """The rack of a partition's leader, and the leader epoch."""

    rack: str | None
    epoch: int


@dataclass(frozen=True)
class Check:
    """An observation at a time, and whether the policy then requested a rebalance."""

    at: float
    observation: Observation
    requested: bool = False


def observation(
    leaders: Sequence[Leader], unstable_partitions: int = 0, improvement: float = 0.0
) -> Observation:
    """Return an observation of one topic with these leaders."""
    racks, epochs = [leader.rack for leader in leaders], [leader.epoch for leader in leaders]
    gain = Gain(improvement, round(improvement), 0)
    return Observation({TOPIC: racks}, {TOPIC: epochs}, unstable_partitions, gain)


def elections(before: Observation, after: Observation) -> int:
    """Return the number of partitions whose leader or epoch differs."""
    rows = [zip(each.racks[TOPIC], each.epochs[TOPIC], strict=True) for each in (before, after)]
    return sum(a != b for a, b in zip(*rows, strict=True))


def run_policy(policy: RefreshPolicy, checks: Sequence[Check]) -> list[Check]:
    """Return the checks with what the policy requests at each."""
    state, results = RefreshState(), []
    for check in checks:
        state, requested = policy.step(state, check.observation, check.at)
        results.append(Check(check.at, check.observation, requested))
    return results


def wrong_requests(policy: RefreshPolicy, checks: Sequence[Check]) -> list[str]:
    """Return what is wrong with the requests: nothing for a correct policy."""
    wrong: list[str] = []
    last_request: float | None = None
    for index, check in enumerate(checks):
        if not check.requested:
            continue
        now = check.observation
        threshold = max(policy.min_gain * now.partitions, policy.min_partitions)
        if now.gain.improvement < threshold - 1e-6:
            wrong.append(f"{check.at}: gain below the threshold")
        if last_request is not None and check.at - last_request < policy.min_interval:
            wrong.append(f"{check.at}: {check.at - last_request} s after the last request")
        last_request = check.at
        stable = now.unstable_partitions < threshold
        required = policy.stable_seconds if stable else policy.unstable_seconds
        recent = [each for each in checks[: index + 1] if each.at >= check.at - required]
        # Stability is counted from a check, so one of them is at least that old.
        earlier = [each for each in checks[:index] if each.at <= check.at - required]
        if required and not earlier:
            wrong.append(f"{check.at}: no check {required} s before")
        for each in [*earlier[-1:], *recent] if required else [check]:
            before = each.observation
            if before.gain.improvement < threshold - 1e-6:
                wrong.append(f"{check.at}: gain below the threshold at {each.at}")
            changed = abs(before.unstable_partitions - now.unstable_partitions) >= 2 * threshold
            if changed or (before.unstable_partitions < threshold) != stable:
                wrong.append(f"{check.at}: brokers went down or came back at {each.at}")
            # Each differs by less than the threshold from the check that stability is counted from.
            if elections(before, now) >= 2 * threshold:
                wrong.append(f"{check.at}: leaders moved after {each.at}")
    return wrong


def requested_late(policy: RefreshPolicy, checks: Sequence[Check], stable_from: int) -> bool:
    """Return whether no request came in time.

    The checks from index ``stable_from`` on are equal, justify a rebalance, and are at most a
    check interval apart.
    """
    first = checks[stable_from]
    before = [check.at for check in checks[:stable_from] if check.requested]
    threshold = max(policy.min_gain * PARTITIONS, policy.min_partitions)
    stable = first.observation.unstable_partitions < threshold
    required = policy.stable_seconds if stable else policy.unstable_seconds
    due = max(first.at + required, (before[-1] if before else 0) + policy.min_interval)
    return not any(
        check.requested and check.at <= due + policy.check_interval
        for check in checks[stable_from:]
    )


@st.composite
def policies(draw: st.DrawFn) -> RefreshPolicy:
    """Draw a policy with seconds up to a minute."""
    stable_seconds = draw(st.integers(0, 30))
    return RefreshPolicy(
        min_gain=draw(st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.5])),
        min_partitions=draw(st.integers(1, 4)),
        stable_seconds=stable_seconds,
        unstable_seconds=stable_seconds + draw(st.integers(0, 30)),
        min_interval=draw(st.integers(0, 60)),
        check_interval=draw(st.integers(2, 10)),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Check]:
    """Draw checks between which leaders move back and forth, with any gain."""
    leaders = [Leader("a", 0)] * PARTITIONS
    checks, at = [], 0.0
    for _ in range(draw(st.integers(0, 20))):
        at += draw(st.sampled_from([0.5, 1, 5, 10, 30]))
        moving = draw(st.lists(st.integers(0, PARTITIONS - 1), max_size=5))
        leaders = list(leaders)
        for partition in moving if draw(st.booleans()) else ():
            rack = draw(st.sampled_from(["a", "b", None]))
            leaders[partition] = Leader(rack, leaders[partition].epoch + 1)
        improvement = draw(st.sampled_from([0, 0.5, 1, 2, 3, 6, 6, 6]))
        unstable_partitions = draw(st.sampled_from([0, 0, 0, 1, 6]))
        checks.append(Check(at, observation(leaders, unstable_partitions, improvement)))
    return checks


# Requests of the policy: for any sequence of checks, and by example.

HOME = [Leader("a", 0)] * PARTITIONS
MOVED = [Leader("b", 1)] * 3 + HOME[3:]
QUICK = RefreshPolicy(stable_seconds=60, unstable_seconds=300, min_interval=600, check_interval=30)


def request_times(policy: RefreshPolicy, *observed: tuple[float, Observation]) -> list[float]:
    checks = run_policy(policy, [Check(at, each) for at, each in observed])
    return [check.at for check in checks if check.requested]


@given(policies(), histories())
def test_requests_are_never_early_frequent_or_unjustified(
    policy: RefreshPolicy, checks: list[Check]
) -> None:
    assert wrong_requests(policy, run_policy(policy, checks)) == []


@given(policies(), histories(), st.sampled_from([0, PARTITIONS]))
def test_rebalance_is_requested_once_leaders_are_stable(
    policy: RefreshPolicy, checks: list[Check], unstable_partitions: int
) -> None:
    start = checks[-1].at if checks else 0.0
    stable = observation([Leader("c", 99)] * PARTITIONS, unstable_partitions, PARTITIONS)
    count = math.ceil((policy.unstable_seconds + policy.min_interval) / policy.check_interval) + 2
    end = [Check(start + n * policy.check_interval, stable) for n in range(1, count + 1)]
    results = run_policy(policy, [*checks, *end])
    assert not requested_late(policy, results, stable_from=len(checks))


class NoStability(RefreshPolicy):
    """Does not wait until leaders are stable."""

    def step(
        self, state: RefreshState, observation: Observation, now: float
    ) -> tuple[RefreshState, bool]:
        impatient = RefreshPolicy(stable_seconds=0, unstable_seconds=0)
        return impatient.step(state, observation, now)


class NoInterval(RefreshPolicy):
    """Ignores its last request."""

    def step(
        self, state: RefreshState, observation: Observation, now: float
    ) -> tuple[RefreshState, bool]:
        state, requested = RefreshPolicy.step(self, state, observation, now)
        return replace(state, not_before=-math.inf), requested


class NoThreshold(RefreshPolicy):
    """Requests a rebalance for any gain."""

    def threshold(self, partitions: int) -> float:  # noqa: ARG002
        return 0.1


class NoElections(RefreshPolicy):
    """Ignores elections after the first observation."""

    def step(
        self, state: RefreshState, observation: Observation, now: float
    ) -> tuple[RefreshState, bool]:
        first = state.observation or observation
        old = replace(observation, racks=first.racks, epochs=first.epochs)
        return RefreshPolicy.step(self, state, old, now)


@pytest.mark.parametrize("faulty", [NoStability, NoInterval, NoThreshold, NoElections])
def test_the_checker_detects_injected_faults(faulty: type[RefreshPolicy]) -> None:
    policy = faulty(stable_seconds=60, unstable_seconds=300, min_interval=600)
    little, enough = observation(HOME, improvement=0.5), observation(MOVED, improvement=3)
    again = observation([Leader("b", 7)] * PARTITIONS, improvement=3)
    history = [little] * 3 + [enough] * 2 + [again] * 5
    checks = run_policy(policy, [Check(30.0 * n, each) for n, each in enumerate(history)])
    assert wrong_requests(policy, checks)


def test_the_checker_detects_a_policy_without_requests() -> None:
    checks = [Check(30.0 * n, observation(MOVED, improvement=3)) for n in range(40)]
    assert requested_late(QUICK, checks, stable_from=0)


def test_a_rebalance_is_requested_when_moved_leaders_are_stable() -> None:
    checks = [(30.0 * n, observation(MOVED, improvement=3)) for n in range(1, 8)]
    assert request_times(QUICK, (0.0, observation(HOME)), *checks) == [90.0]


def test_the_worked_example_of_the_documentation() -> None:
    home = [Leader("abc"[n % 3], 0) for n in range(36)]
    away = [Leader("bac"[n % 3], 1) if n in (0, 1, 3, 4) else home[n] for n in range(36)]
    checks = [(20.0 + 30 * n, observation(away, improvement=4)) for n in range(20)]
    assert request_times(RefreshPolicy(), (-10.0, observation(home)), *checks) == [140.0]
    one = [(at, replace(each, gain=observation(away, improvement=1).gain)) for at, each in checks]
    assert request_times(RefreshPolicy(), *one) == []


def test_whole_threshold_is_met_by_that_number() -> None:
    # 0.07 x 100 is a little more than 7 in floating point.
    policy = RefreshPolicy(min_gain=0.07, stable_seconds=0)
    assert request_times(policy, (0.0, observation([Leader("a", 0)] * 100, improvement=7))) == [0.0]


def test_a_rolling_restart_causes_at_most_one_rebalance() -> None:
    # Six brokers restart, four minutes each. Leaders move away, and return with the election of
    # preferred leaders up to five minutes after the last restart.
    checks = []
    for n in range(8 * 6):
        leaders = [Leader("abc"[(p + n // 8) % 3], n // 8) for p in range(PARTITIONS)]
        checks.append(
            (30.0 * n, observation(leaders, unstable_partitions=PARTITIONS // 2, improvement=4))
        )
    checks += [
        (30.0 * n, observation(leaders, unstable_partitions=4, improvement=4))
        for n in range(48, 58)
    ]
    preferred = [leader._replace(epoch=9) for leader in HOME]
    checks += [(30.0 * n, observation(preferred)) for n in range(58, 200)]
    assert request_times(RefreshPolicy(), *checks) == []
    # Without that election there is one, after unstable_seconds.
    no_election = checks[:58] + [(30.0 * n, checks[57][1]) for n in range(58, 90)]
    assert request_times(RefreshPolicy(), *no_election) == [30.0 * 48 + 900]


def test_min_interval_of_new_leader_starts_at_assignment() -> None:
    state = QUICK.initial_state(None, now=1000.0)
    requests = []
    for n in range(40):
        state, requested = QUICK.step(state, observation(MOVED, improvement=3), 1000.0 + 30 * n)
        requests += [30 * n] * requested
    assert requests == [600]
    # The next assignment follows its own: the state applies.
    again = QUICK.initial_state(state, now=2200.0)
    assert (again.not_before, again.observation) == (2200.0, None)
    assert QUICK.initial_state(RefreshState(), now=5.0).not_before == -math.inf


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_gain": 5}, "min_gain is 5: give a share"),
        ({"min_gain": math.nan}, "min_gain is nan"),
        ({"min_gain": "0.05"}, "min_gain is '0.05'"),
        ({"min_partitions": 0}, "min_partitions is 0"),
        ({"min_partitions": 1.5}, "min_partitions is 1.5"),
        ({"stable_seconds": -1}, "stable_seconds is -1: give a number of seconds, 0 or more"),
        ({"stable_seconds": True}, "stable_seconds is True"),
        ({"unstable_seconds": 60}, "unstable_seconds is 60: give a number of seconds, 120 or more"),
        ({"min_interval": math.inf}, "min_interval is inf"),
        ({"check_interval": 0}, "check_interval is 0: give a number of seconds, 0.1 or more"),
    ],
)
def test_values_out_of_range_raise(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=re.escape(message)):
        RefreshPolicy(**options)


def test_refresh_is_a_policy_or_none() -> None:
    assert validate_refresh(None) is None
    assert validate_refresh(QUICK) is QUICK
    with pytest.raises(InvalidOptionError, match="refresh is True: give a RefreshPolicy"):
        validate_refresh(True)
