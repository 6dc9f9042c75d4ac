"""Results of the benchmark as values, for tests of its checks, files and report."""

from __future__ import annotations

from typing import Any

import msgspec

from rackward.bench.results import Options, Result, Run, StepResult

STEP = StepResult(
    event="start",
    crossing=0,
    optimum=0,
    moved=0,
    bytes=1_010_000,
    crossing_bytes=0,
    predicted_bytes=1_000_000,
    predicted_crossing_bytes=0,
    min_partitions=6,
    max_partitions=6,
)


def step(**changes: Any) -> StepResult:
    """Return a step in which nothing crosses racks, with these fields changed."""
    return msgspec.structs.replace(STEP, **changes)


def result(strategy: str = "rackward-kafka-python", **changes: Any) -> Result:
    """Return a result of even leaders without crossing bytes, with these fields changed."""
    plain = Result(
        workload="even",
        strategy=strategy,
        repetition=1,
        seed=1,
        seconds=10.0,
        produced_bytes=990_000,
        log_bytes=1_000_000,
        groups=1,
        members=6,
        partitions=36,
        bytes={"a": {"a": 500_000}, "b": {"b": 510_000}},
        steps=[STEP],
        spread=1.0,
        revoked=0,
        rebalances=0,
        records_read=240,
        longest_pause=0.9,
    )
    return msgspec.structs.replace(plain, **changes)


def crossing_result(strategy: str, **changes: Any) -> Result:
    """Return a result with 605,000 of 1,010,000 bytes across racks, as predicted but for 5,000."""
    crossing = step(
        crossing=22, crossing_bytes=605_000, predicted_crossing_bytes=600_000, optimum=0
    )
    matrix = {"a": {"a": 405_000, "b": 305_000}, "b": {"a": 300_000}}
    return result(strategy, **{"bytes": matrix, "steps": [crossing], **changes})


def bench_run(options: Options | None = None) -> Run:
    return Run(
        options=options or Options(),
        command="rackward bench run --short",
        began="2030-01-02",
        versions={"Kafka": "4.3.1", "Python": "3.11.7"},
        cpus=2,
        load=0.5,
    )
