"""The status of led groups, as the health port and Prometheus have it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, generate_latest

from rackward.lead.assigner import AssignmentMetrics
from rackward.lead.led_group import (
    LEADING,
    MAX_REBALANCES,
    REBALANCING,
    STATES,
    WAITING,
    LeadStatus,
    LedRebalance,
)
from rackward.lead.status import LeadMetrics, rebalances_per_hour, status_document
from rackward.lead.workers import Workers

GUIDE = Path(__file__).parents[3] / "docs" / "leading.md"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
METRICS = AssignmentMetrics(7, "range", 3, 12, 2, 1, 4)


def ended(seconds_ago: float) -> LedRebalance:
    return LedRebalance(NOW - timedelta(seconds=seconds_ago), 1.234, METRICS)


BILLING = LeadStatus(
    "billing",
    LEADING,
    metrics=METRICS,
    since=NOW - timedelta(seconds=90),
    rebalances=(ended(4000), ended(3000), ended(91)),
    missing=("c1",),
    last_error="RequestTimedOutError()",
    cool_down_until=NOW + timedelta(seconds=31),
    assignments=7,
    take_overs=2,
    successful_take_overs=1,
)
LAST = BILLING.rebalances[-1].at


def test_the_document_of_a_group() -> None:
    (group,) = status_document([BILLING], NOW)["groups"]
    history = group.pop("history")
    assert group == {
        "group": "billing",
        "state": "leading",
        "state_seconds": 90.0,
        "reason": "",
        "generation": 7,
        "protocol": "range",
        "members": 3,
        "partitions": 12,
        "off_rack": 2,
        "optimum": 1,
        "withheld": 4,
        "missing": ["c1"],
        "rebalances_per_hour": 2,
        "last_rebalance": "2026-01-02T03:02:34+00:00",
        "last_rebalance_seconds": 1.23,
        "rebalancing_seconds": 0.0,
        "take_overs": 2,
        "cool_down_seconds": 31.0,
        "last_error": "RequestTimedOutError()",
    }
    assert [each["at"] for each in history] == [
        "2026-01-02T01:57:25+00:00",
        "2026-01-02T02:14:05+00:00",
        "2026-01-02T03:02:34+00:00",
    ]
    assert (history[0]["off_rack"], history[0]["partitions"]) == (2, 12)


def test_a_group_that_was_never_led() -> None:
    (group,) = status_document([LeadStatus("orders")], NOW)["groups"]
    assert (group["last_rebalance"], group["last_rebalance_seconds"]) == (None, None)
    assert (group["cool_down_seconds"], group["history"], group["missing"]) == (0.0, [], [])
    json.dumps(group)


def test_more_rebalances_than_are_remembered_are_extrapolated() -> None:
    often = replace(BILLING, rebalances=tuple(ended(each) for each in range(MAX_REBALANCES, 0, -1)))
    assert rebalances_per_hour(often, NOW) == 3600


def test_the_guide_names_every_field_and_no_other() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    table = text[text.index("| field of `/status`") : text.index("An application")]
    named = re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines() if row))
    (group,) = status_document([BILLING], NOW)["groups"]
    assert sorted(named) == sorted(group)


def test_the_workers_that_divide_the_groups() -> None:
    workers = Workers(
        "w", "rackward-lead-w/a-1", ("rackward-lead-w/a-1", "rackward-lead-w/b-2"), True
    )
    assert "workers" not in status_document([], NOW)
    assert status_document([], NOW, workers)["workers"] == {
        "group": "w",
        "name": "rackward-lead-w/a-1",
        "names": ("rackward-lead-w/a-1", "rackward-lead-w/b-2"),
        "confirmed": True,
        "reason": "",
    }


# ---- Metrics.


def samples(*groups: LeadStatus) -> dict[str, float]:
    """Return the samples by name, without the prefix; all have the same label."""
    registry = CollectorRegistry()
    registry.register(LeadMetrics(lambda: groups))
    lines = generate_latest(registry).decode().splitlines()
    found = (re.fullmatch(r'rackward_lead_(\w+)\{group="(\w+)"\} (\S+)', line) for line in lines)
    return {f"{each[2]} {each[1]}": float(each[3]) for each in found if each}


def test_figures_and_counters_of_a_group_that_is_led() -> None:
    assert samples(BILLING) == {
        "billing leading": 1,
        "billing members": 3,
        "billing partitions": 12,
        "billing off_rack_partitions": 2,
        "billing optimum_partitions": 1,
        "billing assignments_total": 7,
        "billing take_overs_total": 2,
        "billing successful_take_overs_total": 1,
        "billing last_assignment_timestamp_seconds": LAST.timestamp(),
        "billing rebalancing_seconds": 0,
    }


def test_the_state_and_the_age_of_a_rebalance() -> None:
    since = datetime.now(UTC) - timedelta(seconds=90)
    stuck = replace(BILLING, state=REBALANCING, rebalancing_since=since)
    assert samples(stuck)["billing leading"] == 0
    assert samples(stuck)["billing rebalancing_seconds"] == pytest.approx(90, abs=5)
    registry = CollectorRegistry()
    registry.register(LeadMetrics(lambda: [stuck]))
    states = {
        state: registry.get_sample_value(
            "rackward_lead_state", {"group": "billing", "state": state}
        )
        for state in STATES
    }
    assert states == dict.fromkeys(STATES, 0) | {REBALANCING: 1}


def test_without_the_lead_the_counters_and_the_time_remain() -> None:
    assert samples(replace(BILLING, state=WAITING)) == {
        "billing leading": 0,
        "billing assignments_total": 7,
        "billing take_overs_total": 2,
        "billing successful_take_overs_total": 1,
        "billing last_assignment_timestamp_seconds": LAST.timestamp(),
        "billing rebalancing_seconds": 0,
    }


def test_a_group_that_is_discarded_has_no_samples() -> None:
    groups = [BILLING, LeadStatus("orders")]
    registry = CollectorRegistry()
    registry.register(LeadMetrics(lambda: groups))
    assert b"billing" in generate_latest(registry)
    del groups[0]
    left = generate_latest(registry)
    assert b"billing" not in left
    assert b"orders" in left


def test_the_guide_names_every_metric_and_no_other() -> None:
    named = set(re.findall(r"`rackward_lead_(\w+)`", GUIDE.read_text(encoding="utf-8")))
    assert named == {name.removeprefix("billing ") for name in samples(BILLING)} | {
        "state",
        "worker",
    }


def test_metrics_of_the_workers_that_divide_the_groups() -> None:
    def worker_samples(workers: Workers) -> set[str]:
        registry = CollectorRegistry()
        registry.register(LeadMetrics(lambda: (), lambda: workers))
        return set(re.findall(r"rackward_lead_worker(\{.*)", generate_latest(registry).decode()))

    workers = Workers("w", "w/a", ("w/a", "w/b"), confirmed=True)
    assert worker_samples(workers) == {
        '{name="w/a",self="true"} 1.0',
        '{name="w/b",self="false"} 1.0',
    }
    assert worker_samples(Workers("w", "w/a")) == {'{name="w/a",self="true"} 0.0'}
