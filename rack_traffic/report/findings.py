"""Findings: what the figures of a report mean, what to do, and how reliable the figures are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from rack_traffic.output_tables import LEADER_LAYOUTS, RACK_AWARE_PRODUCERS
from rack_traffic.report import format as wording
from rack_traffic.report.format import Currency, count
from rack_traffic.report.model import (
    MIN_HOURS_TO_EXTRAPOLATE,
    GroupTotal,
    Summary,
    Traffic,
    share,
    total,
)

Priority = Literal["act", "check", "info"]
"""``act``: change something; ``check``: look into it; ``info``: background."""

Subject = Literal["traffic", "changes", "data"]
"""What crosses racks; what to change; how complete and exact the data is."""

_LARGE_SHARE = 0.8
"""Share of the saving for which a finding names the number of groups."""
_FEW_GROUPS = 0.5
_HOT_PAIR_SHARE = 0.3
_MAX_GROUP_NAMES = 3

_CHANGES = {
    "rackward_range": ("Assign", "by the racks of leaders, as Range"),
    "rackward_cooperative_sticky": ("Assign", "by the racks of leaders, as CooperativeSticky"),
    "rackward_by_bytes": ("Assign", "by the racks of leaders, with weights by bytes"),
    "rackward_after_leader_layout": ("Lay out leaders for", "together"),
    "follower_fetching": ("Let", "fetch from followers"),
}
"""By scenario; those of LEADER_LAYOUTS are one finding. What to do depends on the client."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding: its subject, a headline and its explanation.

    ``reliability`` is that of the figures (None: exact), ``saving_per_month`` the saving if it is
    acted on (None: there is none).
    """

    priority: Priority
    subject: Subject
    headline: str
    detail: str
    reliability: str | None = None
    saving_per_month: float | None = None


def findings(summary: Summary, currency: Currency) -> tuple[Finding, ...]:
    """Return the findings of ``summary``, by priority and then by saving."""
    unsorted = [
        *_savings(summary, currency),
        *_no_change(summary),
        *_hot_pair(summary, currency),
        *_short_collection(summary),
        *reliability_findings(summary),
    ]
    order: tuple[Priority, ...] = ("act", "check", "info")
    return tuple(
        sorted(
            unsorted, key=lambda each: (order.index(each.priority), -(each.saving_per_month or 0))
        )
    )


def _savings(summary: Summary, currency: Currency) -> Iterator[Finding]:
    by_scenario: dict[str, list[GroupTotal]] = {}
    for each in summary.parts:
        if each.change is not None and each.change.is_needed:
            # One layout is for groups of both scenarios, some of which it may cost more.
            is_layout = each.change.scenario in LEADER_LAYOUTS
            scenario = LEADER_LAYOUTS[0] if is_layout else each.change.scenario
            by_scenario.setdefault(scenario, []).append(each)
    several = summary.has_several_clusters
    for scenario, groups in by_scenario.items():
        saving = sum(each.saving for each in groups)
        if saving <= 0:
            # A leader layout for groups that it saves nothing: no planned change either.
            continue
        ranked = sorted(groups, key=lambda each: each.saving, reverse=True)
        do, how = _CHANGES.get(scenario, ("Change", f"to {wording.scenario_name(scenario)}"))
        yield Finding(
            "act",
            "changes",
            "Let producers write to leaders in their rack"
            if scenario == RACK_AWARE_PRODUCERS
            else f"{do} {count(len(groups), 'group')} {how}",
            _which(ranked, saving, currency, several) + _shared(groups),
            reliability_of(total(each.traffic for each in groups)).name,
            saving,
        )


def _which(
    ranked: list[GroupTotal], saving: float, currency: Currency, several_clusters: bool
) -> str:
    named = ", ".join(
        f"{wording.group_name(each.cluster, each.group, several_clusters)} "
        f"({currency.text(each.saving)})"
        for each in ranked[:_MAX_GROUP_NAMES]
    )
    if len(ranked) == 1:
        return f"{named} per month."
    few, so_far = 0, 0.0
    while so_far < saving * _LARGE_SHARE:
        so_far += ranked[few].saving
        few += 1
    text = f"Start with {named}."
    if len(ranked) > _MAX_GROUP_NAMES and few <= len(ranked) * _FEW_GROUPS:
        these = "1 group accounts" if few == 1 else f"{few:,} of these groups account"
        text += f" {these} for {wording.percent(so_far / saving)} of the saving."
    return text


def _shared(groups: list[GroupTotal]) -> str:
    affected = sum(
        1
        for each in groups
        if each.change is not None
        and each.change.shared_topics
        and each.change.scenario in LEADER_LAYOUTS
    )
    if not affected:
        return ""
    return (
        f" {count(affected, 'group reads', 'groups read')} topics that other groups also "
        "read. The new leaders are for all of these groups together: change all of them."
    )


def _no_change(summary: Summary) -> Iterator[Finding]:
    consumed = summary.consumed
    if not summary.groups:
        yield Finding(
            "check",
            "data",
            "No group consumed records in this period",
            "Check the period, and that the collector can list the groups and their offsets.",
        )
    elif consumed.bytes and not consumed.crossing_bytes and not consumed.unknown_bytes:
        yield Finding(
            "info", "changes", "No consumer traffic crosses racks", "Groups need no change."
        )
    elif summary.saving_per_month is None and consumed.crossing_bytes:
        yield Finding(
            "check",
            "changes",
            "No what-if results",
            "The report shows cross-rack traffic, but no changes that reduce it. Run `rackward "
            "traffic what-if`, and create the report again.",
        )
    elif summary.saving_per_month == 0 and consumed.crossing_bytes:
        yield Finding(
            "info",
            "changes",
            "No change reduces the cost",
            "Every group reads as locally as its members, partition leaders and racks permit.",
        )


def _hot_pair(summary: Summary, currency: Currency) -> Iterator[Finding]:
    costs: dict[tuple[str, str, str], float] = {}
    for each in summary.pairs:
        if each.kind == "consume" and each.from_rack and each.to_rack and each.traffic.cost > 0:
            key = each.cluster, each.from_rack, each.to_rack
            costs[key] = costs.get(key, 0.0) + each.traffic.cost
    whole = sum(costs.values())
    if len(costs) < 3 or whole <= 0:
        return
    (cluster, one, other), cost = max(costs.items(), key=lambda each: (each[1], each[0]))
    if cost / whole < _HOT_PAIR_SHARE:
        return
    where = f" of cluster {cluster}" if len(summary.clusters) > 1 else ""
    yield Finding(
        "info",
        "traffic",
        f"{wording.percent(cost / whole)} of the cost is traffic from rack {one} to rack {other}",
        f"{currency.text(cost)} in this period, the highest cost of all pairs of racks{where}. "
        "The cause is a rack with more partition leaders than its members read.",
    )


def reliability_findings(summary: Summary) -> Iterator[Finding]:
    """Return findings about missing and estimated data."""
    consumed = summary.consumed
    unknown = share(consumed.unknown_bytes, consumed.bytes)
    if unknown:
        leaders = sum(
            each.traffic.unknown_bytes
            for each in summary.pairs
            if each.kind == "consume" and each.from_rack is None
        )
        members = consumed.unknown_bytes - leaders
        advice = []
        if members:
            advice.append(
                f"{wording.bytes_text(members)} were read by members without a rack: set "
                "client.rack, or map hosts and subnets to racks in the collector."
            )
        if leaders:
            advice.append(
                f"{wording.bytes_text(leaders)} were read from brokers without a rack (set "
                "broker.rack), from partitions without a known leader, or by members that join "
                "without a rack while brokers select replicas by rack (set client.rack)."
            )
        yield Finding(
            "check",
            "data",
            f"{wording.percent(unknown)} of the bytes that groups read have an unknown rack",
            " ".join([*advice, "The cost and the cross-rack share do not include these bytes."]),
        )
    estimated = share(consumed.estimated_bytes, consumed.bytes)
    if estimated and estimated >= 0.01:
        yield Finding(
            "check",
            "data",
            f"{wording.percent(estimated)} of the bytes that groups read are estimated",
            "Offsets were reset, topics were recreated, or snapshots were missing for a long time. "
            "Take snapshots more often.",
        )
    if consumed.unsized_offsets:
        yield Finding(
            "check",
            "data",
            f"The size of {count(consumed.unsized_offsets, 'record')} is unknown",
            f"Their bytes are not included. {_unsized_advice(summary)}",
        )
    if summary.rejected_rows:
        rows = sum(each.rows for each in summary.rejected_rows)
        first = summary.rejected_rows[0]
        yield Finding(
            "check",
            "data",
            f"{count(rows, 'snapshot row was', 'snapshot rows were')} rejected",
            f"The rows are invalid. The most frequent reason is {first.table}: {first.reason} "
            f"({first.rows:,} rows).",
        )
    if (text := missing_hours(summary)) is not None:
        yield Finding(
            "check", "data", text, "The report does not include the traffic of these hours."
        )


def _unsized_advice(summary: Summary) -> str:
    """Return the cause of unknown sizes: without any size in a cluster, a permission is missing."""
    traffic: dict[str, Traffic] = {}
    for each in summary.pairs:
        if each.kind == "consume":
            traffic[each.cluster] = traffic.get(each.cluster, Traffic()) + each.traffic
    unsized = {name: each.bytes for name, each in traffic.items() if each.unsized_offsets}
    advice = []
    if any(not size for size in unsized.values()):
        advice.append(
            "No sizes of partitions on disk could be read"
            f"{_of_clusters([name for name, size in unsized.items() if not size], summary)}: grant "
            "the collector the permission to describe log directories."
        )
    if any(unsized.values()):
        advice.append(
            "Snapshots are missing for longer than --max-gap, or some brokers did not report their "
            "sizes on disk"
            f"{_of_clusters([name for name, size in unsized.items() if size], summary)}: the log "
            "of the collector has the reason."
        )
    return " ".join(advice)


def _of_clusters(names: list[str], summary: Summary) -> str:
    if len(summary.clusters) < 2:
        return ""
    return f" in {', '.join(sorted(names)[:_MAX_GROUP_NAMES])}"


def _short_collection(summary: Summary) -> Iterator[Finding]:
    hours = summary.measured_hours
    if hours is not None and hours < MIN_HOURS_TO_EXTRAPOLATE:
        yield Finding(
            "check",
            "data",
            f"Costs per month are extrapolated from {wording.hours_text(hours)}",
            "Traffic varies over the day and the week, so these costs and savings are rough. "
            "Collect for a day or longer.",
        )


ReliabilityLevel = Literal["good", "fair", "rough", "none"]

MAX_GOOD_DOUBTFUL_SHARE = 0.05
MAX_FAIR_DOUBTFUL_SHARE = 0.25

LEVEL_NAMES: dict[ReliabilityLevel, str] = {
    "good": "measured",
    "fair": "partly known",
    "rough": "rough",
    "none": "no data",
}
LEVEL_MEANINGS: dict[ReliabilityLevel, str] = {
    "good": "measured from committed offsets; at most 5 % estimated or of unknown or assumed rack",
    "fair": "at most 25 % estimated or of unknown or assumed rack, or records of unknown size are "
    "left out",
    "rough": "more than 25 % estimated or of unknown or assumed rack, or no size is known",
    "none": "no records were read in the period",
}


@dataclass(frozen=True, slots=True)
class Reliability:
    """A level, and the shares of estimated and unknown-rack bytes that it follows from."""

    level: ReliabilityLevel
    estimated: float
    unknown: float

    @property
    def name(self) -> str:
        """Return the display name of the level."""
        return LEVEL_NAMES[self.level]


def reliability_of(traffic: Traffic) -> Reliability:
    """Return the reliability of the bytes and the cost of ``traffic``."""
    size = traffic.bytes
    if not size:
        return Reliability("rough" if traffic.unsized_offsets else "none", 0.0, 0.0)
    estimated = traffic.estimated_bytes / size
    unknown = traffic.unknown_bytes / size
    doubtful = estimated + unknown + traffic.assumed_bytes / size
    level: ReliabilityLevel = "rough"
    if traffic.unsized_offsets and doubtful <= MAX_FAIR_DOUBTFUL_SHARE:
        level = "fair"
    elif doubtful <= MAX_GOOD_DOUBTFUL_SHARE:
        level = "good"
    elif doubtful <= MAX_FAIR_DOUBTFUL_SHARE:
        level = "fair"
    return Reliability(level, estimated, unknown)


def missing_hours(summary: Summary) -> str | None:
    """Return how many hours between the first and last of a cluster are missing; None if none."""
    spans = {
        each.cluster: ((each.last - each.first) // timedelta(hours=1) + 1, each.hours)
        for each in summary.clusters
    }
    incomplete = {name: (span, span - seen) for name, (span, seen) in spans.items() if span > seen}
    if not incomplete:
        return None
    name, (span, missing) = max(incomplete.items(), key=lambda each: (each[1][1], each[0]))
    text = f"{count(missing, 'hour')} of {span:,} {'is' if missing == 1 else 'are'} missing"
    if len(spans) == 1:
        return text
    others = (
        f", and at most as many in {count(len(incomplete) - 1, 'other cluster')}"
        if len(incomplete) > 1
        else ""
    )
    return f"{text} in cluster {name}{others}"
