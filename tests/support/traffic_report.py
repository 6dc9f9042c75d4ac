"""Output tables of the pipeline with random traffic from a seed, and small and large summaries.

The rows are available as dicts too, so that sums can be checked.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

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
from rack_traffic.tables import HOURS_PER_MONTH, OUTPUT_TABLES, REPLICATION, columns_schema

START = datetime(2026, 11, 14, tzinfo=UTC)
PRICE = 0.02e-9

TABLES = ("hourly", "what_if", "ranking", "rejected_rows")

GAP = (40, 41, 42)
"""Hours without snapshots."""

Rows = list[dict[str, Any]]

# Share of the bytes that cross under each scenario, and partitions moved.
CROSSING = {
    "as_is": (0.66, 0),
    "apache_range": (0.68, 14),
    "apache_cooperative_sticky": (0.71, 9),
    "rackward_range": (0.06, 31),
    "rackward_cooperative_sticky": (0.05, 22),
    "rackward_by_bytes": (0.04, 23),
    "rackward_after_leader_layout": (0.0, 22),
    "follower_fetching": (0.0, 0),
}
CHANGES = {
    "as_is": "no change",
    "rackward_cooperative_sticky": "Use rackward's CooperativeSticky assignor.",
    "rackward_range": "Use rackward's Range assignor.",
    "rackward_after_leader_layout": "Use rackward's CooperativeSticky assignor, then lay out "
    "leaders for its topics.",
}


@dataclass(slots=True)
class Sample:
    """The rows of each table."""

    rows: dict[str, Rows] = field(default_factory=lambda: {name: [] for name in TABLES})

    def write(self, folder: Path, tables: Sequence[str] = TABLES) -> Path:
        """Write ``tables`` below ``folder``, and return ``folder``; tables may be empty."""
        for name in tables:
            schema = columns_schema(OUTPUT_TABLES[name])
            write_deltalake(folder / name, pa.Table.from_pylist(self.rows[name], schema))
        return folder


def hourly_row(
    hour: datetime, size: int, one: str | None, other: str | None, **more: Any
) -> dict[str, Any]:
    """Return a row of the hourly table, with the default price."""
    level = None if one is None or other is None else int(one != other)
    return {
        "cluster": "main",
        "kind": "consume",
        "group": "billing",
        "topic": "orders",
        "from_rack": one,
        "to_rack": other,
        "hour": hour,
        "source": "estimated",
        "crossed_level": level,
        "bytes": size,
        "estimated_bytes": 0,
        "unsized_offsets": 0,
        "price_per_gb": None if level is None else 0.02 * level,
        "cost": None if level is None else PRICE * size * level,
        **more,
    }


def what_if_rows(
    cluster: str, group: str, size: int, hours: int, changed: str, **more: Any
) -> Iterator[dict[str, Any]]:
    """Return a row per scenario for a group that reads ``size`` bytes in ``hours``."""
    for scenario, (share, moves) in CROSSING.items():
        crossing = int(size * share)
        yield {
            "cluster": cluster,
            "group": group,
            "interval_start": START,
            "interval_end": START + timedelta(hours=hours),
            "hours": float(hours),
            "layout_group": group,
            "scenario": scenario,
            "assignor": scenario,
            "members": 6,
            "partitions": 72,
            "off_rack_partitions": int(72 * share),
            "unknown_partitions": 0,
            "bytes": size,
            "local_bytes": size - crossing,
            "crossing_bytes": crossing,
            "unknown_bytes": 0,
            "cost": crossing * PRICE,
            "cost_per_month": crossing * PRICE * HOURS_PER_MONTH / hours,
            "max_partitions": 12,
            "min_partitions": 12,
            "max_bytes": size // 5,
            "mean_bytes": size / 6,
            "moves": moves,
            "leader_moves": 7 if scenario == "rackward_after_leader_layout" else 0,
            "shared_topics": 1 if changed == "rackward_after_leader_layout" else 0,
            **more,
        }


def ranking_row(
    cluster: str, group: str, size: int, hours: int, changed: str, **more: Any
) -> dict[str, Any]:
    """Return the row of the ranking for the rows of :func:`what_if_rows`."""
    now, after = CROSSING["as_is"][0], CROSSING[changed][0]
    monthly = size * PRICE * HOURS_PER_MONTH / hours
    return {
        "rank": 1,
        "cluster": cluster,
        "group": group,
        "interval_start": START,
        "interval_end": START + timedelta(hours=hours),
        "hours": float(hours),
        "cost_per_month_now": monthly * now,
        "cost_per_month_after": monthly * after,
        "saving_per_month": monthly * (now - after),
        "locality_now": 1 - now,
        "locality_after": 1 - after,
        "unknown_now": 0.0,
        "scenario": changed,
        "change": CHANGES[changed],
        **more,
    }


NAMES = (
    "billing", "fraud-scoring", "search-indexer", "clickstream-sessions", "inventory-sync",
    "email-sender", "ledger", "recommendations", "audit-archive", "ml-features", "checkout-events",
    "pricing", "warehouse-loader", "notifications", "geo-enricher", "ab-tests",
)  # fmt: skip


def platform(groups: int, hours: int, *, clusters: Sequence[str] = ("payments", "web")) -> Sample:
    """Return tables with ``groups`` groups over ``hours`` hours.

    Rates vary over the day. Few groups are large and many are small, one group in ten has members
    without a rack, and snapshots are missing in the hours of GAP.
    """
    rng = random.Random(7)
    racks = ("use1-az1", "use1-az2", "use1-az4")
    sample = Sample()
    for number in range(groups):
        cluster = clusters[number % len(clusters)]
        name = NAMES[number % len(NAMES)]
        group = name if number < len(NAMES) else f"{name}-{number // len(NAMES)}"
        rate = 4e9 / (number + 1) ** 0.9 * rng.uniform(0.6, 1.4)
        read = 0
        for hour in range(hours):
            if hour in GAP:
                continue
            when = START + timedelta(hours=hour)
            wave = 1 + 0.45 * math.cos((hour - 14) / 24 * math.tau)
            for one in racks:
                for other in (*racks, None):
                    part = 0.02 if other is None else 1 / len(racks)
                    if other is None and number % 10:
                        continue
                    skew = 1.6 if (one, other) == (racks[0], racks[-1]) else 1.0
                    size = int(rate * wave * part * skew / len(racks) * rng.uniform(0.9, 1.1))
                    estimated = size if number % 17 == 3 and hour % 9 == 0 else 0
                    sample.rows["hourly"].append(
                        hourly_row(
                            when, size, one, other, cluster=cluster, group=group, topic=name,
                            estimated_bytes=estimated,
                        )
                    )  # fmt: skip
                    read += size
        changed = rng.choice(list(CHANGES)[1:])
        sample.rows["what_if"].extend(what_if_rows(cluster, group, read, hours, changed))
        sample.rows["ranking"].append(ranking_row(cluster, group, read, hours, changed))
    copied = dict.fromkeys(clusters, 0)
    for hour in range(hours):
        if hour in GAP:
            continue
        when = START + timedelta(hours=hour)
        for cluster in clusters:
            for one in racks:
                sample.rows["hourly"].append(
                    hourly_row(
                        when, int(3e9 * rng.uniform(0.9, 1.1)), None, one,
                        cluster=cluster, kind="produce", group=None,
                    )
                )  # fmt: skip
                copies = [
                    hourly_row(
                        when, int(3e9 * rng.uniform(0.9, 1.1)), one, other,
                        cluster=cluster, kind="replicate", group=None,
                    )
                    for other in racks if other != one
                ]  # fmt: skip
                copied[cluster] += sum(row["bytes"] for row in copies)
                sample.rows["hourly"] += copies
    for cluster, size in copied.items():
        monthly = size * PRICE * HOURS_PER_MONTH / hours
        now = {"scenario": "as_is", "local_bytes": 0, "crossing_bytes": size, "moves": 0}
        (as_is, *_) = what_if_rows(cluster, REPLICATION, size, hours, "as_is")
        sample.rows["what_if"].append(as_is | now | {"cost_per_month": monthly})
        costs = {"cost_per_month_now": monthly, "cost_per_month_after": monthly}
        sample.rows["ranking"].append(
            ranking_row(cluster, REPLICATION, size, hours, "as_is", **costs)
        )
    sample.rows["rejected_rows"] = [
        {"table": "commits", "reason": "committed_offset is negative", "row": "{}"}
        for _ in range(12)
    ] + [{"table": "members", "reason": "member_id twice in one snapshot", "row": "{}"}]
    return sample


NOW = datetime(2026, 11, 21, 14, 5, tzinfo=UTC)


def change(
    saving: float,
    scenario: str = "rackward_cooperative_sticky",
    *,
    now: float = 100.0,
    shared: int = 0,
    hours: float = 48.0,
    layout_group: str = "",
) -> Change:
    text = f"Use {scenario}."
    return Change(now, now - saving, saving, 0.3, 0.95, scenario, text, shared, hours, layout_group)


def group(name: str, traffic: Traffic, changed: Change | None = None) -> GroupTotal:
    return GroupTotal(
        "main", name, traffic, changed.cost_per_month_now if changed else 0.0, changed
    )


def summary_of(
    *groups: GroupTotal,
    pairs: tuple[PairTotal, ...] = (),
    hours: int = 48,
    scenarios: tuple[ScenarioTotal, ...] = (),
    rejected_rows: tuple[RejectedRows, ...] | None = (),
) -> Summary:
    """Return a summary of one cluster; without ``pairs`` all groups read from rack a in rack b."""
    read = pairs or tuple(PairTotal("main", "consume", "a", "b", each.traffic) for each in groups)
    moments = [START + timedelta(hours=hour) for hour in range(hours)]
    return Summary(
        clusters=(ClusterHours("main", hours, moments[0], moments[-1]),) if hours else (),
        pairs=read,
        hours=tuple(HourTotal("main", "consume", each, Traffic(1, 2, 3)) for each in moments),
        groups=groups,
        scenarios=scenarios,
        rejected_rows=rejected_rows,
        what_if_since=START if scenarios else None,
        what_if_until=START + timedelta(days=1) if scenarios else None,
    )


def scenario(name: str, cost: float) -> ScenarioTotal:
    return ScenarioTotal(name, 2, 0, cost, 100, int(cost), 0, 3, 0)


# ---- A large summary of generated traffic that contains names with markup and scripts.

GROUPS = 10_000
UNTRUSTED_NAME = "</script><img src=https://evil.example/x onerror=\"window.pwned='x'\">"

FORMULA_NAME = '=1+1,"a"'


def summary() -> Summary:
    """Return a summary of two clusters and ten thousand groups; some names contain markup."""
    rng = random.Random(11)
    racks = ("use1-az1", "use1-az2", UNTRUSTED_NAME)
    names = [UNTRUSTED_NAME, "<a href='https://evil.example'>click</a>", FORMULA_NAME]
    names += [f"team-{n % 37}.service-{n}" for n in range(GROUPS - len(names))]
    groups = []
    for number, name in enumerate(names):
        crossing = int(9e11 / (number + 1) * rng.uniform(0.7, 1.3))
        traffic = Traffic(crossing // 2, crossing, crossing // 50, cost=crossing * 2e-11)
        now = traffic.cost * 730 / 168
        change = Change(
            now,
            now / 20,
            now * 0.95,
            0.33,
            0.98,
            "rackward_range",
            f"Use Range {UNTRUSTED_NAME}",
            hours=168.0,
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
