"""Reporting of progress: lines and JSON."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from placement_core import TopicPartition
from rackward.cli.live import progress_reporter, progress_text, step_reporter
from rackward.reassignment import Event
from rackward.reassignment import progress as events
from rackward.reassignment.progress import Progress

PARTITION = TopicPartition("orders", 3)
EVENTS: list[Event] = [
    events.Started(pending=30, in_progress=2, completed=4, batches=3, bytes=100),
    events.ThrottleSet(50_000_000),
    events.BrokerThrottleFound(3, 1000, None),
    events.BatchStarted(1, 3, 10, 20, 500),
    events.Progressed(1, 3, Progress(4, 36, 5_000_000, 20_000_000, 1_000_000.0, 15.0)),
    events.PartitionFailed(PARTITION, "the topic was deleted"),
    events.WaitingForBrokers(2, (5,)),
    events.RequestFailed("no broker responds"),
    events.LeadersElected(1),
    events.ReassignmentsCancelled(7),
    events.ThrottleRemoved(),
    events.ThrottleRemoved(leftover=True),
    events.ThrottleNotRemoved("no broker responds"),
    events.LeftInProgress(2, "interrupted"),
]


def test_a_log_has_a_line_for_each_event() -> None:
    file = io.StringIO()
    console = Console(file=file, width=1000, highlight=False, markup=False)
    emit = progress_reporter("placement apply", console, "plan.json", as_json=False)
    for event in EVENTS:
        emit(event)
    lines = file.getvalue().splitlines()
    assert len(lines) == len(EVENTS) - 1  # no line for BatchStarted
    text = "\n".join(lines)
    for part in (
        "Partitions: 4 already completed, 2 already in progress, 30 pending in 3 batches.",
        "Throttle set: 50.0 MB/s per broker",
        "Broker 3 has a replication throttle of its own (1.00 kB/s)",
        "Batch 1 of 3: 4/36 partitions, 5.00 MB of 20.0 MB, 1.00 MB/s, 15 s left",
        "orders-3: the topic was deleted",
        "2 partitions cannot proceed: broker 5 is down. The others proceed.",
        "1 preferred leader elected.",
        "7 reassignments cancelled.",
        "Throttle of an earlier run removed.",
        "THE THROTTLE COULD NOT BE REMOVED: no broker responds.",
        "Interrupted: the cluster is still reassigning 2 partitions, without a throttle. To "
        "resume: rackward placement apply plan.json; to cancel: rackward "
        "placement cancel plan.json",
    ):
        assert part in text


def test_a_log_has_few_lines_for_many_failures() -> None:
    file = io.StringIO()
    console = Console(file=file, width=1000)
    emit = progress_reporter("placement apply", console, "p", as_json=False)
    for number in range(200):
        emit(events.PartitionFailed(TopicPartition("t", number), "refused"))
        emit(events.Progressed(1, 1, Progress(0, 500, number, 1000)))
    assert len(file.getvalue().splitlines()) < 30


def test_json_has_a_line_for_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    emit = progress_reporter("placement apply", Console(), "p", as_json=True)
    for event in EVENTS:
        emit(event)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == len(EVENTS)
    assert {(each["schema_version"], each["command"]) for each in lines} == {(1, "placement apply")}
    assert [each["event"] for each in lines][:5] == [
        *("started", "throttle_set", "broker_throttle_found", "batch_started", "progressed")
    ]
    progressed, failed = lines[4], lines[5]
    assert (progressed["bytes_copied"], progressed["bytes"], progressed["rate"]) == (
        *(5_000_000, 20_000_000, 1_000_000.0),
    )
    assert (failed["topic"], failed["partition"], failed["reason"]) == (
        *("orders", 3, "the topic was deleted"),
    )


def test_progress_text_has_what_is_known() -> None:
    assert progress_text(Progress(1, 2, 0, 0)) == "1/2 partitions"
    assert progress_text(Progress(0, 2, 0, 5000)) == "0/2 partitions, 0 B of 5.00 kB"
    done = Progress(2, 2, 5000, 5000, 10.0, 0.0)
    assert progress_text(done) == "2/2 partitions, 5.00 kB of 5.00 kB"


def test_progress_is_shown_after_two_seconds_and_every_five() -> None:
    out = io.StringIO()
    now = 0.0
    progress = step_reporter(Console(file=out, width=100), lambda: now)
    for second in range(14):
        now = float(second)
        progress(f"step {second}")
    assert out.getvalue().split("\n") == ["step 2 ...", "step 7 ...", "step 12 ...", ""]
