"""A large summary of generated traffic that contains names with markup and scripts."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from rack_traffic.report.model import (
    Change,
    ClusterHours,
    GroupTotal,
    HourTotal,
    PairTotal,
    RejectedRows,
    ScenarioTotal,
    Summary,
    Traffic,
)

START = datetime(2026, 11, 14, tzinfo=UTC)
GROUPS = 10_000
UNTRUSTED_NAME = "</script><img src=https://evil.example/x onerror=\"window.pwned='x'\">"


def summary() -> Summary:
    """Return a summary of two clusters and ten thousand groups; some names contain markup."""
    rng = random.Random(11)
    racks = ("use1-az1", "use1-az2", UNTRUSTED_NAME)
    names = [UNTRUSTED_NAME, "<a href='https://evil.example'>click</a>"]
    names += [f"team-{n % 37}.service-{n}" for n in range(GROUPS - len(names))]
    groups = []
    for number, name in enumerate(names):
        crossing = int(9e11 / (number + 1) * rng.uniform(0.7, 1.3))
        traffic = Traffic(crossing // 2, crossing, crossing // 50, cost=crossing * 2e-11)
        now = traffic.cost * 730 / 168
        change = Change(
            now, now / 20, now * 0.95, 0.33, 0.98, "rackward_range", f"Use Range {UNTRUSTED_NAME}"
        )
        groups.append(GroupTotal(("main", "web")[number % 2], name, traffic, now, change))
    groups.sort(key=lambda each: -(each.change.saving_per_month if each.change else 0))
    pairs = tuple(
        PairTotal(cluster, kind, one, other, _pair(one, other, rng.randrange(10**12)))
        for cluster in ("main", "web")
        for kind in ("consume", "replicate")
        for one in racks
        for other in (*racks, None)
    )
    hours = tuple(
        HourTotal(cluster, kind, START + timedelta(hours=hour), Traffic(10**9, 2 * 10**9, 10**8))
        for cluster in ("main", "web")
        for kind in ("consume", "replicate")
        for hour in range(168)
    )
    last = START + timedelta(hours=167)
    return Summary(
        clusters=tuple(ClusterHours(each, 168, START, last) for each in ("main", "web")),
        pairs=pairs,
        hours=hours,
        groups=tuple(groups),
        scenarios=tuple(
            ScenarioTotal(name, GROUPS, 0, cost, 10**12, int(cost * 10**10), 0, 5, 0)
            for name, cost in (("as_is", 90.0), ("apache_range", 95.0), ("rackward_range", 4.5))
        ),
        rejected_rows=(RejectedRows("commits", UNTRUSTED_NAME, 3),),
    )


def _pair(one: str, other: str | None, size: int) -> Traffic:
    if other is None:
        return Traffic(unknown_bytes=size // 20)
    return (
        Traffic(local_bytes=size)
        if one == other
        else Traffic(crossing_bytes=size, cost=size / 5e10)
    )
