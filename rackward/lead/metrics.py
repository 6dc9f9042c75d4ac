"""Prometheus metrics of the groups that a process leads; needs the extra ``prometheus``.

    REGISTRY.register(LeadMetrics(leader.status, lambda: leader.workers))

Each metric but that of the workers has the label ``group``, for the groups that are (to be) led at
this moment. Gauges of the assignment are there while the group is led. Counters begin with the
process, or when the group is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rackward.lead.led_group import STATES, LeadStatus
from rackward.lead.workers import Workers

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
