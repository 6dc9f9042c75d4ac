"""Summaries made by hand, small enough to be reckoned with in the head."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rack_traffic.report.model import (
    Change,
    ClusterHours,
    GroupTotal,
    HourTotal,
    PairTotal,
    ScenarioTotal,
    SetAside,
    Summary,
    Traffic,
)

START = datetime(2026, 11, 14, tzinfo=UTC)
NOW = datetime(2026, 11, 21, 14, 5, tzinfo=UTC)


def change(
    saving: float,
    scenario: str = "rackward_cooperative_sticky",
    *,
    now: float = 100.0,
    shared: int = 0,
) -> Change:
    return Change(now, now - saving, saving, 0.3, 0.95, scenario, f"Use {scenario}.", shared)


def group(name: str, traffic: Traffic, changed: Change | None = None) -> GroupTotal:
    return GroupTotal(
        "main", name, traffic, changed.cost_per_month_now if changed else 0.0, changed
    )


def summary_of(
    *groups: GroupTotal,
    pairs: tuple[PairTotal, ...] = (),
    hours: int = 48,
    scenarios: tuple[ScenarioTotal, ...] = (),
    set_aside: tuple[SetAside, ...] | None = (),
) -> Summary:
    """A summary of one cluster whose pairs, unless given, are all that ``groups`` read."""
    read = pairs or tuple(PairTotal("main", "consume", "a", "b", each.traffic) for each in groups)
    moments = [START + timedelta(hours=hour) for hour in range(hours)]
    return Summary(
        clusters=(ClusterHours("main", hours, moments[0], moments[-1]),) if hours else (),
        pairs=read,
        hours=tuple(HourTotal("main", "consume", each, Traffic(1, 2, 3)) for each in moments),
        groups=groups,
        scenarios=scenarios,
        set_aside=set_aside,
        whatif_from=START if scenarios else None,
        whatif_until=START + timedelta(days=1) if scenarios else None,
    )


def scenario(name: str, cost: float) -> ScenarioTotal:
    return ScenarioTotal(name, 2, 0, cost, 100, int(cost), 0, 3, 0)
