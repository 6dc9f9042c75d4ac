"""When a group is settled, and what is measured of a strategy between two checkpoints."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import cast

import pytest

from placement_core import Broker, ClusterView, TopicPartition
from rackward.bench.figures import MemberInfo
from rackward.bench.groups import GroupProcess, GroupReport, MemberState
from rackward.bench.results import Matrix
from rackward.bench.runner import Checkpoint, StrategyRun
from rackward.bench.strategies import STRATEGIES
from rackward.bench.workloads import Event


def state(partitions: Iterable[int], quiet: float = 9.0, joined: bool = True) -> MemberState:
    return MemberState(
        partitions=frozenset(partitions),
        joined=joined,
        revoked=0,
        quiet_seconds=quiet,
        positions={},
    )


def report(*states: MemberState) -> GroupReport:
    members = {f"m-{index}": each for index, each in enumerate(states)}
    return GroupReport(members, revoked=0, positions={}, failures=())


def test_settled_with_one_reader_per_partition() -> None:
    assert report(state([0, 1]), state([2])).is_settled(3)


@pytest.mark.parametrize(
    "states",
    [
        pytest.param([state([0, 1]), state([])], id="a partition without a reader"),
        pytest.param([state([0, 1]), state([1, 2])], id="a partition with two readers"),
        pytest.param([state([0, 1]), state([2], quiet=0.2)], id="just changed"),
        # Measuring began while one member read everything.
        pytest.param([state([0, 1, 2]), state([], joined=False)], id="one has not joined"),
        pytest.param([], id="no members"),
    ],
)
def test_not_settled(states: list[MemberState]) -> None:
    assert not report(*states).is_settled(3)


PARTITIONS = [TopicPartition("t", number) for number in range(4)]
MEMBERS = {name: MemberInfo(name[-1], ("t",)) for name in ("m-a", "m-b", "m-c")}
BEFORE = {"m-a": {0, 1}, "m-b": {2, 3}}
RECORD = 100


class FakeGroup:
    key = "g"


def view(leaders: str) -> ClusterView:
    """Return a view with these racks of leaders; brokers 0, 1 and 2 are in a, b and c."""
    return ClusterView(
        tuple(Broker(number, rack) for number, rack in enumerate("abc")),
        dict.fromkeys(PARTITIONS, (0, 1, 2)),
        leaders={tp: "abc".index(rack) for tp, rack in zip(PARTITIONS, leaders, strict=True)},
    )


def checkpoint(
    assignment: Mapping[str, set[int]],
    position: int,
    matrix: Matrix | None = None,
    leaders: str = "aabb",
) -> Checkpoint:
    """Return a state in which the group has read all records of each partition."""
    members = {
        name: MemberState(frozenset(numbers), True, 0, 9.0, {})
        for name, numbers in assignment.items()
    }
    positions = dict.fromkeys(range(len(PARTITIONS)), position)
    return Checkpoint(
        view(leaders),
        [position * RECORD] * len(PARTITIONS),
        [position] * len(PARTITIONS),
        {"g": GroupReport(members, 0, positions, ())},
        {"s0": matrix or {}},
    )


def strategy_run(strategy: str = "kafka-python-range") -> StrategyRun:
    group = cast("GroupProcess", FakeGroup())
    return StrategyRun(STRATEGIES[strategy], "s0", [group], [MEMBERS], PARTITIONS)


def test_a_step_is_the_difference_of_its_checkpoints() -> None:
    run = strategy_run()
    before = checkpoint(BEFORE, 10, {"a": {"a": 1000}, "b": {"a": 50}})
    after = checkpoint(
        {"m-a": {0}, "m-b": {2, 3}, "m-c": {1}}, 20, {"a": {"a": 4000}, "b": {"a": 150}}
    )
    run.sample(before, after)
    run.finish_step(Event.MEMBER_JOINS, before, after)
    (step,) = run.steps
    assert (step.event, step.bytes, step.crossing_bytes) == ("member-joins", 3100, 100)
    assert (step.moved, step.min_partitions, step.max_partitions) == (1, 1, 2)
    # c reads one partition that a leads, and so does any balanced group of these members.
    assert (step.crossing, step.optimum) == (1, 1)
    assert (step.predicted_bytes, step.predicted_crossing_bytes) == (4000, 500)


def test_a_step_has_only_its_own_prediction() -> None:
    run = strategy_run()
    states = [checkpoint(BEFORE, number) for number in (0, 10, 30)]
    for last, now in itertools.pairwise(states):
        run.sample(last, now)
        run.finish_step(Event.LEADERS_MOVE, last, now)
    assert [step.predicted_bytes for step in run.steps] == [4000, 8000]


def test_followers_in_the_readers_rack_are_predicted_as_local() -> None:
    run = strategy_run("followers-confluent-range")
    before, after = checkpoint(BEFORE, 0, leaders="bbaa"), checkpoint(BEFORE, 10, leaders="bbaa")
    run.sample(before, after)
    run.finish_step(Event.START, before, after)
    assert run.steps[0].predicted_crossing_bytes == 0
    assert run.steps[0].crossing == 0
