"""Prometheus metrics of the groups that a process leads; needs the extra ``prometheus``.

    REGISTRY.register(LeadMetrics(leader.status))

Each metric has the label ``group``, for the groups that are (to be) led at this moment: one that is
discarded has none any more. Gauges are of the present assignment, and only there while the group is
led. Counters begin with the process, or when the group is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rackward.lead.led_group import STATES, LeadStatus

Family = TypeVar("Family", CounterMetricFamily, GaugeMetricFamily)

_GAUGES: dict[str, tuple[str, Callable[[LeadStatus], float | None]]] = {
    "members": ("Members that read.", lambda status: status.metrics.members),
    "partitions": ("Partitions of their topics.", lambda status: status.metrics.partitions),
    "off_rack_partitions": (
        "Partitions read across racks, with the present leaders of partitions.",
        lambda status: status.metrics.off_rack,
    ),
    "optimum_partitions": (
        "The minimum of partitions read across racks, at the last assignment.",
        lambda status: status.metrics.optimum,
    ),
}

_COUNTERS: dict[str, tuple[str, Callable[[LeadStatus], int]]] = {
    "assignments": ("Assignments that were made here.", lambda status: status.assignments),
    "take_overs": (
        "Times that members were removed to take the group over.",
        lambda status: status.take_overs,
    ),
    "successful_take_overs": (
        "Such times after which the group was led here.",
        lambda status: status.successful_take_overs,
    ),
}


class LeadMetrics(Collector):
    """Returns the metrics of the groups of ``read``, such as a `GroupLeader`'s ``status``."""

    def __init__(self, read: Callable[[], Iterable[LeadStatus]]) -> None:
        self._read = read

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the metric families; called by the registry."""
        groups = list(self._read())
        leading = _family(GaugeMetricFamily, "leading", "1 if the group is assigned here.")
        for group in groups:
            leading.add_metric([group.group], float(group.leads))
        yield leading
        states = GaugeMetricFamily(
            "rackward_lead_state", "1 for the state of the group.", labels=["group", "state"]
        )
        age = _family(
            GaugeMetricFamily,
            "rebalancing_seconds",
            "Age of the rebalance in progress, or 0.",
        )
        for group in groups:
            age.add_metric([group.group], group.rebalancing_seconds)
            for state in STATES:
                states.add_metric([group.group, state], float(state == group.state))
        yield states
        yield age
        for name, (text, value) in _GAUGES.items():
            gauge = _family(GaugeMetricFamily, name, text)
            for group in groups:
                if group.leads and (gauged := value(group)) is not None:
                    gauge.add_metric([group.group], float(gauged))
            yield gauge
        for name, (text, count) in _COUNTERS.items():
            counter = _family(CounterMetricFamily, name, text)
            for group in groups:
                counter.add_metric([group.group], float(count(group)))
            yield counter
        at = _family(
            GaugeMetricFamily,
            "last_assignment_timestamp_seconds",
            "When an assignment was made here last, in seconds since 1970.",
        )
        for group in groups:
            if group.last_rebalance is not None:
                at.add_metric([group.group], group.last_rebalance.timestamp())
        yield at


def _family(kind: type[Family], name: str, text: str) -> Family:
    return kind(f"rackward_lead_{name}", text, labels=["group"])
