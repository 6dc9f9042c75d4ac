"""Runs all strategies under all workloads in batches, each on a fitting cluster, and keeps results.

A cluster is used for all batches with the same configuration of its brokers.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from assignors import RefreshPolicy
from rackward.bench import BenchError
from rackward.bench.measured import Progress
from rackward.bench.results import Options, ResultFolder
from rackward.bench.runner import BatchRunner
from rackward.bench.sites import own_site
from rackward.bench.strategies import Client, Strategy, select_strategies
from rackward.bench.workloads import RACKS, Batch, select_workloads

REFRESH = RefreshPolicy(
    min_gain=0.01, stable_seconds=1.0, unstable_seconds=4.0, min_interval=2.0, check_interval=0.5
)
"""rackward's assignors rebalance within seconds after leaders have moved, not within minutes."""

SELECTOR = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}

BATCH_SECONDS, STRATEGY_SECONDS, STEP_SECONDS = 15.0, 2.0, 5.0
"""About how long a batch, each of its strategies, and each of its steps takes beside reading."""


def run_all(options: Options, folder: ResultFolder, logs: Path, progress: Progress) -> list[str]:
    """Run what is missing in the folder; return what failed, a line each.

    ``logs`` is a folder for the logs of groups and brokers. A batch that fails does not end the
    run. Raises errors of the cluster.
    """
    planned = plan_batches(options, folder)
    failures: list[str] = []
    done, began = 0, time.monotonic()
    expected = [_expected_seconds(batch, options) for batch in planned]
    for (_, follower_fetching), of_cluster in itertools.groupby(planned, key=_of_cluster):
        with own_site(
            RACKS,
            options.groups_at_once,
            logs,
            progress,
            server_properties=SELECTOR if follower_fetching else {},
        ) as site:
            for batch in of_cluster:
                left = sum(expected[done:])
                if done:
                    left *= (time.monotonic() - began) / sum(expected[:done])
                names = ", ".join(strategy.key for strategy in batch.strategies)
                progress.log(
                    f"{done + 1} of {len(planned)}: {batch.workload.key}, repetition "
                    f"{batch.repetition}: {names}; {max(1, round(left / 60))} min left"
                )
                try:
                    with closing(BatchRunner(batch, options, logs, progress, REFRESH)) as runner:
                        folder.add(runner.run(site))
                except BenchError as error:
                    failures.append(f"{batch.workload.key}, {names}: {error}")
                    progress.log(f"failed: {error}")
                done += 1
    return failures


def plan_batches(options: Options, folder: ResultFolder) -> list[Batch]:
    """Return the batches of all results that are missing, in the order in which they run.

    Each repetition is complete before the next, and those of one kind of cluster are together.
    """
    planned = []
    strategies = select_strategies(options.strategies)
    for workload in select_workloads(options.workloads):
        possible = [strategy for strategy in strategies if workload.is_possible(strategy)]
        size = max(1, options.groups_at_once // len(workload.groups))
        for repetition in range(1, options.repetitions + 1):
            missing = folder.missing(workload.key, possible, repetition)
            planned += [
                Batch(workload, repetition, tuple(batch)) for batch in divide(missing, size)
            ]
    return sorted(planned, key=_of_cluster)


def _of_cluster(batch: Batch) -> tuple[int, bool]:
    """Return what is equal for batches that use the same cluster."""
    return batch.repetition, any(strategy.follower_fetching for strategy in batch.strategies)


def _expected_seconds(batch: Batch, options: Options) -> float:
    steps = len(batch.workload.events) + batch.workload.seeded_events
    reading = steps * (options.step_seconds + STEP_SECONDS) if steps else options.seconds
    return reading + BATCH_SECONDS + STRATEGY_SECONDS * len(batch.strategies)


def divide(strategies: Sequence[Strategy], size: int) -> list[list[Strategy]]:
    """Divide strategies into those that run at the same time on one cluster, at most ``size``.

    Those that need other leaders run apart. Those that need a replica selector run apart from
    others whose clients may send a rack, which it would change; the rest run with either. Batches
    have equal numbers of strategies, and of Java processes, as far as that allows.
    """
    laid_out, with_selector, without, either = [], [], [], []
    for strategy in sorted(strategies, key=lambda strategy: strategy.client is not Client.JAVA):
        if strategy.leader_layout:
            laid_out.append(strategy)
        elif strategy.follower_fetching:
            with_selector.append(strategy)
        elif strategy.sends_rack:
            without.append(strategy)
        else:
            either.append(strategy)
    selecting = _empty_batches(len(with_selector), size)
    number = len(with_selector) + len(without) + len(either)
    plain = _empty_batches(max(len(without), number - len(selecting) * size), size)
    for kind, possible in (
        (without, plain),
        (with_selector, selecting),
        (either, [*plain, *selecting]),
    ):
        for strategy in kind:
            min(possible, key=len).append(strategy)
    apart = [laid_out[start : start + size] for start in range(0, len(laid_out), size)]
    return [*plain, *apart, *selecting]


def _empty_batches(strategies: int, size: int) -> list[list[Strategy]]:
    return [[] for _ in range(-(-max(0, strategies) // size))]
