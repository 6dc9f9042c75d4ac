"""Prometheus metrics of the groups that a process leads; needs the extra ``prometheus``.

    REGISTRY.register(LeadMetrics(leader.status))

Each metric has the label ``group``, for the groups that are (to be) led at this moment: one that is
discarded has none any more. The figures are those of the present assignment, and only there while
the group is led. Counters begin with the process, or when the group is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rackward.lead.model import STATES, LeadStatus

Family = TypeVar("Family", CounterMetricFamily, GaugeMetricFamily)

_FIGURES: dict[str, tuple[str, Callable[[LeadStatus], float | None]]] = {
    "members": ("Members that read.", lambda status: status.figures.members),
    "partitions": ("Partitions of their topics.", lambda status: status.figures.partitions),
    "off_rack_partitions": (
        "Partitions read across racks, with the present leaders of partitions.",
        lambda status: status.figures.off_rack,
    ),
    "optimum_partitions": (
        "The minimum of partitions read across racks, at the last assignment.",
        lambda status: status.figures.optimum,
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
        for each in groups:
            leading.add_metric([each.group], float(each.leads))
        yield leading
        states = GaugeMetricFamily(
            "rackward_lead_state", "1 for the state of the group.", labels=["group", "state"]
        )
        age = _family(
            GaugeMetricFamily,
            "rebalancing_seconds",
            "Age of the rebalance in progress, or 0.",
        )
        for each in groups:
            age.add_metric([each.group], each.rebalancing_seconds)
            for state in STATES:
                states.add_metric([each.group, state], float(state == each.state))
        yield states
        yield age
        for name, (text, value) in _FIGURES.items():
            gauge = _family(GaugeMetricFamily, name, text)
            for each in groups:
                if each.leads and (figure := value(each)) is not None:
                    gauge.add_metric([each.group], float(figure))
            yield gauge
        for name, (text, count) in _COUNTERS.items():
            counter = _family(CounterMetricFamily, name, text)
            for each in groups:
                counter.add_metric([each.group], float(count(each)))
            yield counter
        at = _family(
            GaugeMetricFamily,
            "last_assignment_timestamp_seconds",
            "When an assignment was made here last, in seconds since 1970.",
        )
        for each in groups:
            if each.last_rebalance is not None:
                at.add_metric([each.group], each.last_rebalance.timestamp())
        yield at


def _family(kind: type[Family], name: str, text: str) -> Family:
    return kind(f"rackward_lead_{name}", text, labels=["group"])
