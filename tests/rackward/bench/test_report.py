"""The page, and the results that the documentation shows."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import pytest

from rackward.bench.report import check_results, make_page, summary_table
from rackward.bench.results import ResultFolder
from tests.support.bench_results import bench_run, crossing_result, result, step


def page() -> str:
    results = {
        ("even", "java-range"): [
            crossing_result("java-range"),
            crossing_result(
                "java-range",
                repetition=2,
                bytes={"a": {"a": 505_000, "b": 505_000}},
                longest_pause=3.1,
            ),
        ],
        ("even", "rackward-kafka-python"): [result()],
        ("decay", "java-range"): [
            crossing_result("java-range", workload="decay", steps=[step(), step(crossing=4)])
        ],
        ("decay", "rackward-kafka-python"): [result(workload="decay", steps=[step(), step()])],
    }
    return make_page(bench_run(), results)


def rows(workload: str) -> dict[str, list[str]]:
    """Return the cells of a workload's table by strategy."""
    section = page().partition(f"## {workload}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in cells}


def test_a_row_has_the_mean_and_the_range_of_repetitions() -> None:
    table = rows("Even leaders")
    heading = table["strategy"]
    java = dict(zip(heading, table["Java range, client.rack (KIP-881)"], strict=True))
    assert java["local partitions"] == "14 of 36"
    assert java["across"] == "55.0% (50.0% to 59.9%)"
    assert java["predicted"] == "60.0%"
    # 100 MB/s for 730 hours are 262,800 GB, at $ 0.02 each.
    assert java["cost"] == "$ 2,888"
    assert java["pause"] == "2.0 s"


def test_a_summary_has_the_mean_share_across_racks_by_workload() -> None:
    lines = page().splitlines()
    first = lines.index("| strategy | even leaders | leaders move |")
    assert lines[first + 2 : first + 4] == [
        "| Java range, client.rack (KIP-881) | 55.0% | 59.9% |",
        "| rackward, kafka-python | 0.0% | 0.0% |",
    ]


def test_the_page_has_command_date_versions_and_checks() -> None:
    text = page()
    assert "```sh\nrackward bench run --short\n```" in text
    assert "5 results, 2030-01-02, on 2 CPUs" in text
    assert "Kafka 4.3.1, Python 3.11.7" in text
    assert "| holds |" in text
    # The second repetition is far from its prediction.
    assert "**1 contradict it**: even, Java range, client.rack (KIP-881) (2): 18.8%" in text


# The results that the documentation shows.

ROOT = Path(__file__).parents[3]
FOLDER = ResultFolder(ROOT / "benchmarks" / "bytes")
PRODUCED = ResultFolder(ROOT / "benchmarks" / "produced_bytes")


def table_rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the table that begins with a heading, without the line below it."""
    lines = text[text.index(heading) :].splitlines()
    rows = takewhile(lambda line: line.startswith("|"), lines)
    return [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in rows
        if not row.startswith("|---")
    ]


def documentation(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_the_guide_has_rows_of_the_summary() -> None:
    heading = "| strategy | even leaders |"
    summary = table_rows("\n".join(summary_table(FOLDER.results())), heading)
    shown = table_rows(documentation("benchmarks.md"), heading)
    assert len(shown) > 5
    assert [row for row in shown if row not in summary] == []


def test_the_page_about_producers_has_columns_of_their_table() -> None:
    assert PRODUCED.run is not None
    heading = "| strategy | written across |"
    whole = table_rows(make_page(PRODUCED.run, PRODUCED.results()), heading)
    expected = [
        [strategy, written, across.partition(" (")[0], spread]
        for strategy, written, _, _, across, _, _, _, spread, *_ in whole
    ]
    assert table_rows(documentation("producers.md"), heading) == expected


@pytest.mark.parametrize("folder", [FOLDER, PRODUCED], ids=["bytes", "produced_bytes"])
def test_no_published_result_contradicts_a_claim(folder: ResultFolder) -> None:
    checks = check_results(folder.results())
    assert {check.claim: check.faults for check in checks if check.faults} == {}
