"""The results as a Markdown page with plots. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from rackward.bench.checks import Check, Results, check_results
from rackward.bench.plots import Bar, bar_plot, line_plot
from rackward.bench.results import SECONDS_PER_MONTH, Result, Run
from rackward.bench.strategies import STRATEGIES
from rackward.bench.workloads import WORKLOADS, Workload

COST_RATE = 100.0
"""MB per second that a group reads, for the cost."""


@dataclass(frozen=True, slots=True)
class Report:
    """A page in Markdown, its checks and summary, and the plots by the name of their file."""

    markdown: str
    summary: str
    plots: Mapping[str, str]
    checks: Sequence[Check]


def make_report(run: Run, results: Results) -> Report:
    """Return the page of a run."""
    checks = check_results(results)
    plots: dict[str, str] = {}
    summary = "\n".join([*_check_lines(checks), *_summary_lines(results)])
    lines = ["# Bytes across racks", "", *_introduction(run, results), summary]
    for workload in WORKLOADS.values():
        found = {name: each for (key, name), each in results.items() if key == workload.key}
        if found:
            lines += _workload_lines(workload, found, run, plots)
    return Report("\n".join(lines).rstrip() + "\n", summary, plots, checks)


def _introduction(run: Run, results: Results) -> list[str]:
    options = run.options
    names = ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items()))
    count = sum(map(len, results.values()))
    busy = (
        " Its CPUs were busy with other processes: pauses, latencies and MB/s are not those of an "
        "idle machine. Bytes do not depend on it."
        if run.load > run.cpus
        else ""
    )
    return [
        "```sh",
        run.command,
        "```",
        "",
        f"{count} results, {run.began}, on {run.cpus} CPUs with a load of {run.load:.0f}: {names}."
        f"{busy}",
        "",
        f"Three brokers in three racks, {options.partitions} partitions with a replica in each "
        f"rack, leaders shuffled with seed {options.seed}; {options.rate:g} MB/s written, and read "
        f"by each group. Up to {options.groups_at_once} groups read the same topics at the "
        f"same time, for {options.seconds:g} s, or {options.step_seconds:g} s after each change. "
        "Brokers count the bytes: members of each strategy in each rack have a listener of their "
        "own.",
        "",
        "- **Local**: partitions that are read in the rack of their reader when the measurement "
        "ends, and the share of all bytes sent within a rack. **Across** is the rest of the bytes.",
        "- **Predicted**: the share across racks that the traffic pipeline's what-if computes from "
        "members, leaders, replicas and log sizes, without the counters of the brokers.",
        "- **Overhead**: bytes sent beyond those of the logs: headers, heartbeats, metadata, and "
        "what a client discards in a rebalance and reads again.",
        f"- **Cost**: of a month at {COST_RATE:g} MB/s with this share across racks, at "
        f"$ {options.price:g} per GB.",
        "- **Spread**: bytes of the member that reads most over the mean of the members (1: even).",
        "- **Rebalances** after the start, and partitions **moved** between members that stayed.",
        "- **Pause**: the longest time for which records of a partition waited while none of it "
        "was read. **Latency**: from a record's production to its arrival at the application, "
        "median and 99th percentile. Consumers wait up to 0.5 s for 64 KB.",
        "- **Read**: MB/s that each group read; no more is written.",
        "",
        "Values are means of the repetitions, with the lowest and the highest in parentheses where "
        "it matters. The best of a column is bold unless most have it. Leaders that moved make "
        "rackward's assignors rebalance after 1 to 4 s here, and by default after minutes.",
        "",
    ]


def _check_lines(checks: Sequence[Check]) -> list[str]:
    lines = ["| check | results | |", "|---|---|---|"]
    for check in checks:
        if not check.checked:
            verdict = "not measured"
        elif check.faults:
            verdict = f"**{len(check.faults)} contradict it**: " + "; ".join(check.faults)
        else:
            verdict = "holds"
        lines.append(f"| {check.claim} | {check.checked} | {verdict} |")
    return [*lines, ""]


# ---- Tables.


def _summary_lines(results: Results) -> list[str]:
    """Return a table of the share of the bytes across racks, if there are several workloads."""
    measured = {workload for workload, _ in results}
    workloads = [workload for workload in WORKLOADS.values() if workload.key in measured]
    if len(workloads) < 2:
        return []
    lines = [
        "The share of all bytes that crossed racks:",
        "",
        "| strategy | " + " | ".join(workload.title.lower() for workload in workloads) + " |",
        "|---|" + "---:|" * len(workloads),
    ]
    for strategy in STRATEGIES.values():
        shares = [
            f"{_mean(found, lambda result: result.crossing_share):.1%}"
            if (found := results.get((workload.key, strategy.key)))
            else ""
            for workload in workloads
        ]
        if any(shares):
            lines.append(f"| {strategy.title} | " + " | ".join(shares) + " |")
    return [*lines, ""]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a workload's table.

    ``form`` is filled with the means of ``values``. ``least`` is what is compared: the strategy
    with the least of it is the best. ``ranged`` adds the lowest and the highest repetition.
    """

    heading: str
    form: str
    values: tuple[Callable[[Result], float], ...]
    least: Callable[[Result], float] | None = None
    unit: str = ""
    ranged: bool = False

    def text(self, results: Sequence[Result]) -> str:
        """Return a cell."""
        text = self.form.format(*(_mean(results, value) for value in self.values)) + self.unit
        if not self.ranged:
            return text
        values = [self.values[0](result) for result in results]
        low, high = self.form.format(min(values)), self.form.format(max(values))
        return text if low == high else f"{text} ({low} to {high})"

    def best(self, found: Mapping[str, Sequence[Result]]) -> set[str]:
        """Return the strategies with the best cell; none if most have it."""
        if self.least is None:
            return set()
        means = {name: _mean(results, self.least) for name, results in found.items()}
        text = self.text(found[min(means, key=lambda name: means[name])])
        names = {name for name, results in found.items() if self.text(results) == text}
        return names if 2 * len(names) <= len(found) else set()


def _columns(price: float) -> list[_Column]:
    def crossing_partitions(result: Result) -> float:
        return sum(step.crossing for step in result.steps) / len(result.steps)

    def whole(result: Result) -> float:
        return result.partitions * result.groups

    def local_partitions(result: Result) -> float:
        return whole(result) - crossing_partitions(result)

    def local_share(result: Result) -> float:
        return 1 - result.crossing_share

    def megabytes(result: Result) -> float:
        return result.crossing_bytes / 1e6

    def cost(result: Result) -> float:
        return result.crossing_share * COST_RATE * 1e6 * SECONDS_PER_MONTH / 1e9 * price

    def throughput(result: Result) -> float:
        return result.total_bytes / result.groups / result.seconds / 1e6

    share, predicted = attrgetter("crossing_share"), attrgetter("predicted_crossing_share")
    spread, overhead = attrgetter("spread"), attrgetter("overhead")
    rebalances, moved = attrgetter("rebalances"), attrgetter("moved")
    pause = attrgetter("longest_pause")
    median, tail = attrgetter("latency_p50"), attrgetter("latency_p99")
    return [
        _Column(
            "local partitions", "{:.3g} of {:g}", (local_partitions, whole), crossing_partitions
        ),
        _Column("local bytes", "{:.1%}", (local_share,), share),
        _Column("across", "{:.1%}", (share,), share, ranged=True),
        _Column("predicted", "{:.1%}", (predicted,)),
        _Column("MB across", "{:.2f}", (megabytes,)),
        _Column("overhead", "{:.1%}", (overhead,)),
        _Column("cost", "$ {:,.0f}", (cost,), cost),
        _Column("spread", "{:.2f}", (spread,), spread),
        _Column("rebalances, moved", "{:.3g}, {:.3g}", (rebalances, moved), moved),
        _Column("pause", "{:.1f}", (pause,), pause, unit=" s", ranged=True),
        _Column("latency", "{:.2f}, {:.2f}", (median, tail), median, unit=" s"),
        _Column("read", "{:.2f}", (throughput,), unit=" MB/s"),
    ]


def _mean(results: Sequence[Result], value: Callable[[Result], float]) -> float:
    return sum(map(value, results)) / len(results)


def _workload_lines(
    workload: Workload, found: Mapping[str, Sequence[Result]], run: Run, plots: dict[str, str]
) -> list[str]:
    columns = _columns(run.options.price)
    lines = [
        f"## {workload.title}",
        "",
        _plot_link(workload, "across", "bytes across racks by strategy"),
        "",
    ]
    bars = [
        Bar(
            STRATEGIES[name].title,
            _mean(results, lambda result: result.crossing_share),
            min(result.crossing_share for result in results),
            max(result.crossing_share for result in results),
            _mean(results, lambda result: result.predicted_crossing_share),
            STRATEGIES[name].is_rackward,
        )
        for name, results in found.items()
    ]
    title = f"{workload.title}: bytes across racks (the mark is the prediction)"
    plots[_plot_name(workload, "across")] = bar_plot(title, bars)
    if not workload.is_at_rest:
        plots[_plot_name(workload, "steps")] = line_plot(
            f"{workload.title}: partitions read from another rack",
            {
                STRATEGIES[name].title: [step.crossing for step in results[0].steps]
                for name, results in found.items()
            },
            [STRATEGIES[name].title for name in found if STRATEGIES[name].is_rackward],
            "partitions",
        )
        lines += [_plot_link(workload, "steps", "partitions read from another rack by step"), ""]
    lines += [
        "| strategy | " + " | ".join(column.heading for column in columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    best = [column.best(found) for column in columns]
    for name, results in found.items():
        cells = [
            f"**{column.text(results)}**" if name in names else column.text(results)
            for column, names in zip(columns, best, strict=True)
        ]
        lines.append(f"| {STRATEGIES[name].title} | " + " | ".join(cells) + " |")
    return [*lines, "", *_forecast_lines(workload, found)]


_FORECASTS = {
    "rackward_cooperative_sticky": "rackward-kafka-python",
    "rackward_range": "rackward-range",
    "rackward_after_leader_layout": "rackward-layout",
    "follower_fetching": "followers-confluent-range",
}
"""By scenario of the what-if, the strategy that does what it assumes."""


def _forecast_lines(workload: Workload, found: Mapping[str, Sequence[Result]]) -> list[str]:
    """Return what the what-if predicts from one group's traffic for other strategies."""
    base = next((name for name in found if not STRATEGIES[name].is_rackward), None)
    if base is None or not workload.is_at_rest:
        return []
    forecast = found[base][0].what_if
    parts = [
        f"{forecast[scenario]:.1%} for {STRATEGIES[name].title} "
        f"(measured {found[name][0].crossing_share:.1%})"
        for scenario, name in _FORECASTS.items()
        if name in found and scenario in forecast
    ]
    if not parts:
        return []
    return [
        f"From the traffic of {STRATEGIES[base].title} alone, the what-if predicts across racks: "
        f"{'; '.join(parts)}.",
        "",
    ]


def _plot_name(workload: Workload, what: str) -> str:
    return f"bench-{workload.key}-{what}.svg"


def _plot_link(workload: Workload, what: str, description: str) -> str:
    return f"![{workload.title}: {description}]({_plot_name(workload, what)})"
