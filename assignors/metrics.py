"""Assignments as Prometheus metrics (the extra ``prometheus``).

    from prometheus_client import REGISTRY, start_http_server
    from assignors.metrics import AssignmentCollector

    strategy = LeaderRackAwareCooperativeStickyAssignor(rack="use1-az1")
    REGISTRY.register(AssignmentCollector(strategy))
    start_http_server(9464, addr="127.0.0.1")

Read off the last assignment when Prometheus asks, so a rebalance does nothing for it. Only the
leader of a group assigns, and another member may lead the next time: each process exports what
it assigned last, and when. The latest is the one in force:

    rackward_assignment_off_rack_partitions
      and on (group, instance) topk by (group) (1, rackward_assignment_timestamp_seconds)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from assignors.group_leader import Assignment

LABELS = ("group", "protocol")

_GAUGES: tuple[tuple[str, str, Callable[[Assignment], float | None]], ...] = (
    (
        "rackward_assignment_timestamp_seconds",
        "When the last assignment was made.",
        lambda made: made.at.timestamp(),
    ),
    (
        "rackward_assignment_partitions",
        "Partitions of the last assignment.",
        lambda made: made.partitions,
    ),
    (
        "rackward_assignment_members",
        "Members of the group at the last assignment.",
        lambda made: len(made.basis.members),
    ),
    (
        "rackward_assignment_off_rack_partitions",
        "Partitions assigned to a member that is not in their leader's rack.",
        lambda made: made.off_rack,
    ),
    (
        "rackward_assignment_optimum_partitions",
        "The fewest off-rack partitions that an assignment in balance could have had.",
        lambda made: made.optimum,
    ),
    (
        "rackward_assignment_moved_partitions",
        "Partitions that the last assignment took from a member that stayed.",
        lambda made: made.moved,
    ),
    (
        "rackward_assignment_withheld_partitions",
        "Partitions that the last assignment left to the next round, to be handed over.",
        lambda made: made.withheld,
    ),
    (
        "rackward_assignment_duration_seconds",
        "How long the last assignment took to make.",
        lambda made: made.milliseconds / 1000,
    ),
)


class Source(Protocol):
    """What remembers assignments: our assignors of every client, and the confluent Consumer."""

    def assignments(self) -> tuple[Assignment, ...]:
        """The last assignment of each group."""


class AssignmentCollector(Collector):
    """Gives a registry the last assignment of each group of ``sources``.

    Labels are the group and the protocol. Of several sources that assigned one group, say one
    assignor per thread, assignments are added up, and the rest is of the latest. What is not
    known, as where an assignor failed, is left out.
    """

    def __init__(self, *sources: Source) -> None:
        self._lock = threading.Lock()
        self._sources = list(sources)

    def add(self, source: Source) -> None:
        """Collect from another one as well."""
        with self._lock:
            self._sources.append(source)

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """What prometheus_client calls."""
        with self._lock:
            sources = list(self._sources)
        count: dict[tuple[str, str], int] = {}
        last: dict[tuple[str, str], Assignment] = {}
        for made in sorted(_all(sources), key=lambda made: made.at):
            key = (made.group, made.protocol)
            count[key] = count.get(key, 0) + made.number
            last[key] = made
        counter = CounterMetricFamily(
            "rackward_assignments", "Assignments made as the leader of the group.", labels=LABELS
        )
        for key, number in count.items():
            counter.add_metric(key, number)
        yield counter
        for name, text, figure in _GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=LABELS)
            for key, made in last.items():
                value = figure(made)
                if value is not None:
                    gauge.add_metric(key, value)
            yield gauge


def _all(sources: Iterable[Source]) -> Iterator[Assignment]:
    # A source that was given twice counts once.
    for source in {id(each): each for each in sources}.values():
        yield from source.assignments()
