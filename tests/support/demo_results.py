"""Results of a small demo run, for tests of its figures and its output."""

from __future__ import annotations

from rackward.demo.metrics import (
    STEPS,
    STRATEGIES,
    DemoResult,
    Event,
    Step,
    StepResult,
    StrategyResult,
)
from rackward.measurement.assignments import AssignmentSnapshot, TrafficMatrix
from rackward.measurement.strategies import Strategy

RACKS = ("a", "b", "c")
LEADER_RACKS = ("a", "b", "c", "a", "b", "c")
MEMBER_RACKS = {"m-a": "a", "m-b": "b", "m-c": "c"}
LOCAL = {"m-a": frozenset({0, 3}), "m-b": frozenset({1, 4}), "m-c": frozenset({2, 5})}
TWO_OFF_RACK = {"m-a": frozenset({0, 1}), "m-b": frozenset({3, 4}), "m-c": frozenset({2, 5})}


def snapshot(assignment: dict[str, frozenset[int]] | None = None) -> AssignmentSnapshot:
    return AssignmentSnapshot(
        MEMBER_RACKS, LOCAL if assignment is None else assignment, LEADER_RACKS
    )


def traffic(in_rack: int, cross_rack: int) -> TrafficMatrix:
    return {
        (reader, broker): in_rack if reader == broker else cross_rack
        for reader in RACKS
        for broker in RACKS
    }


def step_result(step: Step, strategy: Strategy, *, suboptimal: bool) -> StepResult:
    return StepResult(
        step=step,
        snapshot=snapshot(TWO_OFF_RACK if suboptimal else LOCAL),
        moved=1 if step.event is Event.MEMBER_LEAVES else 0,
        revoked=2 if step.rebalances else 0,
        bytes=traffic(1_000_000, 0) if strategy.is_rackward else traffic(400_000, 300_000),
        seconds=5.0,
    )


def demo_result(
    steps: tuple[Step, ...] = STEPS, *, suboptimal: bool = False, bytes_counted: bool = True
) -> DemoResult:
    """Return a result; with ``suboptimal``, rackward's assignors are not optimal either."""
    return DemoResult(
        strategies=tuple(
            StrategyResult(
                strategy=strategy,
                steps=tuple(
                    step_result(step, strategy, suboptimal=suboptimal or not strategy.is_rackward)
                    for step in steps
                ),
                records_read=1234,
            )
            for strategy in STRATEGIES
        ),
        racks=RACKS,
        cluster="a local cluster",
        brokers=6,
        partitions=len(LEADER_RACKS),
        bytes_counted=bytes_counted,
        seed=1,
        seconds=30.0,
        produced_bytes=18_000_000,
        produced_records=4500,
        price_per_gb=0.02,
        skipped_steps=tuple(step for step in STEPS if step not in steps),
    )
