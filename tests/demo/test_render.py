"""The tables, at every width, with and without colours."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rackward.demo.measures import DemoResult
from rackward.demo.render import show
from rackward.demo.story import told
from tests.demo.results import result


def shown(found: DemoResult, width: int, *, colour: bool = False) -> str:
    sink = io.StringIO()
    console = Console(file=sink, width=width, force_terminal=colour, no_color=not colour)
    show(found, console)
    return sink.getvalue()


@pytest.mark.parametrize("width", [200, 120, 96, 95, 80, 60, 40])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in shown(result(), width).splitlines()) <= width


@pytest.mark.parametrize("width", [120, 60])
def test_the_figures_are_there(width: int) -> None:
    text = shown(result(), width)
    for figure in ("40.0 %", "100.0 %", "10.8 MB", "18.0 MB", "$ 18.92", "$ 0.00", "3 of 3"):
        assert figure in text
    assert "Optimal: after every rebalance" in text.replace("\n", " ")


def test_a_wide_terminal_gets_one_table_and_a_narrow_one_a_table_each() -> None:
    assert shown(result(), 120).count("Over the whole run") == 1
    assert shown(result(), 60).count("Over the whole run") == 4


def test_falling_short_is_said_with_the_step_and_the_numbers() -> None:
    text = " ".join(shown(result(ours_astray=True), 120).split())
    assert "NOT optimal: rackward Range after 'six members start': 2 off-rack (optimum 0)" in text


def test_an_estimate_says_so_and_names_what_was_left_out() -> None:
    text = " ".join(shown(result(told(own_cluster=False), counted=False), 120).split())
    assert "(estimated)" in text
    assert "Left out, because the cluster is not the demo's to break: a tenth of the" in text
    assert "the broker returns." in text


def test_no_colour_means_no_escape() -> None:
    assert "\x1b" not in shown(result(), 120)
    assert "\x1b[" in shown(result(), 120, colour=True)
