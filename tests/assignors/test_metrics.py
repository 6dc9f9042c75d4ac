"""Assignments as Prometheus metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from assignors.group_leader import GroupContext, Leaders
from assignors.group_leader.history import AssignmentHistory
from assignors.kafka_python import LeaderRackAwareRangeAssignor
from assignors.metrics import AssignmentCollector
from tests.support.group_leader import FailingAssignor, joined_member, rebalanced, sticky_protocol

JOINED = [joined_member("m1", "a"), joined_member("m2", "b")]


def scrape(collector: AssignmentCollector) -> dict[tuple[str, str], float]:
    """Return (name, group) to value, as a Prometheus server reads it."""
    registry = CollectorRegistry()
    registry.register(collector)
    return {
        (sample.name, sample.labels["group"]): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


class Source:
    """The assignments of a history."""

    def __init__(self, history: AssignmentHistory) -> None:
        self.assignments = history.all


def test_metrics_are_those_of_the_last_assignment_of_each_group() -> None:
    protocol = sticky_protocol()
    racks = Leaders({"t": ["a", "a", "a", "b"]}, frozenset(), {0: "a", 1: "b"})
    for group, generation in (("g", 1), ("h", 7), ("g", 2)):
        rebalanced(protocol, racks, JOINED, context=GroupContext(group, generation))
    metrics = scrape(AssignmentCollector(Source(protocol.history)))
    assert metrics["rackward_assignments_total", "g"] == 2
    assert metrics["rackward_assignments_total", "h"] == 1
    last = protocol.history.latest("g")
    assert last is not None
    prefix = "rackward_assignment"
    assert {
        name.removeprefix(prefix): value
        for (name, group), value in metrics.items()
        if group == "g" and name.startswith(prefix + "_")
    } == {
        "_timestamp_seconds": pytest.approx(last.at.timestamp()),
        "_partitions": 4,
        "_members": 2,
        "_off_rack_partitions": 1,
        "_optimum_partitions": 1,
        "_withheld_partitions": 0,
        "_duration_seconds": pytest.approx(last.milliseconds / 1000),
    }


def test_moved_partitions_are_counted_until_they_have_arrived() -> None:
    """The assignment that moves partitions withholds them, and in the next one nothing moves."""
    protocol = sticky_protocol()
    racks = Leaders({"t": ["b", "a"]}, frozenset(), {0: "a", 1: "b"})
    for generation, owned in ((2, ({"t": [0]}, {"t": [1]})), (3, (None, None))):
        joined = [
            joined_member(name, rack, each, generation - 1)
            for name, rack, each in zip(("m1", "m2"), "ab", owned, strict=True)
        ]
        rebalanced(protocol, racks, joined, context=GroupContext("g", generation))
        metrics = scrape(AssignmentCollector(Source(protocol.history)))
        assert metrics["rackward_moved_partitions_total", "g"] == 2


def test_counters_of_sources_of_one_group_are_summed() -> None:
    early, late = sticky_protocol(), sticky_protocol()
    racks = Leaders({"t": ["a", "a"]}, frozenset(), {0: "a"})
    more = replace(racks, racks={"t": ["a", "b", "b"]})
    rebalanced(early, racks, JOINED, context=GroupContext("g", 1))
    rebalanced(late, more, JOINED, context=GroupContext("g", 2))
    collector = AssignmentCollector(Source(late.history))
    source = Source(early.history)
    for _ in range(2):
        collector.add(source)
    metrics = scrape(collector)
    assert metrics["rackward_assignments_total", "g"] == 2
    assert metrics["rackward_moved_partitions_total", "g"] == 0
    assert metrics["rackward_assignment_partitions", "g"] == 3


def test_unknown_values_are_left_out() -> None:
    failing = sticky_protocol(FailingAssignor())
    racks = Leaders({"t": ["a", "a"]}, frozenset(), {0: "a"})
    rebalanced(failing, racks, JOINED, context=GroupContext("g", 1))
    metrics = scrape(AssignmentCollector(Source(failing.history)))
    assert metrics["rackward_assignments_total", "g"] == 1
    assert ("rackward_assignment_off_rack_partitions", "g") not in metrics
    # A registry accepts a collector without assignments.
    assert scrape(AssignmentCollector(LeaderRackAwareRangeAssignor(rack="a"))) == {}
