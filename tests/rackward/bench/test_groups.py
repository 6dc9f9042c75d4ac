"""Conditions under which a group is settled."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rackward.bench.groups import GroupReport, MemberState


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
