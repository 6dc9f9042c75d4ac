"""Metrics of led groups."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, generate_latest

from rackward.lead.assigner import AssignmentMetrics
from rackward.lead.led_group import LEADING, REBALANCING, STATES, WAITING, LeadStatus
from rackward.lead.metrics import LeadMetrics
from rackward.lead.workers import Workers

GUIDE = Path(__file__).parents[3] / "docs" / "leading.md"

BILLING = LeadStatus(
    "billing",
    LEADING,
    metrics=AssignmentMetrics(members=3, partitions=12, off_rack=2, optimum=1),
    last_rebalance=datetime.fromtimestamp(1234.5, UTC),
    assignments=7,
    take_overs=2,
    successful_take_overs=1,
)


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
        "billing last_assignment_timestamp_seconds": 1234.5,
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
        "billing last_assignment_timestamp_seconds": 1234.5,
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


def test_the_workers_that_divide_the_groups() -> None:
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
