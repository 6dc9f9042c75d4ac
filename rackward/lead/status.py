"""The state of the groups that a process leads: JSON for ``/status``, and Prometheus metrics.

    REGISTRY.register(LeadMetrics(leader.status, lambda: leader.workers))

Needs the extra ``prometheus``. Each metric but that of the workers has the label ``group``, for the
groups that are (to be) led at this moment. Gauges of the assignment are there while the group is
led. Counters begin with the process, or when the group is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rackward.lead.led_group import MAX_REBALANCES, STATES, LeadStatus
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


# ---- Metrics.

_METRICS: dict[str, tuple[str, Callable[[LeadStatus], float | None]]] = {
    "leading": ("1 if the group is assigned here.", lambda status: status.leads),
    "rebalancing_seconds": (
        "Age of the rebalance in progress, or 0.",
        lambda status: status.rebalancing_seconds,
    ),
    "members": (
        "Members that read.",
        lambda status: status.metrics.members if status.leads else None,
    ),
    "partitions": (
        "Partitions of their topics.",
        lambda status: status.metrics.partitions if status.leads else None,
    ),
    "off_rack_partitions": (
        "Partitions read across racks, with the present leaders of partitions.",
        lambda status: status.metrics.off_rack if status.leads else None,
    ),
    "optimum_partitions": (
        "The minimum of partitions read across racks, at the last assignment.",
        lambda status: status.metrics.optimum if status.leads else None,
    ),
    "last_assignment_timestamp_seconds": (
        "When an assignment was made here last, in seconds since 1970.",
        lambda status: status.last_rebalance.timestamp() if status.last_rebalance else None,
    ),
    "assignments_total": ("Assignments that were made here.", lambda status: status.assignments),
    "take_overs_total": (
        "Times that members were removed to take the group over.",
        lambda status: status.take_overs,
    ),
    "successful_take_overs_total": (
        "Such times after which the group was led here.",
        lambda status: status.successful_take_overs,
    ),
}
"""Text and value by name; those that end in "_total" are counters."""


class LeadMetrics(Collector):
    """Returns the metrics of the groups of ``read``, such as a `GroupLeader`'s ``status``.

    ``workers`` returns the processes that divide the groups, or None.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[LeadStatus]],
        workers: Callable[[], Workers | None] = lambda: None,
    ) -> None:
        self._read = read
        self._workers = workers

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the metric families; called by the registry."""
        workers = self._workers()
        processes = GaugeMetricFamily(
            "rackward_lead_worker",
            "1 for each process that divides the groups; 0: this one is not in their group.",
            labels=["name", "self"],
        )
        if workers is not None:
            for name in sorted({*workers.names, workers.name}):
                own = str(name == workers.name).lower()
                processes.add_metric([name, own], float(workers.confirmed))
        yield processes
        groups = list(self._read())
        states = GaugeMetricFamily(
            "rackward_lead_state", "1 for the state of the group.", labels=["group", "state"]
        )
        for status in groups:
            for state in STATES:
                states.add_metric([status.group, state], float(state == status.state))
        yield states
        for name, (text, value_of) in _METRICS.items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(f"rackward_lead_{name}", text, labels=["group"])
            for status in groups:
                if (value := value_of(status)) is not None:
                    family.add_metric([status.group], float(value))
            yield family
