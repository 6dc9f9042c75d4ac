"""What is read off a client's metadata."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from assignors.refresh import NO_GAIN, PartitionState, observe

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
