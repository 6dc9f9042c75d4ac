"""The status of led groups, as the health port has it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rackward.lead.assigner import AssignmentMetrics
from rackward.lead.led_group import LEADING, MAX_REBALANCES, LeadStatus, LedRebalance
from rackward.lead.status import rebalances_per_hour, status_document
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
)


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
        "take_overs": 0,
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
