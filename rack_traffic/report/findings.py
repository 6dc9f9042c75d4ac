"""What a report says in words: one number, the changes to make first, and findings.

A change is what can be made by itself: a setting of one group, or a leader layout with the settings
of all groups that read its topics, which is for all of them or for none. So any changes can be made
together, and their savings be added.

Findings: what the figures of a report mean, what to do, and how reliable the figures are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

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
from rack_traffic.tables import LEADER_LAYOUTS, RACK_AWARE_PRODUCERS

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


# ---- The beginning of a report.

FIRST_CHANGES = 3


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change: the groups that it is for, what to do for each, and the saving per month of all.

    The first of ``groups`` saves most.
    """

    cluster: str
    groups: tuple[str, ...]
    scenario: str
    text: str
    saving_per_month: float


def planned_changes(groups: Iterable[GroupTotal]) -> tuple[PlannedChange, ...]:
    """Return the changes that save something, largest saving first."""
    together: dict[tuple[str, bool, str], list[GroupTotal]] = {}
    for each in groups:
        if each.change is not None and each.change.is_needed:
            is_layout = each.change.scenario in LEADER_LAYOUTS
            # Without the name of the layout, all layouts of the cluster are one change.
            name = each.change.layout_group if is_layout else each.group
            together.setdefault((each.cluster, is_layout, name), []).append(each)
    changes = [_planned(cluster, name, each) for (cluster, _, name), each in together.items()]
    return tuple(
        sorted(
            (each for each in changes if each.saving_per_month > 0),
            key=lambda each: (-each.saving_per_month, each.cluster, each.groups),
        )
    )


def _planned(cluster: str, name: str, groups: list[GroupTotal]) -> PlannedChange:
    ranked = sorted(groups, key=lambda each: (-each.saving, each.group))
    # The row of the layout's own group has the number of leaders; the others refer to it.
    described = next((each for each in ranked if each.group == name), ranked[0])
    return PlannedChange(
        cluster,
        tuple(each.group for each in ranked),
        described.change.scenario if described.change else "",
        described.change.text if described.change else "",
        sum(each.saving for each in ranked),
    )


@dataclass(frozen=True, slots=True)
class Headline:
    """The number with its unit, both empty if there is none, and the sentence."""

    number: str
    unit: str
    sentence: str


def headline(summary: Summary, currency: Currency) -> Headline:
    """Return what crosses, what that costs, and what the first changes would save together."""
    consumed = summary.consumed
    if not summary.groups:
        return Headline("", "", "No group consumed records in this period.")
    if not consumed.bytes:
        read = wording.count(consumed.unsized_offsets, "record")
        return Headline("", "", f"Groups consumed {read} of unknown size in this period.")
    monthly = summary.cost_per_month_now
    period_cost = total(each.traffic for each in summary.pairs).cost
    cost = currency.text(period_cost if monthly is None else monthly)
    unit = "in this period" if monthly is None else "per month"
    produced, replicated = summary.of_kind("produce"), summary.of_kind("replicate")
    if not (consumed.crossing_bytes or produced.crossing_bytes):
        known = "" if not consumed.unknown_bytes else " whose racks are known"
        return Headline(
            cost, unit, f"None of the bytes{known} that consumer groups read cross racks."
        )
    crossing = wording.percent(consumed.crossing_share)
    unknown = share(consumed.unknown_bytes, consumed.bytes)
    of_unknown = f" (the racks of {wording.percent(unknown)} are unknown)" if unknown else ""
    hours = summary.measured_hours
    written = copied = ""
    if produced.crossing_bytes:
        assumed = " (racks assumed)" if produced.assumed_bytes else ""
        share_of_writes = wording.percent(produced.crossing_share)
        written = f" and {share_of_writes} of those that producers write{assumed}"
    if replicated.cost:
        copied = " with replication"
    about = "about " if hours is not None and hours < MIN_HOURS_TO_EXTRAPOLATE else ""
    return Headline(
        cost,
        unit,
        f"{crossing} of the bytes that consumer groups read{of_unknown}{written} cross racks, "
        f"which costs {about}{cost} {unit}{copied}{_first_savings(summary, monthly, currency)}.",
    )


def _first_savings(summary: Summary, monthly: float | None, currency: Currency) -> str:
    if summary.saving_per_month is None:
        return "; what changes would save is not computed"
    changes = planned_changes(summary.parts)
    if not changes:
        return ", and no change reduces it"
    first = changes[:FIRST_CHANGES]
    saved = sum(each.saving_per_month for each in first)
    part = share(saved, monthly) if monthly else None
    of_it = "" if part is None else f" ({wording.percent(part)})"
    named = wording.count(len(changes), "change")
    if len(changes) > len(first):
        named = f"the first {len(first)} of {named}"
    together = " together" if len(first) > 1 else ""
    return f"; {named} would{together} save {currency.text(saved)} of it{of_it}"
