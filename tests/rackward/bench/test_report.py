"""The page, its section in another page, and its plots; every claim of the published one holds."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from rackward.bench.plots import Bar, bar_plot, line_plot
from rackward.bench.report import Report, make_report
from rackward.bench.results import ResultFolder
from tests.support.bench_results import bench_run, crossing_result, result, step

SVG = "{http://www.w3.org/2000/svg}"


def report() -> Report:
    results = {
        ("even", "java-range"): [
            crossing_result(
                "java-range", what_if={"as_is": 0.6, "rackward_cooperative_sticky": 0.012}
            ),
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
    return make_report(bench_run(), results)


def rows(workload: str) -> dict[str, list[str]]:
    """Return the cells of a workload's table by strategy."""
    section = report().markdown.partition(f"## {workload}\n")[2].partition("\n## ")[0]
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
    assert java["pause"] == "2.0 s (0.9 to 3.1)"


def test_a_summary_has_the_mean_share_across_racks_by_workload() -> None:
    lines = report().markdown.splitlines()
    first = lines.index("| strategy | even leaders | leaders move |")
    assert lines[first + 2 : first + 4] == [
        "| Java range, client.rack (KIP-881) | 55.0% | 59.9% |",
        "| rackward, kafka-python | 0.0% | 0.0% |",
    ]


def test_one_workload_needs_no_summary() -> None:
    page = make_report(bench_run(), {("even", "rackward-kafka-python"): [result()]}).markdown
    assert "The share of all bytes" not in page


def test_the_best_of_a_column_is_bold_unless_most_have_it() -> None:
    table = rows("Even leaders")
    ours = dict(zip(table["strategy"], table["rackward, kafka-python"], strict=True))
    assert ours["across"] == "**0.0%**"
    assert ours["local partitions"] == "**36 of 36**"
    assert ours["pause"] == "**0.9 s**"
    assert ours["spread"] == "1.00"


def test_forecasts_are_beside_what_was_measured() -> None:
    assert (
        "From the traffic of Java range, client.rack (KIP-881) alone, the what-if predicts across "
        "racks: 1.2% for rackward, kafka-python (measured 0.0%).\n"
    ) in report().markdown


def test_the_page_has_command_date_versions_and_checks() -> None:
    text = report().markdown
    assert "```sh\nrackward bench run --short\n```" in text
    assert "5 results, 2030-01-02, on 2 CPUs" in text
    assert "Kafka 4.3.1, Python 3.11.7" in text
    assert "| holds |" in text
    # The second repetition is far from its prediction.
    assert "**1 contradict it**: even, Java range, client.rack (KIP-881) (2): 18.8%" in text


def test_every_plot_of_the_page_is_there() -> None:
    made = report()
    linked = set(re.findall(r"\((bench-[\w-]+\.svg)\)", made.markdown))
    assert linked == set(made.plots)
    assert linked == {
        "bench-even-across.svg",
        "bench-decay-across.svg",
        "bench-decay-steps.svg",
    }
    for plot in made.plots.values():
        assert ET.fromstring(plot).tag.endswith("svg")


def test_the_value_of_a_bar_is_right_of_its_range() -> None:
    """The line of the range struck the value through."""
    plot = ET.fromstring(bar_plot("t", [Bar("a", 0.5, 0.4, 0.7, 0.5, False)]))
    ends = [float(each.get("x2", 0)) for each in plot.iter(f"{SVG}line")]
    (value,) = (each for each in plot.iter(f"{SVG}text") if each.get("class") == "value")
    assert float(value.get("x", 0)) > max(ends)


def test_names_in_plots_are_escaped() -> None:
    bars = [Bar("<a & b>", 0.5, 0.4, 0.6, 0.5, is_rackward=False)]
    assert "&lt;a &amp; b&gt;" in bar_plot("A & B", bars)
    ET.fromstring(line_plot("<t>", {"<a>": [1, 2], "b": [0, 0]}, ["b"], "partitions"))


def test_bars_are_as_long_as_their_shares() -> None:
    bars = [
        Bar("one", 0.6, 0.6, 0.6, 0.6, is_rackward=False),
        Bar("two", 0.3, 0.3, 0.3, 0.3, is_rackward=True),
    ]
    widths = [
        float(each.attrib["width"])
        for each in ET.fromstring(bar_plot("t", bars)).iter(f"{SVG}rect")
    ]
    assert widths[0] == 2 * widths[1]


# The results that the documentation shows.

ROOT = Path(__file__).parents[3]
FOLDER = ResultFolder(ROOT / "benchmarks" / "bytes")


def test_the_guide_has_the_summary_and_plots_of_the_results() -> None:
    assert FOLDER.run is not None
    report = make_report(FOLDER.run, FOLDER.results())
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert report.summary.strip() in page
    shown = set(re.findall(r"\((bench-[\w-]+\.svg)\)", page))
    assert shown == {path.name for path in (ROOT / "docs").glob("bench-*.svg")}
    for name in shown:
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == report.plots[name]


def test_no_result_contradicts_a_claim() -> None:
    assert FOLDER.run is not None
    report = make_report(FOLDER.run, FOLDER.results())
    assert {check.claim: check.faults for check in report.checks if check.faults} == {}
