"""A small result, as a run could have found it, for the tests of what is made of one."""

from __future__ import annotations

from rackward.demo.metrics import DemoResult, Matrix, Standing, StepMeasure, StrategyResult
from rackward.demo.steps import STORY, STRATEGIES, Event, Step, Strategy

RACKS = ("a", "b", "c")
LEADERS = ("a", "b", "c", "a", "b", "c")
LOCAL = {"m-a": frozenset({0, 3}), "m-b": frozenset({1, 4}), "m-c": frozenset({2, 5})}
ASTRAY = {"m-a": frozenset({0, 1}), "m-b": frozenset({3, 4}), "m-c": frozenset({2, 5})}
MEMBERS = {"m-a": "a", "m-b": "b", "m-c": "c"}


def standing(assignment: dict[str, frozenset[int]] | None = None) -> Standing:
    return Standing(MEMBERS, LOCAL if assignment is None else assignment, LEADERS)


def matrix(local: int, across: int) -> Matrix:
    return {(one, other): local if one == other else across for one in RACKS for other in RACKS}


def measure(step: Step, strategy: Strategy, *, astray: bool = False) -> StepMeasure:
    return StepMeasure(
        step=step,
        standing=standing(ASTRAY if astray else LOCAL),
        moved=1 if step.event is Event.MEMBER_LEAVES else 0,
        interrupted=2 if step.rebalances else 0,
        bytes=matrix(1_000_000, 0) if strategy.ours else matrix(400_000, 300_000),
        seconds=5.0,
    )


def result(
    steps: tuple[Step, ...] = STORY, *, ours_astray: bool = False, counted: bool = True
) -> DemoResult:
    return DemoResult(
        strategies=tuple(
            StrategyResult(
                strategy=strategy,
                steps=tuple(
                    measure(step, strategy, astray=ours_astray or not strategy.ours)
                    for step in steps
                ),
                records=1234,
            )
            for strategy in STRATEGIES
        ),
        racks=RACKS,
        cluster="a Kafka of its own",
        brokers=6,
        partitions=len(LEADERS),
        counted=counted,
        seed=1,
        seconds=30.0,
        produced_bytes=18_000_000,
        produced_records=4500,
        price_per_gb=0.02,
        left_out=tuple(step for step in STORY if step not in steps),
    )
