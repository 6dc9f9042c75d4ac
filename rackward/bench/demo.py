"""The preset of ``rackward demo``: four strategies, a workload with all events, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from rackward.bench.results import Result, StepResult
from rackward.bench.runner import Batch
from rackward.bench.strategies import STRATEGIES
from rackward.bench.workloads import RACKS, Event, MemberShape, Workload

DEMO_STRATEGIES = {
    key: replace(STRATEGIES[key], title=title)
    for key, title in (
        ("kafka-python-range", "kafka-python Range"),
        ("kafka-python-cooperative-sticky", "kafka-python Cooperative Sticky"),
        ("rackward-range", "rackward Range"),
        ("rackward-kafka-python", "rackward Cooperative Sticky"),
    )
}

EVENTS = (
    Event.LEADERS_MOVE,
    Event.MEMBER_LEAVES,
    Event.MEMBER_JOINS,
    Event.BROKER_DIES,
    Event.BROKER_RETURNS,
)
REBALANCES = {Event.START.value, Event.MEMBER_LEAVES.value, Event.MEMBER_JOINS.value}
"""Events after which every assignor makes a new assignment."""

DEMO_BATCH = Batch(
    Workload("demo", "Demo", groups=(tuple(map(MemberShape, RACKS * 2)),), events=EVENTS),
    1,
    tuple(DEMO_STRATEGIES.values()),
)


class DemoResult(msgspec.Struct, frozen=True):
    """The result of a demo; `Result` has the fields of ``results``, one per strategy."""

    brokers: int
    racks: list[str]
    price_per_gb: float
    is_optimal: bool
    results: list[Result]

    def to_json(self) -> str:
        """Return one JSON document, with a line end."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def demo_result(racks: Sequence[str], results: Sequence[Result], price_per_gb: float) -> DemoResult:
    """Return the results with what they were measured on; ``racks`` has an item per broker."""
    return DemoResult(
        brokers=len(racks),
        racks=sorted(set(racks)),
        price_per_gb=price_per_gb,
        is_optimal=not any(
            suboptimal_steps(result)
            for result in results
            if STRATEGIES[result.strategy].is_rackward
        ),
        results=list(results),
    )


def suboptimal_steps(result: Result) -> list[StepResult]:
    """Return the steps with a rebalance after which the group was not balanced and optimal."""
    return [
        step
        for step in result.steps
        if step.event in REBALANCES
        and (step.crossing > step.optimum or step.max_partitions - step.min_partitions > 1)
    ]
