"""Prometheus metrics of the groups that a process leads; needs the extra ``prometheus``.

    REGISTRY.register(LeadMetrics(leader.status))

Each metric has the label ``group``. The figures are those of a group's present assignment, and only
there while it is led.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rackward.lead.model import LeadStatus

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
    "last_assignment_timestamp_seconds": (
        "When the assignment was made, in seconds since 1970.",
        lambda status: None if (at := status.last_rebalance) is None else at.timestamp(),
    ),
}


class LeadMetrics(Collector):
    """Returns the metrics of the groups of ``read``, such as a `GroupLeader`'s ``status``."""

    def __init__(self, read: Callable[[], Iterable[LeadStatus]]) -> None:
        self._read = read

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield the metric families; called by the registry."""
        groups = list(self._read())
        leading = _gauge("leading", "1 if the group's assignment is made here.")
        for each in groups:
            leading.add_metric([each.group], float(each.leads))
        yield leading
        for name, (text, value) in _FIGURES.items():
            family = _gauge(name, text)
            for each in groups:
                if each.leads and (figure := value(each)) is not None:
                    family.add_metric([each.group], float(figure))
            yield family


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"rackward_lead_{name}", text, labels=["group"])
