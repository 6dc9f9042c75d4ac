"""The tables, at every width, with and without colours."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console

from rackward.demo.metrics import DemoResult
from rackward.demo.output import SCHEMA, show, to_json
from rackward.demo.steps import told
from tests.support.demo_results import result


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


# ---- The JSON says what its documentation says.


def keys_of(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in keys_of(inner)}
    if isinstance(value, list):
        return {key for inner in value for key in keys_of(inner)}
    return set()


def test_every_key_is_documented_and_every_documented_key_is_there() -> None:
    data = {"a", "b", "c", "m-a", "m-b", "m-c"}
    documented = set(re.findall(r'"(\w+)":', SCHEMA))
    assert keys_of(json.loads(to_json(result()))) - data == documented


def test_figures_are_those_of_the_result() -> None:
    document = json.loads(to_json(result()))
    assert document["bytes_counted_by"] == "brokers"
    assert document["at_optimum"] is True
    assert document["left_out"] == []
    theirs, *_, ours = document["strategies"]
    assert ours["key"] == "our-sticky"
    assert ours["local_share"] == 1.0
    assert theirs["bytes"]["a"]["b"] == 6 * 300_000
    assert theirs["price_per_month"] == 18.92
    assert [step["key"] for step in ours["steps"]] == [
        "start",
        "leaders-move",
        "member-leaves",
        "member-joins",
        "broker-dies",
        "broker-returns",
    ]


def test_an_estimate_says_so() -> None:
    document = json.loads(to_json(result(told(own_cluster=False), counted=False)))
    assert document["bytes_counted_by"] == "estimate"
    assert document["left_out"] == ["leaders-move", "broker-dies", "broker-returns"]
