"""Assignments as Prometheus metrics (the extra ``prometheus``).

    from prometheus_client import REGISTRY, start_http_server
    from assignors.metrics import AssignmentCollector

    strategy = LeaderRackAwareCooperativeStickyAssignor(rack="use1-az1")
    REGISTRY.register(AssignmentCollector(strategy))
    start_http_server(9464, addr="127.0.0.1")

The values are read at each scrape from the last assignment of each group, so they cost a rebalance
nothing. Only the leader of a group assigns, and each rebalance may have another leader: a process
exports its own last assignment and the time of it. The latest is the one in force:

    rackward_assignment_off_rack_partitions
      and on (group, instance) topk by (group) (1, rackward_assignment_timestamp_seconds)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from assignors.group_leader.history import Assignment

LABELS = ("group", "protocol")

_GAUGES: tuple[tuple[str, str, Callable[[Assignment], float | None]], ...] = (
    (
        "rackward_assignment_timestamp_seconds",
        "Unix time of the last assignment.",
        lambda assignment: assignment.at.timestamp(),
    ),
    (
        "rackward_assignment_partitions",
        "Partitions of the subscribed topics at the last assignment.",
        lambda assignment: assignment.partitions,
    ),
    (
        "rackward_assignment_members",
        "Members of the group at the last assignment.",
        lambda assignment: len(assignment.inputs.members),
    ),
    (
        "rackward_assignment_off_rack_partitions",
        "Partitions that the last assignment gave to a member outside their leader's rack.",
        lambda assignment: assignment.off_rack,
    ),
    (
        "rackward_assignment_optimum_partitions",
        "Minimum of off-rack partitions over all assignments with the same balance.",
        lambda assignment: assignment.optimum,
    ),
    (
        "rackward_assignment_withheld_partitions",
        "Partitions that are not assigned until their owners have revoked them.",
        lambda assignment: assignment.withheld,
    ),
    (
        "rackward_assignment_duration_seconds",
        "Seconds that the last assignment took.",
        lambda assignment: assignment.milliseconds / 1000,
    ),
)


class Source(Protocol):
    """What has a history of assignments: the adapters' assignors, and the confluent Consumer."""

    def assignments(self) -> tuple[Assignment, ...]:
        """Return the last assignment of each group."""


class AssignmentCollector(Collector):
    """A prometheus_client collector of the last assignment of each group of ``sources``.

    The labels are group and protocol. If several sources assigned one group, for example one
    assignor per thread, their counters are added, and the other values are those of the latest
    assignment. Values that are unknown, because the assignor failed, are left out.
    """

    def __init__(self, *sources: Source) -> None:
        self._lock = threading.Lock()
        self._sources = list(sources)

    def add(self, source: Source) -> None:
        """Add a source."""
        with self._lock:
            self._sources.append(source)

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """Return the metrics; prometheus_client calls this at each scrape."""
        with self._lock:
            sources = list(self._sources)
        count: dict[tuple[str, str], int] = {}
        moved: dict[tuple[str, str], int] = {}
        last: dict[tuple[str, str], Assignment] = {}
        for assignment in sorted(_assignments(sources), key=lambda made: made.at):
            key = (assignment.group, assignment.protocol)
            count[key] = count.get(key, 0) + assignment.number
            moved[key] = moved.get(key, 0) + assignment.moved_total
            last[key] = assignment
        for name, help_text, sums in (
            ("rackward_assignments", "Assignments made as the leader of the group.", count),
            (
                "rackward_moved_partitions",
                "Partitions that these assignments took from owners that were still in the group.",
                moved,
            ),
        ):
            counter = CounterMetricFamily(name, help_text, labels=LABELS)
            for key, number in sums.items():
                counter.add_metric(key, number)
            yield counter
        for name, help_text, read_value in _GAUGES:
            gauge = GaugeMetricFamily(name, help_text, labels=LABELS)
            for key, latest in last.items():
                value = read_value(latest)
                if value is not None:
                    gauge.add_metric(key, value)
            yield gauge


def _assignments(sources: Iterable[Source]) -> Iterator[Assignment]:
    # A source that was added twice counts once.
    for source in {id(source): source for source in sources}.values():
        yield from source.assignments()
