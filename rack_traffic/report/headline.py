"""The beginning of a report: one number, one sentence, and the changes to make first.

A change is what can be made by itself: a setting of one group, or a leader layout with the settings
of all groups that read its topics, which is for all of them or for none. So any changes can be made
together, and their savings be added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rack_traffic.output_tables import LEADER_LAYOUTS
from rack_traffic.report import format as wording
from rack_traffic.report.format import Currency
from rack_traffic.report.model import (
    MIN_HOURS_TO_EXTRAPOLATE,
    GroupTotal,
    Summary,
    share,
    total,
)

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
