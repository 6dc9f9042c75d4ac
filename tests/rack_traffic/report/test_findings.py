"""What is said of the figures, and what is not said without cause."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rack_traffic.report import findings as reliability
from rack_traffic.report.findings import Finding, findings
from rack_traffic.report.format import Currency
from rack_traffic.report.model import (
    ClusterHours,
    GroupTotal,
    PairTotal,
    SetAside,
    Summary,
    Traffic,
)
from tests.support.traffic_report import SUMMARY_START as START
from tests.support.traffic_report import change, group, summary_of

DOLLAR = Currency("$")
CROSSES = Traffic(local_bytes=40, crossing_bytes=60, cost=6.0)


def said(summary: Summary) -> dict[str, Finding]:
    return {each.headline: each for each in findings(summary, DOLLAR)}


def test_changes_come_by_kind_most_money_first() -> None:
    groups = [group(f"g{n}", CROSSES, change(10.0 * (5 - n))) for n in range(5)]
    groups.append(group("ranged", CROSSES, change(400.0, "rackward_range")))
    found = findings(summary_of(*groups), DOLLAR)
    assert [(each.weight, each.headline, each.saving_per_month) for each in found[:2]] == [
        ("act", "Move 1 group to rackward's Range assignor", 400.0),
        ("act", "Move 5 groups to rackward's CooperativeSticky assignor", 150.0),
    ]
    assert found[1].detail.startswith("Begin with g0 ($50.00), g1 ($40.00), g2 ($30.00).")
    assert found[0].sure == "measured"


def test_a_few_groups_that_bring_most_of_it_are_told() -> None:
    savings = [700.0, 100.0, *[20.0] * 10]
    groups = [group(f"g{n}", CROSSES, change(each, now=800)) for n, each in enumerate(savings)]
    (first, *_) = findings(summary_of(*groups), DOLLAR)
    assert first.detail.endswith("2 of these groups bring 80.0 % of it.")


def test_a_leader_layout_that_touches_other_groups_says_so() -> None:
    layout = "rackward_after_leader_layout"
    (first, *_) = findings(
        summary_of(
            group("a", CROSSES, change(9.0, layout, shared=2)),
            group("b", CROSSES, change(8.0, layout)),
        ),
        DOLLAR,
    )
    assert first.headline.startswith("Lay out leaders for 2 groups")
    assert "1 group reads topics that others read too" in first.detail


@pytest.mark.parametrize(
    ("summary", "headline"),
    [
        (Summary(), "No group read anything in this period"),
        (summary_of(group("g", Traffic(100))), "No byte that groups read crossed racks"),
        (summary_of(group("g", CROSSES)), "No what-if was given"),
        (summary_of(group("g", CROSSES, change(0.0))), "No change would lower the cost"),
    ],
)
def test_without_a_saving_it_says_why(summary: Summary, headline: str) -> None:
    assert headline in said(summary)
    assert all(each.weight != "act" for each in said(summary).values())


def test_unknown_racks_are_told_by_side_and_kept_out_of_the_cost() -> None:
    pairs = (
        PairTotal("main", "consume", "a", "a", Traffic(local_bytes=70_000)),
        PairTotal("main", "consume", "a", None, Traffic(unknown_bytes=20_000)),
        PairTotal("main", "consume", None, "a", Traffic(unknown_bytes=10_000)),
    )
    one = group("g", Traffic(local_bytes=70_000, unknown_bytes=30_000))
    found = said(summary_of(one, pairs=pairs))["30.0 % of what groups read has an unknown rack"]
    assert found.weight == "check"
    assert "20.0 kB went to members without a rack: set client.rack" in found.detail
    assert "10.0 kB came from brokers without a rack" in found.detail


@pytest.mark.parametrize(
    ("traffic", "level"),
    [
        (Traffic(), "none"),
        (Traffic(100), "good"),
        (Traffic(100, reported_bytes=95), "exact"),
        (Traffic(100, reported_bytes=94), "good"),
        (Traffic(95, estimated_bytes=2, unknown_bytes=5), "fair"),
        (Traffic(100, estimated_bytes=6), "fair"),
        (Traffic(100, estimated_bytes=26), "rough"),
        (Traffic(70, unknown_bytes=30, reported_bytes=100), "rough"),
    ],
)
def test_how_sure_is_a_matter_of_shares(traffic: Traffic, level: str) -> None:
    assert reliability.of(traffic).level == level


def test_what_the_data_lack_is_said_with_its_numbers() -> None:
    one = group("g", Traffic(100, estimated_bytes=30, unsized_offsets=1234))
    summary = summary_of(one, set_aside=(SetAside("commits", "no offset", 7),))
    found = said(summary)
    assert "30.0 % of what groups read is a usual rate, not a measurement" in found
    assert "1,234 records read have no known size" in found
    assert "commits: no offset (7)" in found["7 snapshot rows were set aside"].detail


def test_missing_hours_are_told() -> None:
    hours = ClusterHours("main", 20, START, START + timedelta(hours=23))
    summary = Summary(clusters=(hours,), groups=(GroupTotal("main", "g", Traffic(1), 0.0),))
    assert "4 hours of 24 are missing" in said(summary)
    whole = ClusterHours("main", 24, START, START + timedelta(hours=23))
    assert reliability.gaps(Summary(clusters=(whole,))) is None
    other = ClusterHours("web", 23, START, START + timedelta(hours=23))
    assert (
        reliability.gaps(Summary(clusters=(hours, other)))
        == "4 hours of 24 are missing in cluster main (fewer or as many in 1 other)"
    )


def test_one_pair_of_racks_that_carries_much_of_the_cost_is_told() -> None:
    def pair(one: str, other: str, cost: float) -> PairTotal:
        return PairTotal("main", "consume", one, other, Traffic(crossing_bytes=1, cost=cost))

    pairs = (pair("a", "b", 6), pair("b", "a", 2), pair("a", "c", 2))
    one = group("g", CROSSES, change(1.0))
    assert "60.0 % of the cost is read from rack a in rack b" in said(summary_of(one, pairs=pairs))
    even = tuple(pair(x, y, 1) for x in "abc" for y in "abc" if x != y)
    assert not any("of the cost is read" in each for each in said(summary_of(one, pairs=even)))


def test_replication_is_told_and_no_assignor_is_said_to_change_it() -> None:
    copied = PairTotal("main", "replicate", "a", "b", Traffic(crossing_bytes=10**9, cost=0.02))
    summary = summary_of(group("g", CROSSES), pairs=(copied,))
    found = said(summary)["Replication crosses racks too: 1.00 GB, $0.02"]
    assert found.weight == "know"
    assert found.saving_per_month is None
