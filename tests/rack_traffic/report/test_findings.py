"""Findings: present with their figures if there is a cause, and absent otherwise."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rack_traffic.report.findings import (
    Finding,
    findings,
    missing_hours,
    reliability_of,
)
from rack_traffic.report.format import Currency
from rack_traffic.report.model import (
    ClusterHours,
    GroupTotal,
    PairTotal,
    RejectedRows,
    Summary,
    Traffic,
)
from tests.support.traffic_report import START, change, group, summary_of

DOLLAR = Currency("$")
CROSSES = Traffic(local_bytes=40, crossing_bytes=60, cost=6.0)


def by_headline(summary: Summary) -> dict[str, Finding]:
    return {each.headline: each for each in findings(summary, DOLLAR)}


def test_changes_are_grouped_by_scenario_largest_saving_first() -> None:
    groups = [group(f"g{n}", CROSSES, change(10.0 * (5 - n))) for n in range(5)]
    groups.append(group("ranged", CROSSES, change(400.0, "rackward_range")))
    actual = findings(summary_of(*groups), DOLLAR)
    assert [(each.priority, each.headline, each.saving_per_month) for each in actual[:2]] == [
        ("act", "Assign 1 group by the racks of leaders, as Range", 400.0),
        ("act", "Assign 5 groups by the racks of leaders, as CooperativeSticky", 150.0),
    ]
    assert actual[1].detail.startswith("Start with g0 ($50.00), g1 ($40.00), g2 ($30.00).")
    assert actual[0].reliability == "measured"


def test_the_number_of_groups_with_most_of_the_saving() -> None:
    savings = [700.0, 100.0, *[20.0] * 10]
    groups = [group(f"g{n}", CROSSES, change(each, now=800)) for n, each in enumerate(savings)]
    (first, *_) = findings(summary_of(*groups), DOLLAR)
    assert first.detail.endswith("2 of these groups account for 80.0 % of the saving.")


def test_a_leader_layout_of_shared_topics() -> None:
    layout = "rackward_after_leader_layout"
    (first, *_) = findings(
        summary_of(
            group("a", CROSSES, change(9.0, layout, shared=2)),
            group("b", CROSSES, change(8.0, layout)),
        ),
        DOLLAR,
    )
    assert first.headline.startswith("Lay out leaders for 2 groups")
    assert "1 group reads topics that other groups also read." in first.detail


@pytest.mark.parametrize(
    ("summary", "headline"),
    [
        (Summary(), "No group consumed records in this period"),
        (summary_of(group("g", Traffic(100))), "No consumer traffic crosses racks"),
        (summary_of(group("g", CROSSES)), "No what-if results"),
        (summary_of(group("g", CROSSES, change(0.0))), "No change reduces the cost"),
        (
            summary_of(*(group(f"g{n}", CROSSES, change(0.0, "leader_layout")) for n in range(4))),
            "No change reduces the cost",
        ),
    ],
)
def test_a_finding_explains_why_there_is_no_saving(summary: Summary, headline: str) -> None:
    assert headline in by_headline(summary)
    assert all(each.priority != "act" for each in by_headline(summary).values())


def test_unknown_racks_of_members_and_of_brokers() -> None:
    pairs = (
        PairTotal("main", "consume", "a", "a", Traffic(local_bytes=70_000)),
        PairTotal("main", "consume", "a", None, Traffic(unknown_bytes=20_000)),
        PairTotal("main", "consume", None, "a", Traffic(unknown_bytes=10_000)),
    )
    one = group("g", Traffic(local_bytes=70_000, unknown_bytes=30_000))
    actual = by_headline(summary_of(one, pairs=pairs))[
        "30.0 % of the bytes that groups read have an unknown rack"
    ]
    assert actual.priority == "check"
    assert "20.0 kB were read by members without a rack: set client.rack" in actual.detail
    assert "10.0 kB were read from brokers without a rack" in actual.detail


@pytest.mark.parametrize(
    ("traffic", "level"),
    [
        (Traffic(), "none"),
        (Traffic(100), "good"),
        (Traffic(95, estimated_bytes=2, unknown_bytes=5), "fair"),
        (Traffic(100, estimated_bytes=6), "fair"),
        (Traffic(100, estimated_bytes=26), "rough"),
        (Traffic(70, unknown_bytes=30), "rough"),
        (Traffic(100, unsized_offsets=59_800_000), "fair"),
        (Traffic(unsized_offsets=7), "rough"),
    ],
)
def test_reliability_follows_from_shares(traffic: Traffic, level: str) -> None:
    assert reliability_of(traffic).level == level


def test_missing_data() -> None:
    one = group("g", Traffic(100, estimated_bytes=30, unsized_offsets=1234))
    summary = summary_of(one, rejected_rows=(RejectedRows("commits", "no offset", 7),))
    actual = by_headline(summary)
    assert "30.0 % of the bytes that groups read are estimated" in actual
    assert "The size of 1,234 records is unknown" in actual
    assert "commits: no offset (7 rows)" in actual["7 snapshot rows were rejected"].detail


def test_the_cause_of_unknown_sizes() -> None:
    """Without Describe on the cluster no size is known at all; a gap leaves others known."""
    pairs = (
        PairTotal("gap", "consume", "a", "a", Traffic(100, unsized_offsets=5)),
        PairTotal("denied", "consume", "a", "a", Traffic(unsized_offsets=5)),
    )
    groups = [GroupTotal(each.cluster, "g", each.traffic, None) for each in pairs]
    clusters = tuple(ClusterHours(each.cluster, 1, START, START) for each in pairs)
    for given, permission, gap in ((pairs, True, True), (pairs[:1], False, True)):
        summary = Summary(
            clusters=clusters[: len(given)], pairs=given, groups=tuple(groups[: len(given)])
        )
        headline = f"The size of {5 * len(given)} records is unknown"
        detail = by_headline(summary)[headline].detail
        assert ("in denied: grant the collector the permission" in detail) == permission
        assert ("longer than --max-gap" in detail) == gap


@pytest.mark.parametrize(
    ("hours", "text"), [(0.2, "12 minutes"), (1.0, "1 hour"), (23.0, "23 hours"), (24.0, None)]
)
def test_a_month_that_is_extrapolated_from_less_than_a_day(hours: float, text: str | None) -> None:
    actual = by_headline(summary_of(group("g", CROSSES, change(1.0, hours=hours))))
    shown = [each for each in actual if each.startswith("Costs per month are extrapolated from")]
    assert shown == ([] if text is None else [f"Costs per month are extrapolated from {text}"])


def test_groups_of_several_clusters_are_named_with_their_cluster() -> None:
    groups = [
        GroupTotal(cluster, "billing", CROSSES, 100.0, change(saving))
        for cluster, saving in (("east", 20.0), ("west", 10.0))
    ]
    (first, *_) = findings(summary_of(*groups), DOLLAR)
    assert first.detail.startswith("Start with east / billing ($20.00), west / billing ($10.00).")


def test_the_savings_of_findings_add_up_to_the_total() -> None:
    """A layout may cost a group more, also one that brokers assign."""
    groups = [
        group("g", CROSSES, change(900.0, "rackward_after_leader_layout")),
        group("h", CROSSES, change(-50.0, "rackward_after_leader_layout")),
        group("i", CROSSES, change(-30.0, "leader_layout")),
        group("j", CROSSES, change(7.0)),
    ]
    summary = summary_of(*groups)
    first, second, *_ = findings(summary, DOLLAR)
    assert first.headline == "Lay out leaders for 3 groups together"
    assert (first.saving_per_month, second.saving_per_month) == (820.0, 7.0)
    assert summary.saving_per_month == 827.0


def test_missing_hours() -> None:
    hours = ClusterHours("main", 20, START, START + timedelta(hours=23))
    summary = Summary(clusters=(hours,), groups=(GroupTotal("main", "g", Traffic(1), 0.0),))
    assert "4 hours of 24 are missing" in by_headline(summary)
    whole = ClusterHours("main", 24, START, START + timedelta(hours=23))
    assert missing_hours(Summary(clusters=(whole,))) is None
    other = ClusterHours("web", 23, START, START + timedelta(hours=23))
    assert (
        missing_hours(Summary(clusters=(hours, other)))
        == "4 hours of 24 are missing in cluster main, and at most as many in 1 other cluster"
    )


def test_a_pair_of_racks_with_much_of_the_cost() -> None:
    def pair(one: str, other: str, cost: float) -> PairTotal:
        return PairTotal("main", "consume", one, other, Traffic(crossing_bytes=1, cost=cost))

    pairs = (pair("a", "b", 6), pair("b", "a", 2), pair("a", "c", 2))
    one = group("g", CROSSES, change(1.0))
    assert "60.0 % of the cost is traffic from rack a to rack b" in by_headline(
        summary_of(one, pairs=pairs)
    )
    even = tuple(pair(x, y, 1) for x in "abc" for y in "abc" if x != y)
    assert not any(
        "of the cost is traffic" in each for each in by_headline(summary_of(one, pairs=even))
    )
