"""Progress of the demo: plain lines and the live display."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rackward.bench.demo import DEMO_STRATEGIES
from rackward.bench.measured import GroupStatus, Progress
from rackward.bench.traffic import TrafficMatrix
from rackward.cli.demo_output import LiveProgress, progress_on, status_table

RANGE, *_, STICKY = DEMO_STRATEGIES.values()


def traffic(in_rack: int, cross_rack: int) -> TrafficMatrix:
    return {
        (reader, broker): in_rack if reader == broker else cross_rack
        for reader in "abc"
        for broker in "abc"
    }


def clock() -> float:
    return 5.0


def console(**options: object) -> Console:
    return Console(file=io.StringIO(), **options)  # type: ignore[arg-type]


XTERM = {"TERM": "xterm"}


@pytest.mark.parametrize(
    ("terminal", "environ", "reporter_type"),
    [
        (
            console(force_terminal=True, width=100, _environ=XTERM),
            {},
            LiveProgress,
        ),
        (console(width=100), {}, Progress),
        (console(force_terminal=True, _environ={"TERM": "dumb"}), {}, Progress),
        (console(force_terminal=True, width=40, _environ=XTERM), {}, Progress),
        (
            console(force_terminal=True, width=100, _environ=XTERM),
            {"CI": "true"},
            Progress,
        ),
    ],
    ids=["terminal", "file", "dumb terminal", "narrow terminal", "CI"],
)
def test_the_live_display_needs_a_capable_terminal(
    terminal: Console, environ: dict[str, str], reporter_type: type[Progress]
) -> None:
    with progress_on(terminal, clock, environ) as reporter:
        assert type(reporter) is reporter_type


def test_plain_lines_have_the_time_and_keep_markup() -> None:
    output = io.StringIO()
    with progress_on(Console(file=output, width=100), clock, {}) as reporter:
        reporter.status("downloading")
        reporter.status("downloading", "jars")
        reporter.log("jars [bold]42 MB[/bold]")
        reporter.update(lambda: [])
    assert output.getvalue() == (
        "    0 s  downloading ...\n    0 s    jars ...\n    0 s  jars [bold]42 MB[/bold]\n"
    )


def test_the_live_display_shows_events_and_ends_without_table() -> None:
    terminal = console(force_terminal=True, width=100, _environ=XTERM)
    with progress_on(terminal, clock, {}) as reporter:
        reporter.status("Step 1")
        reporter.update(lambda: [GroupStatus(RANGE, 2, 6, None, {})])
        reporter.log("a member joined")
    assert isinstance(terminal.file, io.StringIO)
    text = terminal.file.getvalue()
    assert "    0 s  a member joined" in text
    assert text.endswith("\x1b[2K")


def test_the_status_table_shows_the_state_of_each_strategy() -> None:
    output = io.StringIO()
    statuses = [
        GroupStatus(STICKY, 3, 6, 6, traffic(1_000_000, 0)),
        GroupStatus(RANGE, 2, 6, None, traffic(0, 500_000)),
    ]
    Console(file=output, width=100).print(status_table(statuses))
    text = output.getvalue()
    assert "6 of 6" in text
    assert "3.0 MB" in text
    assert "rebalancing" in text
