"""What is said and done when clusters, or what is written to, fail and come back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rackward.admin import UnauthorizedError, UnreachableError
from rackward.collector import ClusterSource, Collector, SinkError, Snapshot, SourceError
from rackward.collector.collector import Worker
from tests.support.snapshots import snapshot

SOURCE = ClusterSource("east", {})


class Memory:
    """A sink that keeps snapshots in a list, or fails."""

    def __init__(self) -> None:
        self.kept: list[Snapshot] = []
        self.error: SinkError | None = None
        self.flushed = self.closed = 0

    def last(self, cluster: str) -> float | None:  # noqa: ARG002
        return None

    def write(self, given: Snapshot) -> bool:
        if self.error is not None:
            raise self.error
        self.kept.append(given)
        return True

    def flush(self) -> None:
        self.flushed += 1

    def close(self) -> None:
        self.closed += 1


class Connection:
    """Stands for a cluster's connection: only closed here."""

    closed = 0

    def close(self) -> None:
        Connection.closed += 1


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def worker(
    sink: Memory, clock: Clock, answers: Sequence[Snapshot | Exception], opened: list[int]
) -> Worker:
    """A worker whose cluster gives the answers, one after the other."""
    left = list(answers)

    def take(*_: Any) -> Snapshot:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def connect(_: ClusterSource) -> Any:
        opened.append(len(left))
        return Connection()

    return Worker(SOURCE, sink, connect, clock, lambda _: None, take)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    found = [(record.levelname, record.getMessage()) for record in caplog.records]
    caplog.clear()
    return found


def test_a_cluster_that_is_down_is_said_once_and_again_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rackward.collector")
    sink, clock, opened = Memory(), Clock(), list[int]()
    down = UnreachableError("nothing listens at k:1")
    subject = worker(
        sink, clock, [snapshot(), down, down, UnauthorizedError("no"), snapshot()], opened
    )
    assert subject.turn()
    assert lines(caplog) == [
        (
            "INFO",
            "east: 1 brokers, 3 partitions, 0 groups, 2 rows of members, 3 committed offsets; "
            "0 requests in 0.0 s",
        )
    ]
    assert not subject.turn()
    assert lines(caplog) == [("WARNING", "east: no snapshot: nothing listens at k:1")]
    clock.now += 60
    assert not subject.turn()
    assert lines(caplog) == []
    assert subject.failures == 2
    # Another trouble is worth another line.
    assert not subject.turn()
    assert lines(caplog) == [("WARNING", "east: no snapshot: no")]
    clock.now += 40
    assert subject.turn()
    told = lines(caplog)
    assert told[0] == ("INFO", "east: is back after 3 failed attempts and 100 s")
    assert len(told) == 2
    assert subject.failures == 0
    assert len(sink.kept) == 2
    # A connection is made anew after each failure, and kept otherwise.
    assert opened == [5, 3, 2, 1]
    assert subject.outcome.snapshots == 2
    assert subject.outcome.failures == 3
    assert subject.outcome.error is None
    assert subject.outcome.rows == {"brokers": 2, "partitions": 6, "members": 4, "commits": 6}


def test_what_cannot_be_written_is_a_failure_too(caplog: pytest.LogCaptureFixture) -> None:
    sink, opened = Memory(), list[int]()
    sink.error = SinkError("the disk is full")
    subject = worker(sink, Clock(), [snapshot(), snapshot(), snapshot()], opened)
    assert not subject.turn()
    assert not subject.turn()
    assert [message for _, message in lines(caplog)] == ["east: no snapshot: the disk is full"]
    assert subject.outcome.error == "the disk is full"
    sink.error = None
    assert subject.turn()
    # The cluster was not to blame, so its connection stayed.
    assert len(opened) == 1


def test_faults_are_told_when_they_are_new(caplog: pytest.LogCaptureFixture) -> None:
    faulty = [replace(snapshot(), faults=faults) for faults in (("a", "b"), ("a", "b"), ("c",))]
    many = replace(snapshot(), faults=tuple(f"f{n}" for n in range(9)))
    subject = worker(Memory(), Clock(), [*faulty, many], [])
    caplog.set_level(logging.WARNING, "rackward.collector")
    seen = []
    for _ in range(4):
        assert subject.turn()
        seen.append([message for _, message in lines(caplog)])
    assert seen == [
        ["east: left out: a", "east: left out: b"],
        [],
        ["east: left out: c"],
        [
            "east: left out: f0",
            "east: left out: f1",
            "east: left out: f2",
            "east: and 6 more of these",
        ],
    ]
    assert subject.outcome.faults == 12


def collector(sink: Memory, connect: Callable[[ClusterSource], Any], *names: str) -> Collector:
    sources = [ClusterSource(name, {}) for name in names]
    return Collector(sources, sink, connect, interval=0.5, seed=1)


def test_a_bug_ends_the_run_and_is_raised_after_cleaning_up() -> None:
    sink = Memory()

    def connect(_: ClusterSource) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        collector(sink, connect, "east").run()
    assert (sink.flushed, sink.closed) == (1, 1)


def test_a_cluster_that_hangs_does_not_keep_the_run_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rackward.collector.collector.GRACE_SECONDS", 0.2)
    sink, hang = Memory(), threading.Event()

    def connect(_: ClusterSource) -> Any:
        hang.wait(60)
        raise UnreachableError("at last")

    subject = collector(sink, connect, "east")
    try:
        outcomes = subject.run(duration=0.1)
    finally:
        hang.set()
    assert [each.snapshots for each in outcomes] == [0]
    assert sink.closed == 1


def test_names_of_clusters_are_unique() -> None:
    with pytest.raises(SourceError, match="'east'"):
        collector(Memory(), lambda _: None, "east", "west", "east")
