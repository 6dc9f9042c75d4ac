"""The audit of groups as text of 80 columns, as lines for pipes, as JSON and as a page."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from rich.console import Console

from placement_core import InvalidOptionError
from rack_traffic.prices import PriceRule, PriceTable
from rack_traffic.report.format import Currency
from rackward.cli.audit import EPILOG, check_patterns
from rackward.cli.console import format_json
from rackward.cli.groups.list import EPILOG as LIST_EPILOG
from rackward.cli.render.audit_page import render_page
from rackward.cli.render.group_audit import report_json, show_groups, show_report
from rackward.cli.render.progress import step_reporter
from rackward.groups.reader import ClusterReading, GroupReading
from rackward.groups.report import AuditReport
from rackward.kafka.groups import ListedGroup
from tests.support.group_audits import REFUSED, UNTRUSTED_NAME, audit_report, watched
from tests.support.simulated_cluster import cluster_state

DOLLAR, PRICES = Currency("$"), PriceTable()
REPORT = audit_report()


def render(report: AuditReport, width: int = 80, prices: PriceTable = PRICES) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, markup=False, color_system=None)
    show_report(report, console, DOLLAR, prices)
    return out.getvalue()


def test_the_table_fits_80_columns() -> None:
    text = render(REPORT)
    # Commands and lines of configuration are not wrapped, so that they can be copied.
    prose = [line for line in text.splitlines() if not line.startswith("  ")]
    assert max(map(len, prose)) <= 80
    plain = " ".join(text.split())
    assert "10 groups, 12 partitions of 1 topic, 6 brokers in 3 racks (a, b, c)" in plain
    # Twelve partitions of 1 MB/s at 0.02 $/GB cost 630.72 $ in 730 hours.
    assert "0 % 83.3 % 100 % Java, range $631" in plain
    assert "0 % (83.3 %) 100 % librdkafka, new protocol, uniform" in plain
    assert "(%): the assignor of this group cannot be replaced" in plain
    assert "unknown unknown unknown Java, range unknown" in plain
    assert REFUSED in plain
    assert "has no members (state Empty)" in plain
    assert "missing, or without Describe: 1 topic (x)" in plain
    assert "rackward lead billing --take-over remove" in text
    assert "Assumed: each group reads once what was written in the last 24 hours" in plain
    assert "Assumed: 1,000 bytes per record of 3 partitions" in plain
    assert "Price: $0.02 per GB" in plain
    assert "Not read: broker 5 cannot be reached" in plain
    # One layout for all groups of the topic, named once.
    assert text.count("rackward leaders plan") == 1
    assert "\x1b" not in text


def test_the_remark_about_parentheses_needs_a_figure_in_parentheses() -> None:
    """A group of the new protocol may have no figures: no members, or topics that are gone."""
    (row,) = [each for each in REPORT.groups if each.id == "search"]
    alone = replace(REPORT, groups=(row,))
    assert "(%)" in render(alone)
    no_figures = replace(row, now=None, assignor=None, layout=None, reason="it has no members")
    assert "(%)" not in render(replace(REPORT, groups=(no_figures,)))


def test_a_line_for_each_group_where_nothing_wraps() -> None:
    lines = render(REPORT, width=100_000).splitlines()
    (line,) = [each for each in lines if each.startswith("billing ")]
    assert re.findall(r"\S+ %", line) == ["0 %", "83.3 %", "100 %"]
    assert "lead it: rackward lead billing --take-over remove" in line
    (line,) = [each for each in lines if each.startswith("secret ")]
    assert REFUSED in line
    (line,) = [each for each in lines if each.startswith("<img")]
    assert "\\x1b[31m" in line


def test_many_groups_are_cut_on_a_terminal_only() -> None:
    many = AuditReport(None, {"a": 1}, 0, 0, tuple(REPORT.groups[:1] * 30), REPORT.rates, (), ())
    assert "... and 10 more groups: --json and --html have all" in render(many)
    assert "... and of 20 more groups" in render(many)
    assert "more group" not in render(many, width=100_000)


def test_what_was_measured_is_said() -> None:
    text = " ".join(
        render(watched(REPORT), prices=PriceTable((PriceRule(1), PriceRule(2)))).split()
    )
    assert (
        "Measured for 1 min 30 s: committed offsets of 4 groups; 4 groups committed nothing" in text
    )
    assert "Price: 2 rules" in text
    assert "Assumed: each group" not in text


def test_no_groups_and_nothing_to_do() -> None:
    empty = AuditReport("c", {None: 2}, 0, 0, (), REPORT.rates)
    text = render(empty)
    assert "0 groups, 0 partitions of 0 topics, 2 brokers in 1 rack ((no rack))" in text
    assert "No consumer groups are visible" in text
    page = render_page(empty, DOLLAR, PRICES, datetime(2026, 11, 23, tzinfo=UTC))
    assert "No consumer groups are visible" in page
    refused = AuditReport("c", {"a": 2}, 0, 0, REPORT.groups[-1:], REPORT.rates)
    assert "No step would make a group more local." in render(refused)


def test_a_name_that_matches_no_group_is_an_error() -> None:
    listed = GroupReading(ListedGroup("app[1]", "consumer"), 0)
    reading = ClusterReading(cluster_state({}), (listed,))
    check_patterns(["app[1]", "app*"], reading)
    with pytest.raises(InvalidOptionError, match=r"^absent-\*: the cluster has no such group, "):
        check_patterns(["app*", "absent-*"], reading)
    check_patterns(["absent"], replace(reading, faults=("broker 1 is down",)))


@pytest.mark.parametrize("width", [80, 100_000])
def test_the_list_of_groups(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, markup=False, color_system=None)
    show_groups(audit_report(best=False), console, DOLLAR)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width
    plain = " ".join(text.split())
    order = [plain.index(f"{name} ") for name in ("billing", "fraud", "rackless", "secret")]
    assert order == sorted(order)
    assert "12 12 0 % 1.04 TB $631" in plain
    assert REFUSED in plain
    empty = AuditReport("c", {}, 0, 0, (), REPORT.rates)
    show_groups(empty, console, DOLLAR)
    assert "No consumer groups are visible" in out.getvalue()


def fields_of(value: object) -> set[str]:
    """Return the names of all fields in a document."""
    if isinstance(value, dict):
        return set(value).union(*map(fields_of, value.values()))
    if isinstance(value, list):
        return set[str]().union(*map(fields_of, value))
    return set()


@pytest.mark.parametrize("best", [True, False])
def test_the_json_has_the_documented_fields(best: bool) -> None:
    report = audit_report(best=best)
    text = format_json("audit", report_json(report, DOLLAR, PRICES, best=best))
    document = json.loads(text)
    epilog = EPILOG if best else LIST_EPILOG
    documented = set(re.findall(r"[a-z_]+", epilog.partition("JSON:")[2]))
    assert fields_of(document) <= documented
    rows = {row["group"]: row for row in document["groups"]}
    assert rows["billing"]["now"]["off_rack"] == 12
    assert rows["secret"]["reason"] == REFUSED
    assert rows["secret"]["now"] is None
    assert document["totals"]["now"]["off_rack"] == 7 * 12
    if best:
        assert rows["search"]["assignor_usable"] is False
        assert rows["search"]["layout"]["off_rack"] == 0
        assert rows["billing"]["steps"][0]["kind"] == "lead"


class Tags(HTMLParser):
    """The tags of a page and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_whole_and_escapes_names() -> None:
    page = render_page(REPORT, DOLLAR, PRICES, datetime(2026, 11, 23, 9, 30, tzinfo=UTC))
    tags = Tags()
    tags.feed(page)
    assert "script" not in tags.tags
    assert "img" not in tags.tags
    assert tags.links == ["data:,"]
    assert tags.tags.count("tr") == 1 + len(REPORT.groups)
    assert "2026-11-23 09:30 UTC" in tags.text
    assert UNTRUSTED_NAME.replace("\x1b", "\\x1b") in tags.text
    assert REFUSED in tags.text
    assert "rackward lead billing --take-over remove" in tags.text
    assert "(83.3 %)" in tags.text
    assert "\x1b" not in page


def test_progress_is_shown_after_two_seconds_and_every_five() -> None:
    out = io.StringIO()
    now = 0.0
    with step_reporter(Console(file=out, width=100), lambda: now) as progress:
        for second in range(14):
            now = float(second)
            progress(f"step {second}")
    assert out.getvalue().split("\n") == ["step 2 ...", "step 7 ...", "step 12 ...", ""]


def test_a_quick_command_shows_no_progress_on_a_terminal() -> None:
    out = io.StringIO()
    with step_reporter(Console(file=out, force_terminal=True, width=80)) as progress:
        progress("Reading groups")
    assert "Reading" not in out.getvalue()
