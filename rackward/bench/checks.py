"""What every run of the benchmark must show, checked from its results. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rackward.bench.results import Result
from rackward.bench.strategies import STRATEGIES
from rackward.bench.workloads import WORKLOADS

MAX_OVERHEAD = 0.02
"""Of the bytes of the logs: headers of responses, heartbeats, metadata."""
MAX_ERROR = 0.02
MAX_ERROR_OF_CHANGES = 0.05
CROSSING_OVERHEAD = 0.01
"""Of all bytes: heartbeats, commits, metadata and responses without records cross racks, too. Each
rebalance has some."""
MAX_SPREAD = 1.02
"""Of a member's bytes over the mean, if all partitions have the same traffic and each member the
same number of them: records are distributed one by one."""

Results = Mapping[tuple[str, str], Sequence[Result]]
"""By workload and strategy."""


@dataclass(frozen=True, slots=True)
class Check:
    """A claim, the results that it was checked on, and those that contradict it, a line each."""

    claim: str
    checked: int
    faults: tuple[str, ...]


def check_results(results: Results) -> list[Check]:
    """Return the checks."""
    measured = [result for repetitions in results.values() for result in repetitions]
    at_rest = [result for result in measured if WORKLOADS[result.workload].is_at_rest]
    changing = [result for result in measured if not WORKLOADS[result.workload].is_at_rest]
    rackward = [result for result in measured if STRATEGIES[result.strategy].is_rackward]
    return [
        _check(
            "At rest, the bytes of all pairs of racks are those of the logs, once per group, and "
            f"at most {MAX_OVERHEAD:.0%} more.",
            at_rest,
            lambda result: not 0 <= result.overhead <= MAX_OVERHEAD,
            lambda result: f"{result.overhead:+.1%}",
        ),
        _check(
            "At rest, the bytes across racks that the pipeline's what-if predicts are within "
            f"{MAX_ERROR:.0%} of the measured ones.",
            at_rest,
            lambda result: prediction_error(result) > MAX_ERROR,
            lambda result: f"{prediction_error(result):.1%}",
        ),
        _check(
            "While members or leaders change, the share of the bytes across racks that the what-if "
            f"predicts is within {MAX_ERROR_OF_CHANGES:.0%} of the measured one, or it differs by "
            f"less than {CROSSING_OVERHEAD:.0%} of all bytes; where it predicts none, at most "
            f"{MAX_ERROR_OF_CHANGES:.0%} of all bytes cross.",
            changing,
            lambda result: not _is_predicted(result),
            lambda result: (
                f"{result.predicted_crossing_share:.1%} predicted, "
                f"{result.crossing_share:.1%} measured"
            ),
        ),
        _check(
            "With even leaders and members, rackward's assignors read no partition from another "
            f"rack, and no member reads more than {MAX_SPREAD - 1:.0%} above the mean.",
            [result for result in rackward if result.workload == "even"],
            lambda result: bool(
                result.steps[0].crossing
                or result.crossing_share > MAX_OVERHEAD
                or result.spread > MAX_SPREAD
            ),
            lambda result: (
                f"{result.steps[0].crossing} partitions from another rack, "
                f"{result.crossing_share:.1%} of the bytes, spread {result.spread:.2f}"
            ),
        ),
        _check(
            "At rest, rackward's assignors read as few partitions from another rack as any "
            "balanced assignment can.",
            [result for result in rackward if WORKLOADS[result.workload].is_at_rest],
            lambda result: result.steps[0].crossing > result.steps[0].optimum,
            lambda result: f"{result.steps[0].crossing}, the minimum is {result.steps[0].optimum}",
        ),
        _no_peer_is_better(results),
    ]


def _check(
    claim: str,
    results: Sequence[Result],
    contradicts: Callable[[Result], bool],
    describe: Callable[[Result], str],
) -> Check:
    faults = [f"{_name(result)}: {describe(result)}" for result in results if contradicts(result)]
    return Check(claim, len(results), tuple(faults))


def prediction_error(result: Result) -> float:
    """Return the difference of predicted and measured crossing bytes.

    It is a share of the measured ones; where nothing is predicted to cross, what crossed
    nevertheless is a share of all bytes.
    """
    expected = sum(step.predicted_crossing_bytes for step in result.steps)
    if not expected:
        return result.crossing_share
    return abs(result.crossing_bytes - expected) / result.crossing_bytes


def _is_predicted(result: Result) -> bool:
    """Return whether the what-if predicts what crosses while members or leaders change."""
    predicted, measured = result.predicted_crossing_share, result.crossing_share
    if not predicted:
        # A consumer reads its new leader until it has found the follower in its rack again.
        return measured <= MAX_ERROR_OF_CHANGES
    return abs(predicted - measured) <= max(MAX_ERROR_OF_CHANGES * measured, CROSSING_OVERHEAD)


def _no_peer_is_better(results: Results) -> Check:
    """Compare strategies that read leaders where they are, and balance as rackward does."""
    faults: list[str] = []
    checked = 0
    for workload in (workload for workload in WORKLOADS.values() if workload.is_at_rest):
        peers = list(_peers(results, workload.key))
        rackward = results.get((workload.key, "rackward-kafka-python"))
        if rackward is None:
            continue
        own = min(result.crossing_share for result in rackward)
        for peer in peers:
            checked += 1
            if peer.crossing_share < own - MAX_OVERHEAD:
                faults.append(
                    f"{_name(peer)}: {peer.crossing_share:.1%} of the bytes across racks, "
                    f"rackward {own:.1%}"
                )
    return Check(
        "At rest, no other assignor with the same leaders, and with loads that differ by at most "
        "one partition, has fewer bytes across racks.",
        checked,
        tuple(faults),
    )


def _peers(results: Results, workload: str) -> Iterator[Result]:
    for (key, name), repetitions in results.items():
        strategy = STRATEGIES[name]
        if key == workload and not strategy.is_rackward and not strategy.reads_followers:
            for result in repetitions:
                fewest, most = result.partition_range
                if most - fewest <= 1:
                    yield result


def _name(result: Result) -> str:
    repetition = f" ({result.repetition})" if result.repetition > 1 else ""
    return f"{result.workload}, {STRATEGIES[result.strategy].title}{repetition}"
