"""The sentence at the beginning, and the changes to make first, which can all be made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rack_traffic.report.findings import findings, headline, planned_changes
from rack_traffic.report.format import Currency
from rack_traffic.report.model import GroupTotal, PairTotal, Summary, Traffic
from rack_traffic.tables import LEADER_LAYOUTS
from tests.support.traffic_report import change, group, summary_of

DOLLAR = Currency("$")
OURS, OF_BROKERS = LEADER_LAYOUTS
"""Of groups that rackward can assign, and of groups that brokers assign."""
CROSSES = Traffic(local_bytes=40, crossing_bytes=60, cost=6.0)


def changes_of(*groups: GroupTotal) -> list[tuple[tuple[str, ...], float]]:
    return [(each.groups, each.saving_per_month) for each in planned_changes(groups)]


def test_a_leader_layout_is_one_change_of_all_its_groups() -> None:
    """It cannot be made for one of them, and may cost one of them more."""

    def laid_out(name: str, saving: float, layout_group: str, scenario: str = OURS) -> GroupTotal:
        changed = change(saving, scenario, layout_group=layout_group)
        return group(name, CROSSES, changed)

    groups = (
        laid_out("a", 5.0, "a"),
        laid_out("b", 60.0, "a"),
        laid_out("c", -10.0, "a", OF_BROKERS),
        laid_out("d", 40.0, "d"),
        group("e", CROSSES, change(50.0)),
        group("f", CROSSES, change(0.0, "as_is")),
        group("g", CROSSES),
    )
    assert changes_of(*groups) == [(("b", "a", "c"), 55.0), (("e",), 50.0), (("d",), 40.0)]
    assert sum(saving for _, saving in changes_of(*groups)) == summary_of(*groups).saving_per_month


def test_layout_is_described_by_its_first_group() -> None:
    first = change(1.0, OURS, layout_group="a")
    other = change(9.0, OURS, layout_group="a")
    groups = (
        group("a", CROSSES, first),
        GroupTotal("main", "b", CROSSES, 100.0, other),
        # A group of the same name in another cluster has a layout of its own.
        GroupTotal("web", "a", CROSSES, 100.0, other),
    )
    found = planned_changes(groups)
    assert [(each.cluster, each.groups) for each in found] == [
        ("main", ("b", "a")),
        ("web", ("a",)),
    ]
    assert found[0].text == first.text


def test_unnamed_layouts_of_a_cluster_are_one_change() -> None:
    groups = (group(name, CROSSES, change(5.0, OURS)) for name in "ab")
    assert changes_of(*groups) == [(("a", "b"), 10.0)]


@pytest.mark.parametrize(
    ("savings", "clause"),
    [
        ([30.0], "; 1 change would save $30.00 of it (30.0 %)."),
        ([30.0, 20.0], "; 2 changes would together save $50.00 of it (25.0 %)."),
        (
            [30.0, 1.0, 20.0, 10.0],
            "; the first 3 of 4 changes would together save $60.00 of it (15.0 %).",
        ),
        ([0.0], ", and no change reduces it."),
        ([], "; what changes would save is not computed."),
    ],
)
def test_the_sentence_adds_the_first_three_changes(savings: list[float], clause: str) -> None:
    changed = [group(f"g{n}", CROSSES, change(each)) for n, each in enumerate(savings)]
    groups = changed or [GroupTotal("main", "g", CROSSES, 100.0)]
    lead = headline(summary_of(*groups), DOLLAR)
    cost = 100 * len(groups)
    number = f"${cost}" if savings != [] else "$100"
    assert (lead.number, lead.unit) == (number, "per month")
    assert lead.sentence == (
        f"60.0 % of the bytes that consumer groups read cross racks, which costs {number} per "
        f"month{clause}"
    )


@pytest.mark.parametrize(
    ("summary", "number", "sentence"),
    [
        (Summary(), "", "No group consumed records in this period."),
        (
            summary_of(group("g", Traffic(unsized_offsets=7))),
            "",
            "Groups consumed 7 records of unknown size in this period.",
        ),
        (
            summary_of(group("g", Traffic(5))),
            "$0.00",
            "None of the bytes that consumer groups read cross racks.",
        ),
        (
            summary_of(group("g", Traffic(5, unknown_bytes=5))),
            "$0.00",
            "None of the bytes whose racks are known that consumer groups read cross racks.",
        ),
        (
            summary_of(GroupTotal("main", "g", CROSSES, None), hours=3),
            "$6.00",
            "60.0 % of the bytes that consumer groups read cross racks, which costs $6.00 in this "
            "period; what changes would save is not computed.",
        ),
        (
            summary_of(group("g", CROSSES, change(0.0, hours=0.2))),
            "$100",
            "60.0 % of the bytes that consumer groups read cross racks, which costs about $100 per "
            "month, and no change reduces it.",
        ),
    ],
)
def test_the_sentence_without_a_cost_per_month(
    summary: Summary, number: str, sentence: str
) -> None:
    lead = headline(summary, DOLLAR)
    assert (lead.number, lead.sentence) == (number, sentence)


def test_producers_and_replication_count() -> None:
    written = Traffic(1, 2, cost=4.0, assumed_bytes=3)
    pairs = (
        PairTotal("main", "consume", "a", "b", CROSSES),
        PairTotal("main", "produce", "a", "b", written),
        PairTotal("main", "replicate", "a", "b", Traffic(crossing_bytes=3, cost=6.0)),
    )
    producers = group("(producers)", written, change(40.0, "rack_aware_producers", now=50.0))
    summary = summary_of(group("g", CROSSES, change(0.0)), pairs=pairs)
    lead = headline(replace(summary, others=(producers,)), DOLLAR)
    assert lead.sentence == (
        "60.0 % of the bytes that consumer groups read and 66.7 % of those that producers write "
        "(racks assumed) cross racks, which costs $150 per month with replication; 1 change would "
        "save $40.00 of it (26.7 %)."
    )
    (first, *_) = findings(replace(summary, others=(producers,)), DOLLAR)
    assert first.headline == "Let producers write to leaders in their rack"
    assert first.reliability == "rough"
