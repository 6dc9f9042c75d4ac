"""What a process knows of the groups that it leads, as ``/status`` of the health port has it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rackward.lead.led_group import MAX_REBALANCES, LeadStatus
from rackward.lead.workers import Workers

HOUR_SECONDS = 3600.0


def status_document(
    groups: Iterable[LeadStatus], now: datetime | None = None, workers: Workers | None = None
) -> dict[str, Any]:
    """Return the groups, and the ``workers`` that divide them, as values for JSON;
    docs/leading.md describes the fields."""
    now = now or datetime.now(UTC)
    document: dict[str, Any] = {"groups": [_group(status, now) for status in groups]}
    return document if workers is None else document | {"workers": asdict(workers)}


def _group(status: LeadStatus, now: datetime) -> dict[str, Any]:
    history = [
        {"at": each.at.isoformat(timespec="seconds"), "seconds": round(each.seconds, 2)}
        | asdict(each.metrics)
        for each in status.rebalances
    ]
    last = history[-1] if history else {"at": None, "seconds": None}
    until = status.cool_down_until or now
    return {
        "group": status.group,
        "state": status.state,
        "state_seconds": round((now - status.since).total_seconds(), 1),
        "reason": status.reason,
        **asdict(status.metrics),
        "missing": list(status.missing),
        "rebalances_per_hour": rebalances_per_hour(status, now),
        "last_rebalance": last["at"],
        "last_rebalance_seconds": last["seconds"],
        "rebalancing_seconds": round(status.rebalancing_seconds, 1),
        "take_overs": status.take_overs,
        "cool_down_seconds": round(max(0.0, (until - now).total_seconds()), 1),
        "last_error": status.last_error,
        "history": history,
    }


def rebalances_per_hour(status: LeadStatus, now: datetime) -> int:
    """Return how often the group rebalanced in the last hour; extrapolated if that was more often
    than is remembered."""
    ages = [(now - each.at).total_seconds() for each in status.rebalances]
    recent = [age for age in ages if age < HOUR_SECONDS]
    if len(recent) < MAX_REBALANCES:
        return len(recent)
    return round(len(recent) * HOUR_SECONDS / max(1.0, recent[0]))
