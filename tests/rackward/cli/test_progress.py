from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from placement_core import TopicPartition
from rackward.cli.render.progress import figures, narrator
from rackward.reassignment import Event, events
from rackward.reassignment.progress import Progress

PLACE = TopicPartition("orders", 3)
ALL: list[Event] = [
    events.Begun(to_do=30, under_way=2, placed=4, batches=3, bytes=100),
    events.Throttled(50_000_000),
    events.OwnThrottle(3, 1000, None),
    events.BatchBegun(1, 3, 10, 20, 500),
    events.Progressed(1, 3, Progress(4, 36, 5_000_000, 20_000_000, 1_000_000.0, 15.0)),
    events.Failed(PLACE, "the topic was deleted"),
    events.Waiting(2, (5,)),
    events.Trouble("nobody answers"),
    events.Elected(1),
    events.Cancelled(7),
    events.ThrottleLifted(),
    events.ThrottleLifted(leftover=True),
    events.ThrottleLeft("nobody answers"),
    events.LeftUnderWay(2, "the run was broken off"),
]


def test_a_log_has_a_line_for_what_matters() -> None:
    file = io.StringIO()
    console = Console(file=file, width=1000, highlight=False, markup=False)
    with narrator("placement apply", console, "plan.json", as_json=False) as tell:
        for event in ALL:
            tell(event)
    lines = file.getvalue().splitlines()
    assert len(lines) == len(ALL) - 1  # a batch that begins is no news
    text = "\n".join(lines)
    for part in (
        "Partitions: 4 as planned already, 2 under way already, 30 to do in 3 batches.",
        "throttled to 50 MB/s per broker",
        "Broker 3 has a replication throttle of its own (1 kB/s)",
        "Batch 1 of 3: 4/36 partitions, 5 MB of 20 MB, 1 MB/s, 15 s left",
        "orders-3: the topic was deleted",
        "2 partitions cannot go on: broker 5 down; the rest goes on.",
        "1 preferred leader elected.",
        "7 reassignments cancelled.",
        "Lifted a throttle that an earlier run had left.",
        "THE THROTTLE COULD NOT BE LIFTED: nobody answers.",
        "Take it up again: rackward placement apply plan.json; or take it back: rackward "
        "placement cancel plan.json",
    ):
        assert part in text


def test_a_log_is_not_flooded() -> None:
    file = io.StringIO()
    console = Console(file=file, width=1000)
    with narrator("placement apply", console, "p", as_json=False) as tell:
        for number in range(200):
            tell(events.Failed(TopicPartition("t", number), "refused"))
            tell(events.Progressed(1, 1, Progress(0, 500, number, 1000)))
    assert len(file.getvalue().splitlines()) < 30


def test_a_program_gets_a_line_of_json_for_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    with narrator("placement apply", Console(), "p", as_json=True) as tell:
        for event in ALL:
            tell(event)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(told) == len(ALL)
    assert {(each["schema_version"], each["command"]) for each in told} == {(1, "placement apply")}
    assert [each["event"] for each in told][:5] == [
        *("begun", "throttled", "own_throttle", "batch_begun", "progressed")
    ]
    progressed, failed = told[4], told[5]
    assert (progressed["copied"], progressed["bytes"], progressed["rate"]) == (
        *(5_000_000, 20_000_000, 1_000_000.0),
    )
    assert (failed["topic"], failed["partition"], failed["reason"]) == (
        *("orders", 3, "the topic was deleted"),
    )


def test_a_bar_fits_eighty_columns() -> None:
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=True)
    with narrator("placement apply", console, "p", as_json=False) as tell:
        tell(events.Progressed(12, 345, Progress(4000, 36_000, 5 * 10**12, 20 * 10**12, 1e9, 1e5)))
    assert "4,000/36,000" in file.getvalue()


def test_figures_say_what_is_known() -> None:
    assert figures(Progress(1, 2, 0, 0)) == "1/2 partitions"
    assert figures(Progress(0, 2, 0, 5000)) == "0/2 partitions, 0 B of 5 kB"
    done = Progress(2, 2, 5000, 5000, 10.0, 0.0)
    assert figures(done) == "2/2 partitions, 5 kB of 5 kB"
