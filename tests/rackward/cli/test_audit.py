"""The audit of groups as text of 80 columns, as lines for pipes, as JSON and as a page."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import partial
from html.parser import HTMLParser
from typing import Any

import pytest
from msgspec.structs import replace

import rackward.cli.main
from placement_core import InvalidOptionError
from rack_traffic.prices import PriceRule, PriceTable
from rackward.cli.audit import (
    GroupColumn,
    GroupOrder,
    locality_style,
    show_groups,
    show_report,
)
from rackward.cli.audit_page import render_page
from rackward.cli.output import format_json
from rackward.groups.audit import check_patterns
from rackward.groups.audit_report import (
    AuditReport,
    MeasuredKind,
    MeasuredTraffic,
    MisplacedAddress,
    RackBrokers,
    UngroupedClient,
)
from rackward.groups.reading import ClusterReading, GroupReading, ReadRates
from rackward.kafka.groups import ListedGroup
from tests.support.consoles import PIPE, rendered
from tests.support.group_audits import REFUSED, STATE, UNTRUSTED_NAME, audit_report
from tests.support.simulated_cluster import cluster_state

REPORT = audit_report()
EMPTY = replace(
    REPORT, racks=(RackBrokers(None, 2),), topics=0, partitions=0, groups=(), faults=(), findings=()
)


def render(report: AuditReport, width: int = 80, *, show: Any = show_report) -> str:
    return rendered(lambda console: show(report, console), width)


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
    assert "(...) hypothetical: the assignor is fixed, but leaders can move" in plain
    assert "unknown unknown unknown Java, range unknown" in plain
    assert (
        "Read by groups: 84 partitions, 7.26 TB a day "
        "Read locally: 0 partitions, 0 B a day "
        "Rack unknown: 12 partitions, 1.04 TB a day (1 group sends no rack) "
        "Read across racks: 72 partitions, 6.22 TB a day, $3,784 a month" in plain
    )
    first = plain.split("Next steps ")[1]
    assert first.startswith("1 group sends no rack, so what crosses is unknown: set the rack of")
    assert "Java: client.rack=RACK" in first
    assert "--mapping 10.0.0.1=RACK" in first
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


def test_hypothetical_figures_are_explained() -> None:
    """A group of the new protocol may have no figures: no members, or topics that are gone."""
    (row,) = [each for each in REPORT.groups if each.group == "search"]
    alone = replace(REPORT, groups=(row,))
    assert "(...)" in render(alone)
    no_figures = replace(row, now=None, assignor=None, layout=None, reason="it has no members")
    assert "(...)" not in render(replace(REPORT, groups=(no_figures,)))


def test_a_line_for_each_group_where_nothing_wraps() -> None:
    lines = render(REPORT, width=PIPE).splitlines()
    (line,) = [each for each in lines if each.startswith("billing ")]
    assert re.findall(r"\S+ %", line) == ["0 %", "83.3 %", "100 %"]
    assert "run rackward lead: rackward lead billing --take-over remove" in line
    assert "  Java 4.4: partitioner.rack.aware=true and client.rack=RACK" in lines
    (line,) = [each for each in lines if each.startswith("secret ")]
    assert REFUSED in line
    (line,) = [each for each in lines if each.startswith("<img")]
    assert "\\x1b[31m" in line


def test_many_groups_are_cut_on_a_terminal_only() -> None:
    many = replace(REPORT, groups=REPORT.groups[:1] * 30)
    assert "... and 10 more groups: --top 30 lists all" in render(many)
    assert "Steps for 20 more groups" in render(many)
    assert "more group" not in render(many, width=PIPE)


@pytest.mark.parametrize(
    ("column", "first"),
    [
        (GroupColumn.GROUP, ["billing", "fraud"]),
        (GroupColumn.UNKNOWN, ["rackless"]),
        # As many members and partitions in all groups: by name.
        (GroupColumn.MEMBERS, [UNTRUSTED_NAME, "billing"]),
        (None, [each.group for each in REPORT.groups]),
    ],
)
def test_groups_are_sorted_and_limited(column: GroupColumn | None, first: list[str]) -> None:
    names = [each.group for each in GroupOrder(column).sorted(REPORT).groups]
    offset = names.index(first[0]) if column is GroupColumn.GROUP else 0
    assert names[offset : offset + len(first)] == first
    # Without figures.
    assert {*names[-2:]} == {"empty", "secret"}
    limited = GroupOrder(column, 3)
    assert [each.group for each in limited.json(limited.sorted(REPORT)).groups] == names[:3]
    text = render(limited.sorted(REPORT), PIPE, show=partial(show_groups, top=3))
    assert "... and 7 more groups: --top 10 lists all" in text


def test_locality_has_colours_on_terminals() -> None:
    styles = {
        row.group: [locality_style(reads) for reads in (row.now, row.layout)]
        for row in REPORT.groups
    }
    assert styles["billing"] == ["red", "green"]
    assert styles["rackless"] == ["", ""]
    assert styles["secret"] == ["", ""]


def test_what_was_measured_is_said() -> None:
    rates = ReadRates(
        dict.fromkeys(STATE.view.replicas, 1e6),
        {"billing": {}, "fraud": {}},
        measured_seconds=90.0,
    )
    prices = PriceTable((PriceRule(1), PriceRule(2)))
    text = " ".join(render(audit_report(rates, prices=prices)).split())
    assert (
        "Measured for 1 min 30 s: committed offsets of 2 groups; 6 groups committed nothing" in text
    )
    assert "Price: 2 rules" in text
    assert "Assumed: each group" not in text


def test_no_groups_and_nothing_to_do() -> None:
    text = render(EMPTY)
    assert "0 groups, 0 partitions of 0 topics, 2 brokers in 1 rack ((no rack))" in text
    assert "No consumer groups are visible" in text
    page = render_page(EMPTY, datetime(2026, 11, 23, tzinfo=UTC))
    assert "No consumer groups are visible" in page
    assert "No consumer groups are visible" in render(EMPTY, show=show_groups)
    refused = replace(REPORT, groups=REPORT.groups[-1:])
    assert "No step would make a group more local." in render(refused)


def test_a_name_that_matches_no_group_is_an_error() -> None:
    listed = GroupReading(ListedGroup("app[1]", "consumer"), 0)
    reading = ClusterReading(cluster_state({}), (listed,))
    check_patterns(["app[1]", "app*"], reading)
    with pytest.raises(InvalidOptionError, match=r"^absent-\*: the cluster has no such group, "):
        check_patterns(["app*", "absent-*"], reading)
    check_patterns(["absent"], ClusterReading(cluster_state({}), (listed,), ("broker 1 is down",)))


@pytest.mark.parametrize("width", [80, PIPE])
def test_the_list_of_groups(width: int) -> None:
    text = render(audit_report(best=False), width, show=show_groups)
    assert max(map(len, text.splitlines())) <= width
    plain = " ".join(text.split())
    order = [plain.index(f"{name} ") for name in ("billing", "fraud", "rackless", "secret")]
    assert order == sorted(order)
    # Members, partitions: local, off-rack and unknown ones, in pipes the local share, and cost.
    one, unknown = ("", "") if width == 80 else ("0 % ", "unknown ")
    assert f"3 12 0 12 0 {one}1.04 TB $631" in plain
    assert f"3 12 0 0 12 {unknown}0 B unknown" in plain
    assert REFUSED in plain


@pytest.mark.parametrize("best", [True, False])
def test_json_of_groups(best: bool) -> None:
    document = json.loads(format_json("audit", audit_report(best=best)))
    rows = {row["group"]: row for row in document["groups"]}
    assert rows["billing"]["now"]["off_rack"] == 12
    assert rows["secret"]["reason"] == REFUSED
    assert rows["secret"]["now"] is None
    totals = document["totals"]["now"]
    assert (totals["local"], totals["off_rack"], totals["unknown_partitions"]) == (0, 6 * 12, 12)
    rackless = rows["rackless"]
    assert (rackless["now"]["off_rack"], rackless["unknown"], rackless["partitions"]) == (0, 12, 12)
    assert document["racks"] == [{"rack": rack, "brokers": 2} for rack in "abc"]
    assert document["replica_selectors"] == [{"class": None, "brokers": 6}]
    assert rows["search"]["assignor_usable"] is False
    if best:
        assert rows["billing"]["now"]["cost_per_month"] == pytest.approx(630.72)
        assert rows["search"]["layout"]["off_rack"] == 0
        assert rows["billing"]["steps"][0]["kind"] == "lead"
        assert rows["billing"]["findings"][0]["reason"] == "not-optimal"
    else:
        assert rows["billing"]["assignor"] is document["totals"]["layout"] is None


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
    page = render_page(REPORT, datetime(2026, 11, 23, 9, 30, tzinfo=UTC))
    tags = Tags()
    tags.feed(page)
    assert "script" not in tags.tags
    assert "img" not in tags.tags
    assert tags.links == ["data:,", "#main"]
    assert tags.tags.count("tr") == 1 + len(REPORT.groups)
    assert "2026-11-23 09:30 UTC" in tags.text
    assert UNTRUSTED_NAME.replace("\x1b", "\\x1b") in tags.text
    assert REFUSED in tags.text
    assert "rackward lead billing --take-over remove" in tags.text
    assert "Rack unknown: 12 partitions, 1.04 TB a day (1 group sends no rack)." in tags.text
    assert "--mapping 10.0.0.1=RACK" in tags.text
    assert "(83.3 %)" in tags.text
    assert "Written (assumed): 691 GB a day, $420 a month; replication $1,261 a month." in tags.text
    assert "Rack-aware writes: save $420 a month" in tags.text
    assert "confluent: partitioners.confluent.Producer" in tags.text
    assert "\x1b" not in page


MEASURED = MeasuredTraffic(
    since=datetime(2026, 11, 14, 10, 30, tzinfo=UTC),
    until=datetime(2026, 11, 14, 12, 30, tzinfo=UTC),
    rejected=1,
    kinds=(
        MeasuredKind("consume", 2e6, 1e6, 5.0, 52.56, 5e5, 26.28),
        MeasuredKind("replicate", 0.0, 0.0, 0.0, 0.0, None, None),
    ),
    clients=tuple(
        UngroupedClient(f"2001:db8:0:1:ffff:ffff:ffff:{number}", UNTRUSTED_NAME, 1e6, 0.0)
        for number in range(22)
    ),
    misplaced=(MisplacedAddress(UNTRUSTED_NAME, "10.0.0.1", "a", "b", 1.0),),
)


def test_measured_traffic_is_shown_beside_the_estimate() -> None:
    report = replace(REPORT, measured=MEASURED)
    text = render(report)
    prose = [line for line in text.splitlines() if not line.startswith("  ")]
    assert max(map(len, prose)) <= 80
    plain = " ".join(text.split())
    assert "Measured by flow records, 120 minutes from 2026-11-14 10:30 UTC" in plain
    assert "consume 173 GB 86.4 GB+ $52.56 $26.28" in plain
    assert "10.0.0.1 declares rack a, and its network is in b: check client.rack" in plain
    assert "... and 2 more lines: use --json" in plain
    assert "Not read: 1 flow record" in plain
    assert "\x1b" not in text
    page = render_page(report, datetime(2026, 11, 14, tzinfo=UTC))
    assert "Measured by flow records" in page
    assert UNTRUSTED_NAME not in page
    document = json.loads(format_json("audit", report))
    assert document["measured"]["kinds"][0]["estimated_cost_per_month"] == 26.28


def test_flows_need_the_extra_spark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rackward.cli.audit.find_spec", lambda _: None)
    command = ["audit", "--bootstrap-server", "127.0.0.1:1", "--flows", "logs"]
    assert rackward.cli.main.run(command) == 2
    assert "pyspark is not installed: pip install 'rackward[spark]'" in capsys.readouterr().err
    assert rackward.cli.main.run([*command, "billing"]) == 2
    assert "--flows measures all groups" in capsys.readouterr().err
