"""Failures of clusters and of sinks, times of snapshots, and the rate of requests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rackward.collector import (
    ClusterSource,
    Collector,
    SinkError,
    Snapshot,
    SourceError,
)
from rackward.collector.collector import RateLimiter, Worker, first_time, next_time
from rackward.kafka import UnauthorizedError, UnreachableError
from tests.support.traffic_frames import snapshot
from tests.support.waiting import Clock

SOURCE = ClusterSource("east", {})


class MemorySink:
    """A sink that stores snapshots in a list, or fails."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        self.error: SinkError | None = None
        self.flushed = self.closed = 0

    def last(self, cluster: str) -> float | None:  # noqa: ARG002
        return None

    def write(self, snapshot: Snapshot) -> None:
        if self.error is not None:
            raise self.error
        self.snapshots.append(snapshot)

    def flush(self) -> None:
        self.flushed += 1

    def close(self) -> None:
        self.closed += 1


class Connection:
    """A connection that does nothing."""

    closed = 0

    def close(self) -> None:
        Connection.closed += 1


MakeWorker = Callable[[MemorySink, Clock, Sequence[Snapshot | Exception], list[int]], Worker]


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> MakeWorker:
    """Make a worker that gets one of the snapshots, or raises it, at each attempt."""

    def make(
        sink: MemorySink, clock: Clock, snapshots: Sequence[Snapshot | Exception], opened: list[int]
    ) -> Worker:
        left = list(snapshots)

        def take(*_: Any) -> Snapshot:
            result = left.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        def connect(_: ClusterSource) -> Any:
            opened.append(len(left))
            return Connection()

        monkeypatch.setattr("rackward.collector.collector.take_snapshot", take)
        return Worker(SOURCE, sink, connect, clock, lambda _: None)

    return make


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    caplog.clear()
    return lines


def test_failures_are_logged_once_until_reachable_again(
    caplog: pytest.LogCaptureFixture, worker: MakeWorker
) -> None:
    caplog.set_level(logging.INFO, "rackward.collector")
    sink, clock, opened = MemorySink(), Clock(), list[int]()
    down = UnreachableError("connection refused by k:1")
    subject = worker(
        sink, clock, [snapshot(), down, down, UnauthorizedError("no"), snapshot()], opened
    )
    assert subject.run_once()
    assert lines(caplog) == [
        (
            "INFO",
            "east: snapshot: brokers=1 partitions=3 groups=0 members=2 commits=3 requests=0 "
            "seconds=0.0",
        )
    ]
    assert not subject.run_once()
    assert lines(caplog) == [("WARNING", "east: snapshot failed: connection refused by k:1")]
    clock.now += 60
    assert not subject.run_once()
    assert lines(caplog) == []
    assert subject.failures == 2
    # Another kind of error is logged.
    assert not subject.run_once()
    assert lines(caplog) == [("WARNING", "east: snapshot failed: no")]
    clock.now += 40
    assert subject.run_once()
    logged = lines(caplog)
    assert logged[0] == ("INFO", "east: reachable again: failures=3 seconds=100")
    assert len(logged) == 2
    assert subject.failures == 0
    assert len(sink.snapshots) == 2
    # A new connection is opened after each failure.
    assert opened == [5, 3, 2, 1]
    assert subject.result.snapshots == 2
    assert subject.result.failures == 3
    assert subject.result.error is None
    assert subject.result.rows == {"brokers": 2, "partitions": 6, "members": 4, "commits": 6}


def test_a_snapshot_that_cannot_be_written_is_a_failure(
    caplog: pytest.LogCaptureFixture, worker: MakeWorker
) -> None:
    sink, opened = MemorySink(), list[int]()
    sink.error = SinkError("the disk is full")
    subject = worker(sink, Clock(), [snapshot(), snapshot(), snapshot()], opened)
    assert not subject.run_once()
    assert not subject.run_once()
    assert [message for _, message in lines(caplog)] == ["east: snapshot failed: the disk is full"]
    assert subject.result.error == "the disk is full"
    sink.error = None
    assert subject.run_once()
    # The connection to the cluster stays open.
    assert len(opened) == 1


def test_new_faults_are_logged(caplog: pytest.LogCaptureFixture, worker: MakeWorker) -> None:
    faulty = [replace(snapshot(), faults=faults) for faults in (("a", "b"), ("a", "b"), ("c",))]
    many = replace(snapshot(), faults=tuple(f"f{n}" for n in range(9)))
    subject = worker(MemorySink(), Clock(), [*faulty, many], [])
    caplog.set_level(logging.WARNING, "rackward.collector")
    logged = []
    for _ in range(4):
        assert subject.run_once()
        logged.append([message for _, message in lines(caplog)])
    assert logged == [
        ["east: missing in the snapshot: a", "east: missing in the snapshot: b"],
        [],
        ["east: missing in the snapshot: c"],
        [
            "east: missing in the snapshot: f0",
            "east: missing in the snapshot: f1",
            "east: missing in the snapshot: f2",
            "east: missing in the snapshot: 6 more",
        ],
    ]
    assert subject.result.faults == 12


def collector(
    sink: MemorySink,
    connect: Callable[[ClusterSource], Any],
    *names: str,
    interval: float = 0.5,
) -> Collector:
    sources = [ClusterSource(name, {}) for name in names]
    return Collector(sources, sink, connect, interval=interval)


def test_an_unexpected_error_is_raised_after_the_sink_is_closed() -> None:
    sink = MemorySink()

    def connect(_: ClusterSource) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        collector(sink, connect, "east").run()
    assert (sink.flushed, sink.closed) == (1, 1)


def test_a_cluster_that_hangs_does_not_delay_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rackward.collector.collector.SHUTDOWN_SECONDS", 0.2)
    sink, hang = MemorySink(), threading.Event()

    def connect(_: ClusterSource) -> Any:
        hang.wait(60)
        raise UnreachableError("timed out")

    subject = collector(sink, connect, "east")
    try:
        results = subject.run(duration=0.1)
    finally:
        hang.set()
    assert [each.snapshots for each in results] == [0]
    assert sink.closed == 1


def test_names_of_clusters_must_be_unique() -> None:
    with pytest.raises(SourceError, match="'east'"):
        collector(MemorySink(), lambda _: None, "east", "west", "east")


# ---- Times of snapshots, and the rate of requests.


@pytest.fixture
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rackward.collector.collector.JITTER", 0.0)


@pytest.mark.usefixtures("no_jitter")
def test_times_are_multiples_of_the_interval() -> None:
    assert next_time(600.0, 60.0) == 660.0
    assert next_time(601.5, 60.0) == 660.0
    assert next_time(659.9, 60.0) == 660.0
    # A snapshot took longer than the interval: one time is skipped.
    assert next_time(725.0, 60.0) == 780.0


def test_the_jitter_is_limited() -> None:
    delays = [next_time(600.0, 60.0) - 660.0 for _ in range(200)]
    assert min(delays) >= 0
    assert max(delays) <= 6.0
    assert max(delays) - min(delays) > 4.0


@pytest.mark.usefixtures("no_jitter")
def test_failures_increase_the_delay() -> None:
    assert next_time(601.0, 60.0, failures=1) == 660.0
    waits = [next_time(601.0, 60.0, failures=n) - 601.0 for n in range(2, 9)]
    assert waits == [120.0, 240.0, 480.0, 600.0, 600.0, 600.0, 600.0]
    assert next_time(0.0, 3600.0, failures=1000) == 3600.0


@pytest.mark.usefixtures("no_jitter")
def test_a_restarted_collector_keeps_its_times() -> None:
    assert first_time(700.0, 60.0, None) == 700.0
    assert first_time(700.0, 60.0, 601.0) == 700.0
    assert first_time(650.0, 60.0, 601.0) == 660.0
    # The last snapshot is in the future, because the clock was set back.
    assert first_time(650.0, 60.0, 9999.0) == 650.0


@pytest.mark.parametrize("interval", [0, -1, float("inf")])
def test_invalid_intervals(interval: float) -> None:
    with pytest.raises(SourceError):
        collector(MemorySink(), lambda _: None, "east", interval=interval)


def test_the_rate_of_requests_is_limited() -> None:
    clock = Clock(0.0)

    def wait(seconds: float) -> None:
        clock.now += seconds

    limiter = RateLimiter(4.0, clock, wait)
    times = []
    for _ in range(5):
        limiter.acquire()
        times.append(clock.now)
    assert times == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert limiter.requests == 5
    # Time without requests permits no more of them later.
    clock.now = 100.0
    for _ in range(3):
        limiter.acquire()
    assert clock.now == 100.5
    with pytest.raises(SourceError):
        RateLimiter(0.0, clock, wait)
