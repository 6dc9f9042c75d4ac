"""Progress of the demo: plain lines and the live display."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rackward.demo.metrics import STRATEGIES
from rackward.demo.output import (
    LiveProgressReporter,
    ProgressReporter,
    StrategyStatus,
    progress_reporter,
    status_table,
)
from tests.support.demo_results import snapshot, traffic


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
            LiveProgressReporter,
        ),
        (console(width=100), {}, ProgressReporter),
        (console(force_terminal=True, _environ={"TERM": "dumb"}), {}, ProgressReporter),
        (console(force_terminal=True, width=40, _environ=XTERM), {}, ProgressReporter),
        (
            console(force_terminal=True, width=100, _environ=XTERM),
            {"CI": "true"},
            ProgressReporter,
        ),
    ],
    ids=["terminal", "file", "dumb terminal", "narrow terminal", "CI"],
)
def test_the_live_display_needs_a_capable_terminal(
    terminal: Console, environ: dict[str, str], reporter_type: type[ProgressReporter]
) -> None:
    with progress_reporter(terminal, clock, environ) as reporter:
        assert type(reporter) is reporter_type


def test_plain_lines_have_the_time_and_markup_is_printed_as_it_is() -> None:
    output = io.StringIO()
    with progress_reporter(Console(file=output, width=100), clock, {}) as reporter:
        reporter.status("downloading")
        reporter.status("downloading", "jars")
        reporter.log("jars [bold]42 MB[/bold]")
        reporter.update([])
    assert output.getvalue() == (
        "    0 s  downloading ...\n    0 s    jars ...\n    0 s  jars [bold]42 MB[/bold]\n"
    )


def test_the_live_display_shows_events_and_removes_the_table_at_the_end() -> None:
    terminal = console(force_terminal=True, width=100, _environ=XTERM)
    with progress_reporter(terminal, clock, {}) as reporter:
        reporter.status("Step 1")
        reporter.update([StrategyStatus(STRATEGIES[0], 2, None, {})])
        reporter.log("a member joined")
    assert isinstance(terminal.file, io.StringIO)
    text = terminal.file.getvalue()
    assert "    0 s  a member joined" in text
    assert text.endswith("\x1b[2K")


def test_the_status_table_shows_the_state_of_each_strategy() -> None:
    output = io.StringIO()
    statuses = [
        StrategyStatus(STRATEGIES[-1], 3, snapshot(), traffic(1_000_000, 0)),
        StrategyStatus(STRATEGIES[0], 2, None, traffic(0, 500_000)),
    ]
    Console(file=output, width=100).print(status_table(statuses))
    text = output.getvalue()
    assert "6 of 6" in text
    assert "3.0 MB" in text
    assert "rebalancing" in text
