from __future__ import annotations

from dataclasses import replace

import pytest

from placement_core import ClusterView
from placement_core.cluster import Move
from rackward.admin import ClusterState, ReplicaSize, Sizes
from rackward.reassignment.progress import Meter, Patience, Progress, least_seconds
from tests.support.simulated_cluster import place

MOVES = [
    Move(place(0), (0,), (0, 1, 2)),
    Move(place(1), (1,), (1, 2)),
    Move(place(2), (1, 2), (2,)),
]
STATE = ClusterState(None, ClusterView((), leaders={place(0): 0, place(1): 1, place(2): 1}))


def sizes(**given: int) -> Sizes:
    """``p0_b1=5``: the replica of partition 0 on broker 1 has 5 bytes."""
    return {
        (place(int(name[1])), int(name[4])): ReplicaSize(count, 0) for name, count in given.items()
    }


def test_bytes_are_counted_against_the_leaders() -> None:
    meter = Meter.of(MOVES, {place(0): 100, place(1): 50})
    assert meter.now(0) == Progress(0, 3, 0, 250)
    # A log that has grown, and a replica that holds more than it needs.
    meter.see(MOVES, sizes(p0_b0=120, p0_b1=60, p0_b2=500, p1_b1=50, p1_b2=10), STATE)
    assert meter.now(10) == Progress(0, 3, 60 + 120 + 10, 2 * 120 + 50, 19.0, 100 / 19)


def test_what_is_not_known_now_keeps_what_it_had() -> None:
    meter = Meter.of(MOVES, {place(0): 100, place(1): 50})
    meter.see(MOVES, sizes(p0_b0=100, p0_b1=30, p0_b2=20), STATE)
    meter.see(MOVES, sizes(p0_b0=100, p0_b1=60), STATE)
    assert meter.now(0).copied == 50
    silent = replace(STATE, view=ClusterView(()))
    meter.see(MOVES, sizes(p0_b0=100, p0_b1=60, p0_b2=60), silent)
    assert meter.now(0).copied == 50


def test_what_has_arrived_counts_in_full_and_is_not_measured_again() -> None:
    meter = Meter.of(MOVES, {place(0): 100, place(1): 50})
    meter.place([place(0), place(2)])
    meter.see(MOVES, sizes(p0_b0=100, p0_b1=0, p0_b2=0), STATE)
    assert meter.now(0) == Progress(2, 3, 200, 250)


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    meter = Meter.of([MOVES[1]], {place(1): 10_000})
    for second in range(200):
        copied = 10 * second if second < 100 else 1000 + 50 * (second - 100)
        meter.see([MOVES[1]], sizes(p1_b1=10_000, p1_b2=copied), STATE)
        now = meter.now(second)
    assert now.rate == pytest.approx(50)
    assert now.seconds == pytest.approx((10_000 - now.copied) / 50)


def test_at_a_throttle_the_busiest_broker_decides() -> None:
    known = {place(0): 100, place(1): 50, place(2): 10_000}
    # Broker 0 sends 200; broker 2 receives 150.
    assert least_seconds(MOVES, known, 10) == 20
    assert least_seconds(MOVES[1:2], known, 10) == 5
    assert least_seconds(MOVES[2:], known, 10) == 0


def test_patience_ends_without_progress_and_begins_anew_with_it() -> None:
    patience = Patience(patience=10, settle=3, since=0)
    patience.moved(0, 0, 0)
    assert not patience.over(9.9)
    patience.moved(9, 0, 5)
    patience.moved(15, 0, 5)
    assert not patience.over(18.9)
    # Fewer bytes, when a log is truncated, are no progress.
    patience.moved(18, 0, 4)
    assert patience.over(19)


def test_adrift_is_what_has_been_so_without_a_break() -> None:
    patience = Patience(patience=10, settle=3, since=0)
    assert patience.given_up(0, [place(0), place(1)]) == set()
    assert patience.given_up(2, [place(0)]) == set()
    assert patience.given_up(3, [place(0), place(1)]) == {place(0)}
    assert patience.given_up(6, [place(1)]) == {place(1)}
