"""The controller's metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rackward.controller.leader_decision import Decision, Waiting
from rackward.controller.leader_follower import FollowStatus
from rackward.controller.reconcile import ReconcileStatus
from rackward.lead import LeadStatus
from rackward.lead.status import LeadMetrics
from rackward.placement_service import ServiceMetrics


@dataclass(frozen=True, slots=True)
class ControllerMetrics:
    """The controller's metrics at one moment.

    ``requested`` reassignments, ``passes`` of the reconciler, and those that ``failed_passes``;
    ``last_response`` of the cluster, in seconds since 1970, None if there was none;
    ``leaders`` is None if leaders do not follow; ``service`` is None if there is no placement
    service; ``led`` are the groups that are led, or are to be.
    """

    status: ReconcileStatus
    requested: int
    passes: int
    failed_passes: int
    last_response: float | None
    leaders: FollowStatus | None
    service: ServiceMetrics | None
    led: tuple[LeadStatus, ...] = ()


class MetricsCollector(Collector):
    """Returns the controller's metrics to prometheus_client when they are scraped."""

    def __init__(self, read: Callable[[], ControllerMetrics]) -> None:
        self._read = read

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the metric families; called by the registry."""
        now = self._read()
        gauges: dict[str, tuple[str, float | None]] = {
            **_with_help(now.status),
            "last_response_timestamp_seconds": (
                "When the cluster last responded, in seconds since 1970.",
                now.last_response,
            ),
        }
        counters: dict[str, tuple[str, Any]] = {
            "reassignments": ("Reassignments that were requested.", now.requested),
            "passes": ("Passes over all pending replicas.", now.passes),
            "failed_passes": ("Passes that an error ended.", now.failed_passes),
        }
        for name, metric in _with_help(now.service).items() if now.service else ():
            family = gauges if name.startswith("open_") else counters
            family[f"service_{name}"] = metric
        if (leaders := now.leaders) is not None:
            counters |= {
                "leader_decisions": ("Decisions whether leaders move.", leaders.decisions),
                "leader_layouts": ("Decisions that moved leaders.", leaders.layouts),
            }
            if leaders.decision is not None:
                gauges |= _leader_gauges(leaders.decision, leaders.elections)
                yield _leaders_waiting(leaders.decision)
        for name, (help, gauge) in gauges.items():
            if gauge is not None:
                yield GaugeMetricFamily(f"rackward_controller_{name}", help, value=float(gauge))
        for name, (help, count) in counters.items():
            yield CounterMetricFamily(f"rackward_controller_{name}", help, value=float(count))
        if now.led:
            yield from LeadMetrics(lambda: now.led).collect()


def _leader_gauges(decision: Decision, elections: int) -> dict[str, tuple[str, float]]:
    return {
        "leader_elections_last_hour": ("Leaders moved in the last hour.", elections),
        "leader_bytes_per_second": (
            "Bytes per second that the groups that leaders follow read, and writers write.",
            decision.total,
        ),
        "leader_local_bytes_per_second": ("Those of them that are local.", decision.local),
        "leader_best_local_bytes_per_second": (
            "Those that are local if each partition is led by its best replica.",
            decision.best,
        ),
    }


def _leaders_waiting(decision: Decision) -> GaugeMetricFamily:
    waiting = GaugeMetricFamily(
        "rackward_controller_leaders_waiting",
        "1 for the reason why the last decision moved no leader.",
        labels=["reason"],
    )
    for reason in Waiting:
        waiting.add_metric([reason], float(reason is decision.waiting))
    return waiting


def _with_help(metrics: ReconcileStatus | ServiceMetrics) -> dict[str, tuple[str, Any]]:
    """Return help and value of each metric, by name."""
    return {
        each.name: (each.metadata["help"], getattr(metrics, each.name)) for each in fields(metrics)
    }
