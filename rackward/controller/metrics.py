"""The controller's figures for Prometheus, read when it asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rackward.controller.keeper import Kept
from rackward.placement_service import ServiceCounts


@dataclass(frozen=True, slots=True)
class Figures:
    """A moment's figures; ``service`` is None where none is served. ``failures``: turns that the
    cluster did not let finish; ``answered``: seconds since 1970, None where it never has."""

    kept: Kept
    asked: int
    turns: int
    failures: int
    answered: float | None
    layouts: int
    service: ServiceCounts | None


class ControllerCollector(Collector):
    """Gives a registry what ``figures`` returns."""

    def __init__(self, figures: Callable[[], Figures]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """What prometheus_client calls."""
        now = self._figures()
        yield _gauge("lease_held", "Whether this controller keeps the intents.", now.kept.held)
        yield _gauge("intents", "Topics made with fewer replicas than wanted.", now.kept.intents)
        yield _gauge("intent_partitions", "Their partitions that are still short.", now.kept.open)
        yield _gauge(
            "partitions_under_way", "Of these, those that get replicas now.", now.kept.under_way
        )
        yield _gauge(
            "placeholders_waiting", "Replicas that no live broker can take.", now.kept.waiting
        )
        yield _counter("fills", "Partitions that the cluster was asked to fill.", now.asked)
        yield _counter("turns", "Times that the intents were looked at.", now.turns)
        yield _counter("failed_turns", "Of these, those that the cluster failed.", now.failures)
        yield _counter("leader_layouts", "Leader layouts that were carried out.", now.layouts)
        if now.answered is not None:
            yield _gauge(
                "cluster_answered_timestamp_seconds",
                "When the cluster last answered.",
                now.answered,
            )
        if now.service is not None:
            for each in fields(ServiceCounts):
                value = getattr(now.service, each.name)
                if each.name.startswith("open_"):
                    yield _gauge(f"service_{each.name}", "Of the placement service.", value)
                else:
                    yield _counter(f"service_{each.name}", "Of the placement service.", value)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"rackward_controller_{name}", text, value=float(value))


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"rackward_controller_{name}", text, value=float(value))
