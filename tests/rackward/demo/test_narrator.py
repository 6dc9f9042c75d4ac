"""What is said while the demo runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rackward.demo.output import (
    Glance,
    LiveNarrator,
    Narrator,
    PlainNarrator,
    narrator_for,
    picture,
)
from rackward.demo.steps import STRATEGIES
from tests.support.demo_results import matrix, standing


def clock() -> float:
    return 5.0


def console(**options: object) -> Console:
    return Console(file=io.StringIO(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "environ", "kind"),
    [
        (console(force_terminal=True, width=100, _environ={"TERM": "xterm"}), {}, LiveNarrator),
        (console(width=100), {}, PlainNarrator),
        (console(force_terminal=True, _environ={"TERM": "dumb"}), {}, PlainNarrator),
        (console(force_terminal=True, width=40, _environ={"TERM": "xterm"}), {}, PlainNarrator),
        (
            console(force_terminal=True, width=100, _environ={"TERM": "xterm"}),
            {"CI": "true"},
            PlainNarrator,
        ),
    ],
)
def test_a_live_picture_only_where_it_can_be_shown(
    made: Console, environ: dict[str, str], kind: type[Narrator]
) -> None:
    assert type(narrator_for(made, clock, environ)) is kind


def test_plain_lines_carry_the_time_and_nothing_is_wrapped_into_markup() -> None:
    sink = io.StringIO()
    with PlainNarrator(Console(file=sink, width=100), clock) as narrator:
        narrator.now("downloading")
        narrator.note("jars [42 MB]")
        narrator.glance([])
    assert sink.getvalue() == "    0 s  downloading ...\n    0 s  jars [42 MB]\n"


def test_the_picture_shows_where_a_strategy_stands() -> None:
    sink = io.StringIO()
    ours = STRATEGIES[-1]
    rows = [
        Glance(ours, 3, standing(), matrix(1_000_000, 0)),
        Glance(STRATEGIES[0], 2, None, matrix(0, 500_000)),
    ]
    Console(file=sink, width=100).print(picture(rows))
    text = sink.getvalue()
    assert "6 of 6" in text
    assert "3.0 MB" in text
    assert "rebalancing" in text
