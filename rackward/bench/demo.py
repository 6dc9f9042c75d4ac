"""The preset of ``rackward demo``: four strategies, a workload with all events, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from rackward.bench.results import Result, StepResult
from rackward.bench.sites import Site
from rackward.bench.strategies import STRATEGIES
from rackward.bench.workloads import Batch, Event, MemberShape, Workload

MEMBERS_PER_RACK = 2

DEMO_STRATEGIES = {
    key: replace(STRATEGIES[key], title=title)
    for key, title in (
        ("kafka-python-range", "kafka-python Range"),
        ("kafka-python-cooperative-sticky", "kafka-python CooperativeSticky"),
        ("rackward-range", "rackward Range"),
        ("rackward-kafka-python", "rackward CooperativeSticky"),
    )
}

EVENTS = (
    Event.LEADERS_MOVE,
    Event.MEMBER_LEAVES,
    Event.MEMBER_JOINS,
    Event.BROKER_DIES,
    Event.BROKER_RETURNS,
)
HARMLESS_EVENTS = (Event.MEMBER_LEAVES, Event.MEMBER_JOINS)
"""Those that neither stop brokers nor move leaders."""


class DemoResult(msgspec.Struct, frozen=True):
    """The result of a demo; `Result` has the fields of ``results``, one per strategy.

    bytes_source
        Whether the brokers counted the bytes, or they are estimated from assignments and positions.
    """

    cluster: str
    brokers: int
    racks: list[str]
    bytes_source: Literal["brokers", "estimate"]
    price_per_gb: float
    skipped_steps: list[str]
    is_optimal: bool
    results: list[Result]

    def to_json(self) -> str:
        """Return one JSON document, with a line end."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def demo_batch(racks: Sequence[str], *, own_cluster: bool) -> Batch:
    """Return the batch of the demo on these racks; other clusters are not disturbed."""
    members = tuple(MemberShape(rack) for _ in range(MEMBERS_PER_RACK) for rack in racks)
    events = EVENTS if own_cluster else HARMLESS_EVENTS
    workload = Workload("demo", "Demo", groups=(members,), events=events)
    return Batch(workload, 1, tuple(DEMO_STRATEGIES.values()))


def demo_result(
    site: Site, batch: Batch, results: Sequence[Result], price_per_gb: float
) -> DemoResult:
    """Return the results of the batch with what they were measured on."""
    return DemoResult(
        cluster=site.description,
        brokers=len(site.racks),
        racks=site.rack_names,
        bytes_source="estimate" if site.cluster is None else "brokers",
        price_per_gb=price_per_gb,
        skipped_steps=[event.value for event in EVENTS if event not in batch.workload.events],
        is_optimal=not any(
            suboptimal_steps(result)
            for result in results
            if DEMO_STRATEGIES[result.strategy].is_rackward
        ),
        results=list(results),
    )


def suboptimal_steps(result: Result) -> list[StepResult]:
    """Return the steps with a rebalance after which the group was not balanced and optimal."""
    return [
        step
        for step in result.steps
        if Event(step.event).rebalances
        and (step.crossing > step.optimum or step.max_partitions - step.min_partitions > 1)
    ]
