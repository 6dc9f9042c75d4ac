"""The page: untrusted names, external references, repeated runs, missing tables, size."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from rack_traffic.report.findings import findings
from rack_traffic.report.format import Currency
from rack_traffic.report.model import (
    GroupTotal,
    HourTotal,
    PairTotal,
    RejectedRows,
    ScenarioTotal,
    Summary,
    Traffic,
)
from rack_traffic.report.page import PageOptions, group_columns, render_page
from tests.support.traffic_report import NOW, START, change, group, scenario, summary_of

UNTRUSTED = (
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "{{ 7 * 7 }}{% raw %}",
    "\u2028line\u2029",
    "'\"&<b>",
    "\x00\x1b[31m",
    "]]>",
)


class Page(HTMLParser):
    """Elements by name with their attributes, the text in scripts, and all other text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words = ""
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            self.scripts[-1] += data
        elif self._in != "style":
            self.words += data

    @property
    def data(self) -> dict[str, object]:
        value: dict[str, object] = json.loads(self.scripts[0])
        return value


def page_of(summary: Summary, **options: object) -> str:
    currency = Currency("$")
    page_options = PageOptions(NOW, currency=currency, **options)  # type: ignore[arg-type]
    return render_page(summary, findings(summary, currency), page_options)


def summary_with_name(name: str) -> Summary:
    traffic = Traffic(1000, 2000, 500, cost=3.0)
    changed = change(30.0, name)
    return Summary(
        clusters=summary_of(hours=30).clusters,
        pairs=(PairTotal(name, "consume", name, "b", traffic),),
        hours=(HourTotal(name, "consume", START, traffic),),
        groups=(GroupTotal(name, name, traffic, 100.0, changed),),
        scenarios=(scenario("as_is", 100), scenario(name, 70)),
        rejected_rows=(RejectedRows(name, name, 3),),
    )


def elements(page: Page) -> Counter[tuple[str, ...]]:
    return Counter((tag, *sorted(attributes)) for tag, attributes in page.elements)


@pytest.mark.parametrize("name", UNTRUSTED)
def test_names_are_escaped_everywhere(name: str) -> None:
    harmless = Page(page_of(summary_with_name("plain"), title="plain"))
    text = page_of(summary_with_name(name), title=name)
    page = Page(text)
    # Clusters are sorted by name, so the order may differ.
    assert elements(page) == elements(harmless)
    groups = page.data["groups"]
    assert isinstance(groups, dict)
    assert groups["group"] == [name]


def test_the_policy_permits_only_the_script_of_the_page() -> None:
    page = Page(page_of(summary_of(group("g", Traffic(1)))))
    policy = next(
        each["content"] or ""
        for tag, each in page.elements
        if tag == "meta" and each.get("http-equiv") == "Content-Security-Policy"
    )
    data, script = page.scripts
    assert data.startswith("{")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-inline" not in re.sub(r"style-src[^;]*;", "", policy)
    assert "http" not in policy


def test_the_page_has_no_external_references() -> None:
    page = Page(page_of(summary_of(group("g", Traffic(1), change(5.0)))))
    for _, attributes in page.elements:
        for name in ("src", "href", "action", "srcset", "poster"):
            assert (attributes.get(name) or "#").startswith(("#", "data:,")), attributes
    style = re.findall(r"url\(|@import", page_of(Summary()).split("</style>")[0])
    assert style == []


def test_the_same_input_gives_the_same_page() -> None:
    summary = summary_of(group("g", Traffic(1, 2, 3), change(5.0)), scenarios=(scenario("x", 1),))
    assert page_of(summary) == page_of(summary)


@pytest.mark.parametrize(
    ("summary", "present", "absent"),
    [
        (
            Summary(),
            ["No traffic was measured", "No group consumed records"],
            ["As a table", 'id="group-table"'],
        ),
        (
            summary_of(group("g", Traffic(5), None)),
            ["Groups and changes", "Traffic between racks", "None of the bytes"],
            [
                *("What-if: cost per scenario", "the cost is highest", "All clusters</opt"),
                *("these changes", "saved by"),
            ],
        ),
        (
            summary_of(
                group("g", Traffic(5, 5, cost=1.0), change(5.0)),
                scenarios=(scenario("as_is", 100), scenario("rackward_range", 95)),
                rejected_rows=None,
            ),
            [
                "Where the cost is highest",
                "What-if: cost per scenario",
                "the table of rejected rows is missing",
            ],
            ["counts with its current cost"],
        ),
    ],
)  # fmt: skip
def test_pages_with_missing_tables(summary: Summary, present: list[str], absent: list[str]) -> None:
    text = page_of(summary)
    for each in present:
        assert each in text, each
    for each in absent:
        assert each not in text, each


def test_the_key_figures_are_at_the_top() -> None:
    words = Page(
        page_of(
            summary_of(
                group("billing", Traffic(100, 900, cost=20.0), change(80.0)),
                scenarios=(scenario("as_is", 100), scenario("rackward_range", 20)),
            )
        )
    ).words
    places = [words.index(each) for each in ("$100", "From rack to rack", "All groups", "Terms")]
    assert places == sorted(places)
    top = words[: places[1]].replace("\u00a0", " ")
    for each in (
        *(
            "90.0 % of the bytes",
            "save $80.00 of it (80.0 %)",
            "Make this change",
            "remains $20.00",
        ),
        *("900 B of 1.00 kB", "extrapolated from 2 days", "UTC"),
    ):
        assert each in " ".join(top.split()), each


def test_what_crosses_is_one_percentage_of_all_bytes() -> None:
    """Half of the bytes have no rack: 15 of 100 cross, not 30 % of the rest."""
    traffic = Traffic(35, 15, 50, cost=1.0)
    current = ScenarioTotal("as_is", 1, 0, 20.0, 35, 15, 50, 0, 0)
    page = page_of(summary_of(group("g", traffic, change(5.0)), scenarios=(current,)))
    assert page.count("15.0 %") + page.count("15.0\u00a0%") >= 3
    assert "30.0" not in page
    assert "(the racks of 50.0\u00a0% are unknown)" in page


@pytest.mark.parametrize(
    ("assumed", "text"),
    [
        (100, "Brokers do not know where producers are; assumed: a 100 %."),
        (25, "are measured for 75.0 % of what they write; assumed for the rest: a 100 %."),
        (0, "Racks of producers are measured for 100 % of what they write."),
    ],
)
def test_the_page_says_how_racks_of_producers_are_known(assumed: int, text: str) -> None:
    written = Traffic(crossing_bytes=100, cost=1.0, assumed_bytes=assumed)
    pairs = (PairTotal("main", "produce", "a", "b", written),)
    assert text in Page(page_of(summary_of(pairs=pairs))).words.replace("\xa0", " ")


def test_the_page_of_ten_thousand_groups_is_small() -> None:
    names = [f"team-{n}-consumer" for n in range(10_000)]
    lead = [f"run rackward lead: rackward lead {name} --take-over remove" for name in names]
    groups = [
        group(name, Traffic(n, n), replace(change(1.0), text=lead[n]))
        for n, name in enumerate(names)
    ]
    columns = group_columns(groups)
    assert columns["changes"] == ["run rackward lead: rackward lead {group} --take-over remove"]
    text = page_of(summary_of(*groups))
    assert len(text.encode()) < 1_500_000
