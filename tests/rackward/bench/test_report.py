"""The checks of results, the page, and the results that the documentation shows."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from rackward.bench.report import check_results, make_page, prediction_error, summary_table
from rackward.bench.results import Result, ResultFolder
from tests.support.bench_results import bench_run, crossing_result, result, step

EVEN_BYTES = "rackward's, after a leader layout, members even in bytes"
GOOD = [result(), crossing_result("java-range"), crossing_result("confluent-range")]
OVERHEAD, AT_REST, CHANGES, EVEN, OPTIMUM, PEERS, WRITTEN, BYTES = range(8)


def producers(**changes: Any) -> Result:
    """Return a result of producers and members that nothing contradicts, with these changes."""
    written = {"a": {"a": 600_000, "b": 10_000}, "b": {"b": 400_000}}
    plain = {"workload": "producers", "written": written, "predicted_written_share": 0.01}
    return result("producers-bytes", **{**plain, **changes})


def faults(*results: Result) -> list[tuple[str, ...]]:
    by_key: dict[tuple[str, str], list[Result]] = {}
    for each in results:
        by_key.setdefault((each.workload, each.strategy), []).append(each)
    return [check.faults for check in check_results(by_key)]


def test_good_results_contradict_nothing() -> None:
    assert faults(*GOOD, producers()) == [()] * 8


@pytest.mark.parametrize(
    ("bad", "check", "text"),
    [
        (result(log_bytes=980_000), OVERHEAD, "even, rackward, kafka-python (1): +3.1%"),
        (
            result(log_bytes=1_020_000),
            OVERHEAD,
            "even, rackward, kafka-python (1): -1.0%",
        ),
        (result(groups=2), OVERHEAD, "even, rackward, kafka-python (1): -49.5%"),
        (
            crossing_result("java-range", steps=[step(predicted_crossing_bytes=500_000)]),
            AT_REST,
            "even, Java range, client.rack (KIP-881) (1): 17.4%",
        ),
        (
            crossing_result(
                "java-range", workload="churn", steps=[step(predicted_crossing_bytes=560_000)]
            ),
            CHANGES,
            "churn, Java range, client.rack (KIP-881) (1): 56.0% predicted, 59.9% measured",
        ),
        (
            result(steps=[step(crossing=1, optimum=1)]),
            EVEN,
            "even, rackward, kafka-python (1): 1 partitions from another rack, 0.0% of the bytes, "
            "spread 1.00",
        ),
        (
            result(spread=1.2),
            EVEN,
            "even, rackward, kafka-python (1): 0 partitions from another rack, 0.0% of the bytes, "
            "spread 1.20",
        ),
        (
            result(workload="skewed", steps=[step(crossing=4, optimum=3)]),
            OPTIMUM,
            "skewed, rackward, kafka-python (1): 4, the minimum is 3",
        ),
        (
            producers(predicted_written_share=0.04),
            WRITTEN,
            f"producers, {EVEN_BYTES} (1): 4.0% predicted, 1.0% measured",
        ),
        (
            producers(spread=1.2),
            BYTES,
            f"producers, {EVEN_BYTES} (1): 1.0% written, 0.0% read, spread 1.20",
        ),
    ],
)
def test_a_injected_contradiction_is_found(bad: Result, check: int, text: str) -> None:
    found = faults(bad)
    assert found[check] == (text,)
    assert [number for number, lines in enumerate(found) if lines] == [check]


def test_a_balanced_peer_with_fewer_crossing_bytes_is_found() -> None:
    rackward = crossing_result("rackward-kafka-python", workload="one-rack-leads")
    peer = result("java-range", workload="one-rack-leads")
    assert faults(rackward, peer)[PEERS] == (
        "one-rack-leads, Java range, client.rack (KIP-881) (1): 0.0% of the bytes across racks, "
        "rackward 59.9%",
    )
    uneven = result("java-range", workload="one-rack-leads", steps=[step(max_partitions=9)])
    assert faults(rackward, uneven)[PEERS] == ()
    # Followers are read where they are: that is no assignor's merit.
    nearest = result("rackward-nearest", workload="one-rack-leads")
    assert faults(rackward, nearest)[PEERS] == ()


def test_the_error_of_a_prediction() -> None:
    assert prediction_error(crossing_result("java-range")) == pytest.approx(5 / 605)
    # Nothing is predicted to cross: responses without records do, 1 % here.
    few = result(bytes={"a": {"a": 990_000, "b": 10_000}})
    assert prediction_error(few) == pytest.approx(0.01)


def test_overhead_while_members_change_contradicts_nothing() -> None:
    # A fifth of the bytes is read again, and crosses as the others do.
    half = step(predicted_bytes=500_000, predicted_crossing_bytes=300_000)
    assert faults(crossing_result("java-range", workload="churn", steps=[half]))[CHANGES] == ()
    # Of 1,010,000 bytes, 2.0 % cross, and a little more than half as many are predicted.
    few = {"a": {"a": 990_000, "b": 20_000}}
    for predicted, count in ((10_000, 0), (9_000, 1)):
        steps = [step(predicted_crossing_bytes=predicted)]
        found = faults(result(workload="churn", bytes=few, steps=steps))[CHANGES]
        assert len(found) == count


def test_a_small_share_may_cross_where_none_is_predicted() -> None:
    for crossing, count in ((40_000, 0), (60_000, 1)):
        moved = {"a": {"a": 990_000, "b": crossing}}
        found = faults(result("rackward-nearest", workload="churn", bytes=moved))[CHANGES]
        assert len(found) == count


def test_what_was_not_measured_is_not_claimed() -> None:
    checks = check_results({("even", "java-range"): [crossing_result("java-range")]})
    assert [check.checked for check in checks] == [1, 1, 0, 0, 0, 0, 0, 0]


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
