"""What every run must show, and the results as a Markdown page. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rackward.bench.results import SECONDS_PER_MONTH, Result, Run
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
MAX_ACROSS = 0.02
MAX_BYTE_SPREAD = 1.1
COST_RATE = 100.0
"""MB per second that a group reads, for the cost."""

Results = Mapping[tuple[str, str], Sequence[Result]]
"""By workload and strategy."""


# ---- Checks.


@dataclass(frozen=True, slots=True)
class Check:
    """A claim, the number of results that it was checked on, and what contradicts it."""

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
            lambda result: 0 <= result.overhead <= MAX_OVERHEAD,
            lambda result: f"{result.overhead:+.1%}",
        ),
        _check(
            "At rest, the bytes across racks that the pipeline's what-if predicts are within "
            f"{MAX_ERROR:.0%} of the measured ones, or {CROSSING_OVERHEAD:.0%} of all bytes.",
            at_rest,
            lambda result: (
                prediction_error(result) <= MAX_ERROR
                or abs(result.predicted_crossing_share - result.crossing_share) <= CROSSING_OVERHEAD
            ),
            lambda result: f"{prediction_error(result):.1%}",
        ),
        _check(
            "While members or leaders change, the share of the bytes across racks that the what-if "
            f"predicts is within {MAX_ERROR_OF_CHANGES:.0%} of the measured one, or it differs by "
            f"less than {CROSSING_OVERHEAD:.0%} of all bytes; where it predicts none, at most "
            f"{MAX_ERROR_OF_CHANGES:.0%} of all bytes cross.",
            changing,
            _is_predicted,
            lambda result: (
                f"{result.predicted_crossing_share:.1%} predicted, "
                f"{result.crossing_share:.1%} measured"
            ),
        ),
        _check(
            "With even leaders and members, rackward's assignors read no partition from another "
            f"rack, and no member reads more than {MAX_SPREAD - 1:.0%} above the mean.",
            [result for result in rackward if result.workload == "even"],
            lambda result: (
                result.steps[0].crossing == 0
                and result.crossing_share <= MAX_OVERHEAD
                and result.spread <= MAX_SPREAD
            ),
            lambda result: (
                f"{result.steps[0].crossing} partitions from another rack, "
                f"{result.crossing_share:.1%} of the bytes, spread {result.spread:.2f}"
            ),
        ),
        _check(
            "At rest, rackward's assignors read as few partitions from another rack as any "
            "balanced assignment can.",
            [
                result
                for result in rackward
                if WORKLOADS[result.workload].is_at_rest
                and STRATEGIES[result.strategy].balance == "partitions"
            ],
            lambda result: result.steps[0].crossing <= result.steps[0].optimum,
            lambda result: f"{result.steps[0].crossing}, the minimum is {result.steps[0].optimum}",
        ),
        _check(
            "At rest, no other assignor with the same leaders, and with loads that differ by at "
            "most one partition, has fewer bytes across racks.",
            [result for result in at_rest if _is_peer(result, results)],
            lambda result: (
                result.crossing_share >= _least_share(result.workload, results) - MAX_OVERHEAD
            ),
            lambda result: (
                f"{result.crossing_share:.1%} of the bytes across racks, rackward "
                f"{_least_share(result.workload, results):.1%}"
            ),
        ),
        _check(
            "What producers that choose partitions write across racks is as predicted, within "
            f"{MAX_ERROR:.0%} of what they write.",
            [result for result in measured if result.written],
            lambda result: (
                abs(result.predicted_written_share - result.written_crossing_share) <= MAX_ERROR
            ),
            lambda result: (
                f"{result.predicted_written_share:.1%} predicted, "
                f"{result.written_crossing_share:.1%} measured"
            ),
        ),
        _check(
            "With rackward's partitioner, a leader layout and members even in bytes, at most "
            f"{MAX_ACROSS:.0%} of what is written and of what is read crosses racks, and no member "
            f"reads more than {MAX_BYTE_SPREAD - 1:.0%} above the mean.",
            [result for result in measured if STRATEGIES[result.strategy].balance == "bytes"],
            lambda result: (
                max(result.written_crossing_share, result.crossing_share) <= MAX_ACROSS
                and result.spread <= MAX_BYTE_SPREAD
            ),
            lambda result: (
                f"{result.written_crossing_share:.1%} written, {result.crossing_share:.1%} read, "
                f"spread {result.spread:.2f}"
            ),
        ),
    ]


def _check(
    claim: str,
    results: Sequence[Result],
    holds: Callable[[Result], bool],
    describe: Callable[[Result], str],
) -> Check:
    faults = [
        f"{result.workload}, {STRATEGIES[result.strategy].title} ({result.repetition}): "
        f"{describe(result)}"
        for result in results
        if not holds(result)
    ]
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


def _is_peer(result: Result, results: Results) -> bool:
    """Return whether the strategy reads leaders where they are, and balances as rackward does."""
    strategy = STRATEGIES[result.strategy]
    fewest, most = result.partition_range
    return (
        not strategy.is_rackward
        and not strategy.reads_followers
        and most - fewest <= 1
        and (result.workload, "rackward-kafka-python") in results
    )


def _least_share(workload: str, results: Results) -> float:
    return min(result.crossing_share for result in results[workload, "rackward-kafka-python"])


# ---- The page.


def make_page(run: Run, results: Results) -> str:
    """Return the page of a run."""
    lines = [
        "# Bytes across racks",
        "",
        *_introduction(run, results),
        *check_table(check_results(results)),
        *summary_table(results),
    ]
    for workload in WORKLOADS.values():
        found = {key: each for (name, key), each in results.items() if name == workload.key}
        if found:
            lines += [f"## {workload.title}", "", *_table(found, run.options.price)]
    return "\n".join(lines).rstrip() + "\n"


def _introduction(run: Run, results: Results) -> Iterator[str]:
    options = run.options
    versions = ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items()))
    yield from ("```sh", run.command, "```", "")
    yield (
        f"{sum(map(len, results.values()))} results, {run.began}, on {run.cpus} CPUs with a load "
        f"of {run.load:.0f}: {versions}. Three brokers in three racks, or two in each where racks "
        f"write; {options.partitions} partitions with a replica in each rack, leaders shuffled "
        f"with seed {options.seed}; {options.rate:g} MB/s written, and read by each group for "
        f"{options.seconds:g} s, or {options.step_seconds:g} s after each change. Brokers count "
        "the bytes: members of each strategy in each rack have a listener of their own. On a busy "
        "machine pauses are longer; bytes do not depend on it."
    )
    yield from (
        "",
        "- **Local**: partitions read in the rack of their reader at the end of a step.",
        "- **Across**: the share of the bytes that crossed racks, with the lowest and the highest "
        "repetition. **Predicted**: the same, as the traffic pipeline's what-if computes it from "
        "members, leaders, replicas and log sizes.",
        "- **Overhead**: bytes sent beyond those of the logs.",
        f"- **Cost**: of a month at {COST_RATE:g} MB/s, at $ {options.price:g} per GB across "
        "racks.",
        "- **Spread**: bytes of the member that reads most over the mean of the members.",
        "- **Rebalances** after the start, and partitions **moved** between members that stayed.",
        "- **Pause**: the longest time for which records of a partition waited while none of it "
        "was read.",
        "",
        "Values are means of the repetitions. rackward's assignors rebalance 1 to 4 s after "
        "leaders have moved here, and by default after minutes.",
        "",
    )


def check_table(checks: Sequence[Check]) -> Iterator[str]:
    """Yield the lines of a table of checks."""
    yield from ("| check | results | |", "|---|---|---|")
    for check in checks:
        verdict = "holds" if check.checked else "not measured"
        if check.faults:
            verdict = f"**{len(check.faults)} contradict it**: " + "; ".join(check.faults)
        yield f"| {check.claim} | {check.checked} | {verdict} |"
    yield ""


def summary_table(results: Results) -> Iterator[str]:
    """Yield the lines of a table of shares across racks, by strategy and workload."""
    measured = {workload for workload, _ in results}
    workloads = [workload for workload in WORKLOADS.values() if workload.key in measured]
    yield from ("The share of all bytes that crossed racks:", "")
    titles = " | ".join(workload.title.lower() for workload in workloads)
    yield from (f"| strategy | {titles} |", "|---|" + "---:|" * len(workloads))
    for strategy in STRATEGIES.values():
        found = [results.get((workload.key, strategy.key)) for workload in workloads]
        if any(found):
            shares = [f"{_mean(each, _share):.1%}" if each else "" for each in found]
            yield f"| {strategy.title} | " + " | ".join(shares) + " |"
    yield ""


def _table(found: Mapping[str, Sequence[Result]], price: float) -> Iterator[str]:
    """Yield the lines of the table of a workload."""
    headings: tuple[str, ...] = (
        "strategy", "local partitions", "across", "predicted", "overhead", "cost", "spread",
        "rebalances, moved", "pause",
    )  # fmt: skip
    producers_choose = any(each.written for results in found.values() for each in results)
    if producers_choose:
        headings = (headings[0], "written across", "predicted", *headings[1:])
    yield from ("| " + " | ".join(headings) + " |", "|---|" + "---:|" * (len(headings) - 1))
    month = COST_RATE * 1e6 * SECONDS_PER_MONTH / 1e9 * price
    for key, results in found.items():
        first, shares = results[0], sorted(map(_share, results))
        whole = first.partitions * first.groups
        crossing = _mean(
            results, lambda each: sum(step.crossing for step in each.steps) / len(each.steps)
        )
        share = _mean(results, _share)
        written = (
            f"{_mean(results, lambda each: each.written_crossing_share):.1%}",
            f"{_mean(results, lambda each: each.predicted_written_share):.1%}",
        )
        cells = (
            STRATEGIES[key].title,
            *(written if producers_choose else ()),
            f"{whole - crossing:.3g} of {whole}",
            f"{share:.1%} ({shares[0]:.1%} to {shares[-1]:.1%})",
            f"{_mean(results, lambda each: each.predicted_crossing_share):.1%}",
            f"{_mean(results, lambda each: each.overhead):.1%}",
            f"$ {share * month:,.0f}",
            f"{_mean(results, lambda each: each.spread):.2f}",
            f"{_mean(results, lambda each: each.rebalances):.3g}, "
            f"{_mean(results, lambda each: each.moved):.3g}",
            f"{_mean(results, lambda each: each.longest_pause):.1f} s",
        )
        yield "| " + " | ".join(cells) + " |"
    yield ""


def _share(result: Result) -> float:
    return result.crossing_share


def _mean(results: Sequence[Result], value: Callable[[Result], float]) -> float:
    return sum(map(value, results)) / len(results)
