"""Tables at several widths, with and without colours, and JSON."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from rackward.demo.metrics import DemoResult, steps_for
from rackward.demo.output import SCHEMA, headline, print_result, to_json
from tests.support.demo_results import demo_result


def printed(result: DemoResult, width: int, *, colour: bool = False) -> str:
    output = io.StringIO()
    console = Console(file=output, width=width, force_terminal=colour, no_color=not colour)
    print_result(result, console)
    return output.getvalue()


@pytest.mark.parametrize("width", [200, 120, 96, 95, 80, 60, 40])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in printed(demo_result(), width).splitlines()) <= width


@pytest.mark.parametrize("width", [120, 60])
def test_the_figures_are_printed(width: int) -> None:
    text = printed(demo_result(), width)
    for figure in ("40.0 %", "100.0 %", "10.8 MB", "18.0 MB", "$ 18.92", "$ 0.00", "3 of 3"):
        assert figure in text
    assert "Optimal: after every rebalance" in text.replace("\n", " ")


@pytest.mark.parametrize("width", [120, 40])
def test_the_first_sentences_say_what_was_saved(width: int) -> None:
    assert " ".join(printed(demo_result(), width).split()).startswith(
        "rackward's groups read 100 % fewer bytes across racks. All groups read the same records, "
        "on the same brokers. With kafka-python's assignors, 60.0 % of the bytes came from another "
        "rack; with rackward's, 0.0 %. At $ 0.02 per GB, a month of 0.6 MB/s costs each group "
        "$ 18.92; with rackward, $ 0.00."
    )


def test_without_bytes_across_racks_nothing_can_be_saved() -> None:
    result = demo_result()
    none = replace(result.strategies[-1], strategy=result.strategies[0].strategy)
    text = str(headline(replace(result, strategies=(none, result.strategies[-1]))))
    assert text == "Nothing was read across racks without rackward: nothing could be saved."


def test_a_narrow_terminal_gets_a_table_for_each_strategy() -> None:
    assert printed(demo_result(), 120).count("Whole run") == 1
    assert printed(demo_result(), 60).count("Whole run") == 4


def test_a_suboptimal_result_names_the_step_and_the_figures() -> None:
    text = " ".join(printed(demo_result(suboptimal=True), 120).split())
    assert "NOT optimal: rackward Range after 'all members start': 2 off-rack (optimum 0)" in text


def test_estimated_bytes_are_marked_and_skipped_steps_are_named() -> None:
    text = " ".join(
        printed(demo_result(steps_for(own_cluster=False), bytes_counted=False), 120).split()
    )
    assert "(estimated)" in text
    assert "that the demo did not start: a tenth of the leaders move, a broker dies" in text
    assert "the broker returns." in text


def test_no_escape_sequences_without_colours() -> None:
    assert "\x1b" not in printed(demo_result(), 120)
    assert "\x1b[" in printed(demo_result(), 120, colour=True)


def keys_of(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in keys_of(inner)}
    if isinstance(value, list):
        return {key for inner in value for key in keys_of(inner)}
    return set()


def test_the_schema_lists_exactly_the_keys_of_the_json() -> None:
    data = {"a", "b", "c", "m-a", "m-b", "m-c"}
    documented = set(re.findall(r'"(\w+)":', SCHEMA))
    assert keys_of(json.loads(to_json(demo_result()))) - data == documented


def test_the_json_has_the_figures_of_the_result() -> None:
    document = json.loads(to_json(demo_result()))
    assert document["bytes_source"] == "brokers"
    assert document["is_optimal"] is True
    assert document["skipped_steps"] == []
    other, *_, own = document["strategies"]
    assert own["key"] == "rackward-sticky"
    assert own["local_share"] == 1.0
    assert other["bytes"]["a"]["b"] == 6 * 300_000
    assert other["cost_per_month"] == 18.92
    assert [step["key"] for step in own["steps"]] == [
        "start",
        "leaders-move",
        "member-leaves",
        "member-joins",
        "broker-dies",
        "broker-returns",
    ]


def test_the_json_marks_estimated_bytes() -> None:
    document = json.loads(to_json(demo_result(steps_for(own_cluster=False), bytes_counted=False)))
    assert document["bytes_source"] == "estimate"
    assert document["skipped_steps"] == ["leaders-move", "broker-dies", "broker-returns"]
