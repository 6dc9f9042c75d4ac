"""Tables at several widths, with and without colours, and JSON."""

from __future__ import annotations

import io
import json

import msgspec
import pytest
from rich.console import Console

from rackward.bench.demo import DemoResult, suboptimal_steps
from rackward.cli.demo_output import headline, print_result
from tests.support.demo_results import demo_result_of


def printed(result: DemoResult, width: int, *, colour: bool = False) -> str:
    output = io.StringIO()
    console = Console(file=output, width=width, force_terminal=colour, no_color=not colour)
    print_result(result, console)
    return output.getvalue()


@pytest.mark.parametrize("width", [200, 120, 96, 95, 80, 60, 40])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in printed(demo_result_of(), width).splitlines()) <= width


@pytest.mark.parametrize("width", [120, 60])
def test_the_figures_are_printed(width: int) -> None:
    text = printed(demo_result_of(), width)
    for figure in ("40.0 %", "100.0 %", "10.8 MB", "18.0 MB", "$ 18.92", "$ 0.00", "3 of 3"):
        assert figure in text
    assert "Optimal: after every rebalance" in text.replace("\n", " ")


@pytest.mark.parametrize("width", [120, 40])
def test_the_first_sentences_say_what_was_saved(width: int) -> None:
    assert " ".join(printed(demo_result_of(), width).split()).startswith(
        "rackward's groups read 100 % fewer bytes across racks. All groups read the same records, "
        "on the same brokers. With kafka-python's assignors, 60.0 % of the bytes came from another "
        "rack; with rackward's, 0.0 %. At $ 0.02 per GB, a month of 0.6 MB/s costs each group "
        "$ 18.92; with rackward, $ 0.00."
    )


def test_without_bytes_across_racks_nothing_can_be_saved() -> None:
    result = demo_result_of()
    own = result.results[-1]
    local = msgspec.structs.replace(own, strategy="kafka-python-range")
    text = str(headline(msgspec.structs.replace(result, results=[local, own])))
    assert text == "Nothing was read across racks without rackward: nothing could be saved."


def test_a_narrow_terminal_gets_a_table_for_each_strategy() -> None:
    assert printed(demo_result_of(), 120).count("Whole run") == 1
    assert printed(demo_result_of(), 60).count("Whole run") == 4


def test_a_suboptimal_result_names_the_step_and_the_figures() -> None:
    text = " ".join(printed(demo_result_of(suboptimal=True), 120).split())
    assert "NOT optimal: rackward Range after 'all members start': 2 off-rack (optimum 0)" in text


def test_estimated_bytes_are_marked_and_skipped_steps_are_named() -> None:
    text = " ".join(printed(demo_result_of(own_cluster=False), 120).split())
    assert "(estimated)" in text
    assert "that the demo did not start: a tenth of the leaders move, a broker dies" in text
    assert "the broker returns." in text


def test_no_escape_sequences_without_colours() -> None:
    assert "\x1b" not in printed(demo_result_of(), 120)
    assert "\x1b[" in printed(demo_result_of(), 120, colour=True)


def test_optimality_concerns_rackward_after_rebalances() -> None:
    assert demo_result_of().is_optimal
    suboptimal = demo_result_of(suboptimal=True)
    assert not suboptimal.is_optimal
    assert [step.event for step in suboptimal_steps(suboptimal.results[-1])] == [
        "start",
        "member-leaves",
        "member-joins",
    ]


def test_an_unbalanced_group_is_not_optimal() -> None:
    result = demo_result_of().results[-1]
    steps = [msgspec.structs.replace(step, max_partitions=4) for step in result.steps]
    assert len(suboptimal_steps(msgspec.structs.replace(result, steps=steps))) == 3


def test_the_json_has_the_figures_of_the_result() -> None:
    document = json.loads(demo_result_of().to_json())
    assert document["bytes_source"] == "brokers"
    assert document["is_optimal"] is True
    assert document["skipped_steps"] == []
    other, *_, own = document["results"]
    assert own["strategy"] == "rackward-kafka-python"
    assert other["bytes"]["a"]["b"] == 6 * 300_000
    assert [step["event"] for step in own["steps"]] == [
        "start",
        "leaders-move",
        "member-leaves",
        "member-joins",
        "broker-dies",
        "broker-returns",
    ]


def test_the_json_marks_estimated_bytes() -> None:
    document = json.loads(demo_result_of(own_cluster=False).to_json())
    assert document["bytes_source"] == "estimate"
    assert document["skipped_steps"] == ["leaders-move", "broker-dies", "broker-returns"]
