"""Progress of copying: bytes, rate, stalls and cancelled partitions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_core import ClusterView
from placement_core.cluster import Move
from rackward.kafka import ClusterState, ReplicaSizes
from rackward.reassignment import PlannedChange
from rackward.reassignment.progress import Progress, ProgressMeter, StallDetector
from tests.support.simulated_cluster import tp

MOVES = [
    Move(tp(0), (0,), (0, 1, 2)),
    Move(tp(1), (1,), (1, 2)),
    Move(tp(2), (1, 2), (2,)),
]
STATE = ClusterState(None, ClusterView((), leaders={tp(0): 0, tp(1): 1, tp(2): 1}))


def sizes(**bytes_by_replica: int) -> ReplicaSizes:
    """Return sizes; ``p0_b1=5`` means that the replica of partition 0 on broker 1 has 5 bytes."""
    return {(tp(int(name[1])), int(name[4])): count for name, count in bytes_by_replica.items()}


def test_copied_bytes_are_limited_by_the_size_of_the_leader() -> None:
    meter = ProgressMeter.of(MOVES, {tp(0): 100, tp(1): 50})
    assert meter.progress(0) == Progress(0, 3, 0, 250)
    # A log that grew, and a replica that is larger than its leader's.
    meter.measure(MOVES, sizes(p0_b0=120, p0_b1=60, p0_b2=500, p1_b1=50, p1_b2=10), STATE)
    assert meter.progress(10) == Progress(0, 3, 60 + 120 + 10, 2 * 120 + 50, 19.0, 100 / 19)


def test_a_partition_of_unknown_size_keeps_its_last_value() -> None:
    meter = ProgressMeter.of(MOVES, {tp(0): 100, tp(1): 50})
    meter.measure(MOVES, sizes(p0_b0=100, p0_b1=30, p0_b2=20), STATE)
    meter.measure(MOVES, sizes(p0_b0=100, p0_b1=60), STATE)
    assert meter.progress(0).bytes_copied == 50
    leaderless = replace(STATE, view=ClusterView((), leaders={}))
    meter.measure(MOVES, sizes(p0_b0=100, p0_b1=60, p0_b2=60), leaderless)
    assert meter.progress(0).bytes_copied == 50


def test_a_completed_partition_counts_in_full() -> None:
    meter = ProgressMeter.of(MOVES, {tp(0): 100, tp(1): 50})
    meter.complete([tp(0), tp(2)])
    meter.measure(MOVES, sizes(p0_b0=100, p0_b1=0, p0_b2=0), STATE)
    assert meter.progress(0) == Progress(2, 3, 200, 250)


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    meter = ProgressMeter.of([MOVES[1]], {tp(1): 10_000})
    for second in range(200):
        copied = 10 * second if second < 100 else 1000 + 50 * (second - 100)
        meter.measure([MOVES[1]], sizes(p1_b1=10_000, p1_b2=copied), STATE)
        progress = meter.progress(second)
    assert progress.rate == pytest.approx(50)
    assert progress.seconds_left == pytest.approx((10_000 - progress.bytes_copied) / 50)


@pytest.mark.parametrize(
    ("moves", "seconds"),
    [
        # Broker 0 sends 200 bytes; broker 2 receives 150.
        (MOVES, 20),
        (MOVES[1:2], 5),
        (MOVES[2:], 0),
    ],
)
def test_the_busiest_broker_decides_how_long_copying_takes(
    moves: list[Move], seconds: float
) -> None:
    known = {tp(0): 100, tp(1): 50, tp(2): 10_000}
    change = PlannedChange(ClusterView(()), tuple(moves), known, throttle=10)
    assert change.min_copy_seconds == seconds


def progress(completed: int, bytes_copied: int) -> Progress:
    return Progress(completed, 10, bytes_copied, 1000)


def test_progress_restarts_the_stall_timeout() -> None:
    detector = StallDetector(stall_timeout=10, last_progress=0)
    detector.update(0, progress(0, 0))
    assert not detector.is_stalled(9.9)
    detector.update(9, progress(0, 5))
    detector.update(15, progress(0, 5))
    assert not detector.is_stalled(18.9)
    # Fewer bytes, as after a log was truncated, are no progress.
    detector.update(18, progress(0, 4))
    assert detector.is_stalled(19)


def test_only_partitions_that_remain_idle_count_as_cancelled() -> None:
    detector = StallDetector(stall_timeout=10, last_progress=0)
    assert detector.cancelled(0, [tp(0), tp(1)]) == set()
    assert detector.cancelled(9, [tp(0)]) == set()
    assert detector.cancelled(10, [tp(0), tp(1)]) == {tp(0)}
    assert detector.cancelled(20, [tp(1)]) == {tp(1)}
