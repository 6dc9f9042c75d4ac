"""Results of a small demo run, for tests of its figures and its output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rackward.bench.demo import DEMO_STRATEGIES, DemoResult, demo_batch, demo_result
from rackward.bench.results import Result, StepResult
from rackward.bench.sites import Site
from rackward.bench.strategies import Strategy
from rackward.bench.workloads import Event
from rackward.testing import Cluster
from tests.support.bench_results import result, step

RACKS = ("a", "b", "c")


def step_of(event: Event, strategy: Strategy, *, suboptimal: bool) -> StepResult:
    return step(
        event=event.value,
        crossing=2 if suboptimal else 0,
        moved=1 if event is Event.MEMBER_LEAVES else 0,
        bytes=3_000_000,
        crossing_bytes=0 if strategy.is_rackward else 1_800_000,
        min_partitions=2,
        max_partitions=2,
    )


def strategy_result(strategy: Strategy, events: Sequence[Event], *, suboptimal: bool) -> Result:
    in_rack, crossing = (1_000_000, 0) if strategy.is_rackward else (400_000, 300_000)
    return result(
        strategy.key,
        workload="demo",
        seconds=30.0,
        produced_bytes=18_000_000,
        partitions=6,
        bytes={
            reader: {
                broker: len(events) * (in_rack if reader == broker else crossing)
                for broker in RACKS
            }
            for reader in RACKS
        },
        steps=[step_of(event, strategy, suboptimal=suboptimal) for event in events],
        revoked=6,
    )


def demo_result_of(*, suboptimal: bool = False, own_cluster: bool = True) -> DemoResult:
    """Return a result; with ``suboptimal``, rackward's assignors are not optimal either."""
    batch = demo_batch(RACKS, own_cluster=own_cluster)
    results = [
        strategy_result(
            strategy,
            [Event.START, *batch.workload.events],
            suboptimal=suboptimal or not strategy.is_rackward,
        )
        for strategy in DEMO_STRATEGIES.values()
    ]
    cluster = cast("Cluster", object()) if own_cluster else None
    site = Site("a local cluster", "kafka:9092", dict(enumerate("aabbcc")), cluster)

    return demo_result(site, batch, results, 0.02)
