"""The results that the documentation shows: every claim holds, and the page is made from them."""

from __future__ import annotations

from pathlib import Path

from rackward.bench.report import insert_section, make_report
from rackward.bench.results import ResultFolder

ROOT = Path(__file__).parents[3]
FOLDER = ResultFolder(ROOT / "benchmarks" / "bytes")


def test_the_page_and_its_plots_are_those_of_the_results() -> None:
    report = make_report(FOLDER.run(), FOLDER.read())
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert insert_section(page, report.markdown) == page
    for name, plot in report.plots.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == plot


def test_no_result_contradicts_a_claim() -> None:
    report = make_report(FOLDER.run(), FOLDER.read())
    assert {check.claim: check.faults for check in report.checks if check.faults} == {}
