"""What the figures mean, in plain words: what to do first, what it brings, how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from rack_traffic.report import format as wording
from rack_traffic.report.format import Currency, count
from rack_traffic.report.model import GroupTotal, Summary, Traffic, share, total

Weight = Literal["act", "check", "know"]
"""Do something about it; look into it; good to know."""

_MOST_OF_IT = 0.8
_FEW_GROUPS = 0.5
_HOT_PAIR = 0.3
_NAMED_GROUPS = 3

_CHANGES = {
    "rackward_range": ("Move", "to rackward's Range assignor"),
    "rackward_cooperative_sticky": ("Move", "to rackward's CooperativeSticky assignor"),
    "rackward_after_leader_layout": (
        "Lay out leaders for",
        "with rackward's CooperativeSticky assignor",
    ),
    "follower_fetching": ("Let", "fetch from followers"),
    "apache_range": ("Move", "to Apache's Range assignor"),
    "apache_cooperative_sticky": ("Move", "to Apache's CooperativeSticky assignor"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know: a headline, what lies behind it, and how sure it is (None: a fact).

    ``saving_per_month`` is what acting on it would save, None where that is not the point.
    """

    weight: Weight
    headline: str
    detail: str
    sure: str | None = None
    saving_per_month: float | None = None


def findings(summary: Summary, currency: Currency) -> tuple[Finding, ...]:
    """All that ``summary`` gives cause to say: what to act on first, by what it saves."""
    found = [
        *_savings(summary, currency),
        *_no_change(summary),
        *_hot_pair(summary, currency),
        *reliability_findings(summary),
        *_replication(summary, currency),
    ]
    order: tuple[Weight, ...] = ("act", "check", "know")
    return tuple(
        sorted(found, key=lambda each: (order.index(each.weight), -(each.saving_per_month or 0)))
    )


def _savings(summary: Summary, currency: Currency) -> Iterator[Finding]:
    by_scenario: dict[str, list[GroupTotal]] = {}
    for each in summary.groups:
        if each.change is not None and each.change.saving_per_month > 0:
            by_scenario.setdefault(each.change.scenario, []).append(each)
    for scenario, groups in by_scenario.items():
        saving = sum(_saving(each) for each in groups)
        ranked = sorted(groups, key=_saving, reverse=True)
        do, how = _CHANGES.get(scenario, ("Change", f"to {wording.scenario_name(scenario)}"))
        yield Finding(
            "act",
            f"{do} {count(len(groups), 'group')} {how}",
            _which(ranked, saving, currency) + _shared(groups),
            of_groups(groups).words,
            saving,
        )


def _which(ranked: list[GroupTotal], saving: float, currency: Currency) -> str:
    named = ", ".join(
        f"{each.group} ({currency.text(_saving(each))})" for each in ranked[:_NAMED_GROUPS]
    )
    if len(ranked) == 1:
        return f"{named} a month."
    few, so_far = 0, 0.0
    while so_far < saving * _MOST_OF_IT:
        so_far += _saving(ranked[few])
        few += 1
    text = f"Begin with {named}."
    if len(ranked) > _NAMED_GROUPS and few <= len(ranked) * _FEW_GROUPS:
        these = "One group brings" if few == 1 else f"{few:,} of these groups bring"
        text += f" {these} {wording.percent(so_far / saving)} of it."
    return text


def _shared(groups: list[GroupTotal]) -> str:
    affected = sum(
        1
        for each in groups
        if each.change is not None
        and each.change.shared_topics
        and each.change.scenario == "rackward_after_leader_layout"
    )
    if not affected:
        return ""
    return (
        f" {count(affected, 'group reads', 'groups read')} topics that others read too: new "
        "leaders there change what is local for those as well."
    )


def _no_change(summary: Summary) -> Iterator[Finding]:
    consumed = summary.consumed
    if not summary.groups:
        yield Finding(
            "check",
            "No group read anything in this period",
            "Check the period, and that the collector sees the groups and their commits.",
        )
    elif consumed.bytes and not consumed.crossing_bytes and not consumed.unknown_bytes:
        yield Finding("know", "No byte that groups read crossed racks", "There is nothing to save.")
    elif summary.saving_per_month is None and consumed.crossing_bytes:
        yield Finding(
            "check",
            "No what-if was given",
            "So this report says what crosses, and not what would change it. Compute the what-if "
            "tables and make the report again.",
        )
    elif summary.saving_per_month == 0 and consumed.crossing_bytes:
        yield Finding(
            "know",
            "No change would lower the cost",
            "Every group reads as locally as its members, leaders and racks permit.",
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
    if cost / whole < _HOT_PAIR:
        return
    where = f" of cluster {cluster}" if len(summary.clusters) > 1 else ""
    yield Finding(
        "know",
        f"{wording.percent(cost / whole)} of the cost is read from rack {one} in rack {other}",
        f"{currency.text(cost)} in this period, the most of all pairs of racks{where}. A rack that "
        "leads more partitions than its members read causes such a stream.",
    )


def reliability_findings(summary: Summary) -> Iterator[Finding]:
    """What the data lack, and what to do about that."""
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
                f"{wording.bytes_text(members)} went to members without a rack: set client.rack, "
                "or map hosts and subnets to racks when collecting."
            )
        if leaders:
            advice.append(
                f"{wording.bytes_text(leaders)} came from brokers without a rack, or without a "
                "known leader: set broker.rack."
            )
        yield Finding(
            "check",
            f"{wording.percent(unknown)} of what groups read has an unknown rack",
            " ".join([*advice, "These bytes are in no cost and in no share that crosses."]),
        )
    estimated = share(consumed.estimated_bytes, consumed.bytes)
    if estimated and estimated >= 0.01:
        yield Finding(
            "check",
            f"{wording.percent(estimated)} of what groups read is a usual rate, not a measurement",
            "Offsets were set back, topics created again, or snapshots missing for long. Collect "
            "more often, or let clients report their bytes.",
        )
    if consumed.unsized_offsets:
        yield Finding(
            "check",
            f"{count(consumed.unsized_offsets, 'record')} read have no known size",
            "Their partitions' sizes on disk could not be read, so their bytes are missing here. "
            "Give the collector the right to describe log directories.",
        )
    if summary.set_aside:
        rows = sum(each.rows for each in summary.set_aside)
        worst = summary.set_aside[0]
        yield Finding(
            "check",
            f"{count(rows, 'snapshot row was', 'snapshot rows were')} set aside",
            f"They broke the contract of their table; most often {worst.table}: {worst.reason} "
            f"({worst.rows:,}).",
        )
    if (text := gaps(summary)) is not None:
        yield Finding("check", text, "Nothing is told of hours in which nothing was collected.")


def _replication(summary: Summary, currency: Currency) -> Iterator[Finding]:
    copied = summary.of_kind("replicate")
    if copied.cost <= 0:
        return
    yield Finding(
        "know",
        f"Replication crosses racks too: {wording.bytes_text(copied.crossing_bytes)}, "
        f"{currency.text(copied.cost)}",
        "It is what keeping replicas in other racks costs, and no assignor changes it.",
    )


def _saving(each: GroupTotal) -> float:
    return each.change.saving_per_month if each.change is not None else 0.0


# ---- How sure a figure is, in words that mean the same wherever they stand.

Level = Literal["exact", "good", "fair", "rough", "none"]

EXACT_FROM = 0.95
GOOD_UP_TO = 0.05
FAIR_UP_TO = 0.25

WORDS: dict[Level, str] = {
    "exact": "exact",
    "good": "measured",
    "fair": "partly known",
    "rough": "rough",
    "none": "no data",
}
EXPLAINED: dict[Level, str] = {
    "exact": "clients reported at least 95 % of the bytes exactly",
    "good": "measured from committed offsets; at most 5 % estimated or of unknown rack",
    "fair": "at most 25 % estimated or of unknown rack",
    "rough": "more than 25 % estimated or of unknown rack",
    "none": "nothing was read in the period",
}


@dataclass(frozen=True, slots=True)
class Reliability:
    """A level, and the shares of bytes that it is from."""

    level: Level
    exact: float
    estimated: float
    unknown: float

    @property
    def words(self) -> str:
        """For people."""
        return WORDS[self.level]


def of(traffic: Traffic) -> Reliability:
    """How sure the bytes and the cost of ``traffic`` are."""
    size = traffic.bytes
    if not size:
        return Reliability("none", 0.0, 0.0, 0.0)
    exact = traffic.reported_bytes / size
    estimated = traffic.estimated_bytes / size
    unknown = traffic.unknown_bytes / size
    doubtful = estimated + unknown
    level: Level = "rough"
    if exact >= EXACT_FROM and doubtful <= GOOD_UP_TO:
        level = "exact"
    elif doubtful <= GOOD_UP_TO:
        level = "good"
    elif doubtful <= FAIR_UP_TO:
        level = "fair"
    return Reliability(level, exact, estimated, unknown)


def of_groups(groups: Iterable[GroupTotal]) -> Reliability:
    """The same of all that several groups read."""
    return of(total(each.traffic for each in groups))


def gaps(summary: Summary) -> str | None:
    """How many hours between a cluster's first and last are missing; None where none is."""
    spans = {
        each.cluster: ((each.last - each.first) // timedelta(hours=1) + 1, each.hours)
        for each in summary.clusters
    }
    gappy = {name: (span, span - seen) for name, (span, seen) in spans.items() if span > seen}
    if not gappy:
        return None
    name, (span, missing) = max(gappy.items(), key=lambda each: (each[1][1], each[0]))
    text = f"{count(missing, 'hour')} of {span:,} {'is' if missing == 1 else 'are'} missing"
    if len(spans) == 1:
        return text
    others = f" (fewer or as many in {count(len(gappy) - 1, 'other')})" if len(gappy) > 1 else ""
    return f"{text} in cluster {name}{others}"
