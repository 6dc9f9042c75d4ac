"""Results of a small demo run, for tests of its figures and its output."""

from __future__ import annotations

from rackward.bench.demo import DEMO_BATCH, DemoResult, demo_result
from rackward.bench.results import Result
from rackward.bench.strategies import Strategy
from rackward.bench.workloads import RACKS, Event
from tests.support.bench_results import result, step


def strategy_result(strategy: Strategy, *, suboptimal: bool) -> Result:
    in_rack, crossing = (6_000_000, 0) if strategy.is_rackward else (2_400_000, 1_800_000)
    return result(
        strategy.key,
        workload="demo",
        seconds=30.0,
        produced_bytes=18_000_000,
        partitions=6,
        bytes={
            reader: {broker: in_rack if reader == broker else crossing for broker in RACKS}
            for reader in RACKS
        },
        steps=[
            step(
                event=event.value,
                crossing=2 if suboptimal else 0,
                min_partitions=2,
                max_partitions=2,
            )
            for event in (Event.START, *DEMO_BATCH.workload.events)
        ],
    )


def demo_result_of(*, suboptimal: bool = False) -> DemoResult:
    """Return a result; with ``suboptimal``, rackward's assignors are not optimal either."""
    results = [
        strategy_result(strategy, suboptimal=suboptimal or not strategy.is_rackward)
        for strategy in DEMO_BATCH.strategies
    ]
    return demo_result("aabbcc", results, 0.02)
