"""The group leader's watch: from a plan and the metadata to the asking, and to what is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assignors import LeaderRackAwareCooperativeSticky, RefreshPolicy
from assignors.consumer_protocol import Subscription
from assignors.group_leader import About, Joined, Leaders, Outcome, Rebalance, Remarks
from assignors.leader_moves import LeaderWatch, PartitionState

POLICY = RefreshPolicy(settling=60, patience=300, cool_down=600, check_interval=30)
BROKERS = {0: "a", 1: "b"}
ABOUT = About("g", 1)


class Counted(LeaderRackAwareCooperativeSticky):
    """Counts its plans, and fails while it is told to."""

    plans = 0
    failing = False

    def assign(self, *arguments: Any, **named: Any) -> Any:
        if self.failing:
            raise RuntimeError("planted")
        self.plans += 1
        return super().assign(*arguments, **named)


class Group:
    """Two members in two racks, and the metadata of whoever leads them."""

    def __init__(self, policy: RefreshPolicy = POLICY, **leaders: Sequence[int]) -> None:
        self.assignor = Counted()
        self.leaders: Mapping[str, Sequence[int]] = leaders
        self.in_sync = [0, 1]
        rebalance = Rebalance("ours", self.assignor, True, None, Remarks())
        self.watch = LeaderWatch(policy, rebalance)
        self.rebalance = rebalance
        self.joined = [
            Joined(f"m{rack}", None, Subscription(topics=frozenset(leaders), rack=rack))
            for rack in "ab"
        ]

    def read(self, topics: Iterable[str]) -> tuple[Leaders, Iterable[PartitionState]]:
        named = [topic for topic in topics if topic in self.leaders]
        racks: dict[str, list[str | None]] = {
            topic: [BROKERS.get(leader) for leader in self.leaders[topic]] for topic in named
        }
        states = [
            PartitionState(topic, number, leader, 1, [leader, 1 - leader], self.in_sync)
            for topic in named
            for number, leader in enumerate(self.leaders[topic])
        ]
        return Leaders(racks, {}, frozenset(), BROKERS), states

    def plan(self, generation: int = 1, now: float = 0.0) -> Outcome:
        outcome = self.rebalance.run(lambda topics: self.read(topics)[0], self.joined)
        self.watch.begin(generation, self.joined, outcome, now)
        self.joined = [
            replace(
                one,
                subscription=replace(
                    one.subscription, owned=outcome.shares[one.id], generation=generation
                ),
            )
            for one in self.joined
        ]
        return outcome

    def asked(self, until: float, since: float = 0.0) -> list[float]:
        """When the watch asked, looking every thirty seconds."""
        looks = [30.0 * n for n in range(int(since // 30) + 1, int(until // 30) + 1)]
        return [now for now in looks if self.watch.look(self.read, now, ABOUT)]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, logger="rackward.assignors")
    return lambda: [line for line in caplog.messages if "of at best" not in line]


def test_it_asks_once_and_says_why(told: Callable[[], list[str]]) -> None:
    group = Group(t=[0, 1, 0, 1])
    group.plan()
    group.leaders = {"t": [1, 0, 0, 1]}
    assert group.asked(until=600) == [90.0]
    assert told() == [
        "ours group g generation 1: leaders have moved, and kept still for 60 s: 2 of 4 partitions"
        " are off-rack, 0 would be after a rebalance, which is asked for (gain 50.0 %)"
    ]


def test_it_solves_only_what_it_has_not_seen(told: Callable[[], list[str]]) -> None:
    group = Group(t=[0, 1, 0, 1])
    group.plan()
    plans = group.assignor.plans
    assert group.asked(until=300) == []
    assert group.assignor.plans == plans
    group.leaders = {"t": [1, 0, 1, 0]}
    group.asked(until=900, since=300)
    assert group.assignor.plans == plans + 1
    assert len(told()) == 1


def test_after_the_plan_that_it_asked_for_it_is_quiet() -> None:
    group = Group(t=[0, 1, 0, 1])
    group.plan()
    group.leaders = {"t": [1, 0, 0, 1]}
    assert group.asked(until=90) == [90.0]
    # Round one withholds what moves: there is nothing to watch. Round two is the plan.
    assert group.plan(2, now=91).withheld == 2
    assert group.asked(since=91, until=900) == []
    assert group.plan(3, now=92).withheld == 0
    assert group.asked(since=92, until=900) == []
    # They move again: the cool-down of what was asked at 90 still runs.
    group.leaders = {"t": [0, 1, 0, 1]}
    assert group.asked(since=92, until=900) == [690.0]


def test_who_takes_over_the_lead_waits_out_the_cool_down() -> None:
    group = Group(t=[0, 1])
    group.plan(generation=7, now=0)
    group.leaders = {"t": [1, 0]}
    assert group.asked(until=900) == [600.0]
    # Nor does who led before somebody else did know what that one asked.
    group.plan(generation=9, now=900)
    group.leaders = {"t": [0, 1]}
    group.plan(generation=10, now=910)
    group.leaders = {"t": [1, 0]}
    assert group.asked(since=910, until=1800)[:1] == [1500.0]


def test_a_plan_that_is_made_twice_in_a_generation_is_its_own() -> None:
    group = Group(t=[0, 1])
    for now in (0, 5):
        group.plan(generation=1, now=now)
    group.leaders = {"t": [1, 0]}
    assert group.asked(until=300) == [90.0]
    for now in (300, 305):
        group.plan(generation=2, now=now)
    group.leaders = {"t": [0, 1]}
    assert group.asked(since=305, until=900) == [690.0]


def test_a_plan_that_falls_short_is_not_made_again_and_again() -> None:
    # What is assigned is not what the assignor says now: with the same leaders it is left alone.
    group = Group(t=[0, 1, 0, 1])
    group.assignor.failing = True
    group.joined.reverse()
    group.plan()
    group.assignor.failing = False
    assert group.asked(until=3600) == []


def test_brokers_that_are_away_are_waited_for() -> None:
    group = Group(t=[0, 1, 0, 1])
    group.plan()
    group.leaders, group.in_sync = {"t": [1, 0, 0, 1]}, [1]
    assert group.asked(until=900) == [330.0]


def test_partitions_that_come_and_go_are_the_clients_to_rebalance() -> None:
    group = Group(t=[0, 1, 0, 1], u=[0])
    group.plan()
    group.leaders = {"t": [1, 0, 0, 1]}
    assert group.asked(until=900) == []
    group.leaders = {"t": [1, 0, 0, 1, 1], "u": [0]}
    assert group.asked(since=900, until=1800) == []
    # And the rest begins when they are as they were.
    group.leaders = {"t": [1, 0, 0, 1], "u": [0]}
    assert group.asked(since=1800, until=2000) == [1890.0]


def test_a_fault_is_logged_once_and_costs_the_refresh(told: Callable[[], list[str]]) -> None:
    group = Group(t=[0, 1])
    group.plan()
    group.leaders = {"t": [1, 0]}
    group.assignor.failing = True
    assert group.asked(until=900) == []
    assert told() == [
        "ours group g generation 1: cannot tell whether leaders that moved are worth a"
        " rebalance: RuntimeError('planted')"
    ]
    # It goes on when it can.
    group.assignor.failing = False
    assert group.asked(since=900, until=1500) == [990.0]


def test_large_groups_are_looked_at_less_often() -> None:
    assert [look_interval(partitions) for partitions in (1, 10_000, 50_000)] == [30, 30, 150]


def look_interval(partitions: int) -> float:
    group = Group(t=[0] * partitions)
    group.plan()
    return group.watch.interval


def test_without_a_plan_there_is_nothing_to_look_at() -> None:
    group = Group(t=[0, 1])
    assert group.asked(until=900) == []
