"""Assignments as Prometheus reads them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from assignors.group_leader import About, Leaders, Records
from assignors.kafka_python import LeaderRackAwareRangeAssignor
from assignors.metrics import AssignmentCollector
from tests.assignors.group_leader.test_history import AT, JOINED, rebalance

Figures = dict[tuple[str, str], float]


def scraped(collector: AssignmentCollector) -> Figures:
    """(name, group) to value, as a server would read it."""
    registry = CollectorRegistry()
    registry.register(collector)
    return {
        (sample.name, sample.labels["group"]): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


class Remembering:
    """A source."""

    def __init__(self, records: Records) -> None:
        self.assignments = records.all


def test_metrics_are_those_of_the_last_assignment_of_each_group() -> None:
    leading = rebalance()
    racks = Leaders({"t": ["a", "a", "a", "b"]}, {}, frozenset(), {0: "a", 1: "b"})
    for group, generation in (("g", 1), ("h", 7), ("g", 2)):
        leading.run(lambda _: racks, JOINED, about=About(group, generation))
    found = scraped(AssignmentCollector(Remembering(leading.records)))
    assert found["rackward_assignments_total", "g"] == 2
    assert found["rackward_assignments_total", "h"] == 1
    last = leading.records.last("g")
    assert last is not None
    prefix = "rackward_assignment"
    assert {
        name.removeprefix(prefix): value
        for (name, group), value in found.items()
        if group == "g" and name != "rackward_assignments_total"
    } == {
        "_timestamp_seconds": pytest.approx(last.at.timestamp()),
        "_partitions": 4,
        "_members": 2,
        "_off_rack_partitions": 1,
        "_optimum_partitions": 1,
        "_moved_partitions": 0,
        "_withheld_partitions": 0,
        "_duration_seconds": pytest.approx(last.milliseconds / 1000),
    }


def test_sources_of_one_group_are_added_up_and_the_latest_counts() -> None:
    early, late = rebalance(AT), rebalance(AT + timedelta(seconds=1))
    racks = Leaders({"t": ["a", "a"]}, {}, frozenset(), {0: "a"})
    more = replace(racks, racks={"t": ["a", "b", "b"]})
    early.run(lambda _: racks, JOINED, about=About("g", 1))
    late.run(lambda _: more, JOINED, about=About("g", 2))
    collector = AssignmentCollector(Remembering(late.records))
    source = Remembering(early.records)
    for _ in range(2):
        collector.add(source)
    found = scraped(collector)
    assert found["rackward_assignments_total", "g"] == 2
    assert found["rackward_assignment_partitions", "g"] == 3


def test_what_is_not_known_is_left_out() -> None:
    failing = rebalance(fails=True)
    racks = Leaders({"t": ["a", "a"]}, {}, frozenset(), {0: "a"})
    failing.run(lambda _: racks, JOINED, about=About("g", 1))
    found = scraped(AssignmentCollector(Remembering(failing.records)))
    assert found["rackward_assignments_total", "g"] == 1
    assert ("rackward_assignment_off_rack_partitions", "g") not in found
    # Nothing was assigned so far: the registry takes it all the same.
    assert scraped(AssignmentCollector(LeaderRackAwareRangeAssignor(rack="a"))) == {}
