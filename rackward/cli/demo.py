"""``rackward demo``: four groups on one Kafka in three racks, their progress, and the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackward.bench.results import Options, Result, StepResult
from rackward.bench.runner import Batch, BatchRunner, counting_cluster, log_folder, timed
from rackward.bench.strategies import STRATEGIES
from rackward.bench.workloads import RACKS, Event, MemberShape, Workload
from rackward.cli.commands import single_command
from rackward.cli.options import KeepLogs
from rackward.cli.output import check_folder, number, table, table_console
from rackward.testing.cluster import DEFAULT_RACKS

# ---- The preset: four strategies, a workload with all events, and the result.

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


# ---- The command.


class ClusterType(StrEnum):
    """Where the demo's own cluster runs."""

    LOCAL = "local"
    DOCKER = "docker"


EPILOG = """
\b
Examples:
  rackward demo
  rackward demo --seed 2 --output demo.json

Exit status: 0 success; 1 a group with an assignor of rackward was not optimal after a rebalance;
2 error; 130 interrupted with Ctrl-C.

The JSON of --json and --output has is_optimal and, for each strategy, a result in the form of the
results of "rackward bench run". Bytes are integers, shares are between 0 and 1.
"""

INTRODUCTION = """\
Kafka's brokers and consumers run in several racks: availability zones of a cloud, or rooms of a
data centre. Bytes that cross from one rack to another are billed. A consumer reads a partition from
one broker, the partition's leader. The assignor of a consumer group decides who reads which
partition, and the usual ones ignore racks. rackward's give each consumer its fair share of
partitions, and choose those that are led in its own rack.

Four groups now read the same topic on a Kafka of six brokers in three racks: two with assignors of
kafka-python, two with rackward's.
"""

app = single_command()


@app.command(epilog=EPILOG, results=(DemoResult,))
def demo(
    cluster: Annotated[
        ClusterType, typer.Option(help="Run the demo's own Kafka as local processes or in Docker.")
    ] = ClusterType.LOCAL,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON, and only JSON, to stdout; progress and tables go to stderr."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", dir_okay=False, help="Write the JSON to FILE."
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Random seed for the order of leaders, the leaders that move and the broker that "
            "dies.",
        ),
    ] = 1,
    partitions: Annotated[
        int, typer.Option(metavar="N", min=6, max=600, help="Number of partitions of the topic.")
    ] = 72,
    rate: Annotated[
        float,
        typer.Option(metavar="MB", min=0.1, max=20, help="Rate of the producer in MB per second."),
    ] = 2.0,
    step_seconds: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=1, max=600, help="Seconds of steady reading in each step."
        ),
    ] = 3.0,
    price: Annotated[
        float,
        typer.Option(
            metavar="PRICE",
            min=0,
            help="Price, in dollars, of 1 GB that crosses racks, both directions included.",
        ),
    ] = 0.02,
    keep_logs: KeepLogs = None,
) -> None:
    """Show what rackward does and saves: four consumer groups on one Kafka in three racks.

    Starts six brokers in three racks, creates a topic, produces to it, and lets four groups of
    six members read it: with kafka-python's Range and CooperativeSticky assignors, and with
    rackward's. All groups meet the same events at the same time: members start, a tenth of the
    leaders move, a member leaves, a member joins, a broker dies and returns. The brokers count
    the bytes that cross from one rack to another, which cloud providers bill.

    Kafka and a Java runtime are downloaded at the first use; nothing else is needed.
    """
    if output is not None:
        check_folder("--output", output)
    console = table_console(as_json)
    options = Options(
        seed=seed, partitions=partitions, rate=rate, step_seconds=step_seconds, price=price
    )
    console.print(INTRODUCTION)
    log = timed(console.print)
    # The processes of the groups import for seconds: meanwhile the cluster starts.
    with (
        log_folder(keep_logs) as logs,
        closing(BatchRunner(DEMO_BATCH, options, logs, log)) as runner,
        counting_cluster(
            DEFAULT_RACKS, len(DEMO_STRATEGIES), logs, log, docker=cluster is ClusterType.DOCKER
        ) as kafka,
    ):
        results = runner.run(kafka)
        log("Stopping the brokers ...")
    result = demo_result(DEFAULT_RACKS, results, price)
    print_result(result, console)
    if as_json:
        typer.echo(result.to_json(), nl=False)
    if output is not None:
        output.write_text(result.to_json(), encoding="utf-8")
    if not result.is_optimal:
        raise typer.Exit(1)


def print_result(result: DemoResult, console: Console) -> None:
    """Print what was saved, the tables of the result and their explanation."""
    first = result.results[0]
    console.print()
    console.print(headline(result))
    console.print()
    console.print(summary_table(result))
    console.print()
    console.print(step_table(result))
    console.print()
    console.print(
        f"{len(result.results)} groups read {first.produced_bytes / first.seconds / 1e6:.1f} MB/s "
        f"in {first.partitions} partitions for {first.seconds:.0f} s, leaders shuffled with seed "
        f"{first.seed}; the brokers counted the bytes. Moved: partitions taken from members that "
        "stayed. Per member: its partitions, in the step in which they differ most. Pause: the "
        "longest time for which records of a partition waited while none of it was read. No group "
        "rebalances here when leaders move or a broker dies (rackward's do after leaders "
        "have been stable for minutes): what then crosses racks does so until the next rebalance.",
        style="dim",
    )
    console.print(verdict(result))


def headline(result: DemoResult) -> str:
    """Return what rackward saved, in words: means of its groups and of the others."""

    def means(figure: Callable[[Result], float]) -> Iterator[float]:
        """Yield the mean of the others, and that of rackward's groups."""
        for own in (False, True):
            yield fmean(figure(each) for each in result.results if _is_rackward(each) is own)

    crossing, own_crossing = means(lambda each: each.crossing_bytes)
    if not crossing:
        return "Nothing was read across racks without rackward: nothing could be saved."
    share, own_share = means(lambda each: each.crossing_share)
    cost, own_cost = means(lambda each: each.cost_per_month(result.price_per_gb))
    return (
        f"rackward's groups read {1 - own_crossing / crossing:.0%} fewer bytes across racks: "
        f"{own_share:.1%} of the bytes came from another rack, {share:.1%} with kafka-python's "
        f"assignors. At $ {result.price_per_gb:g} per GB, a month at this rate costs each group "
        f"$ {cost:,.2f}; with rackward, $ {own_cost:,.2f}."
    )


def summary_table(result: DemoResult) -> Table:
    """Return a table with a row per strategy."""
    headings = (
        "in the\nrack", "across\nracks", "cost\na month", "moved", "per\nmember", "pause",
        "at the\noptimum",
    )  # fmt: skip
    shown = table("", *map(number, headings), title="Whole run")
    for each in result.results:
        rebalances = sum(step.event in REBALANCES for step in each.steps)
        shown.add_row(
            Text(
                _title(each).replace(" ", "\n"), style="green" if _is_rackward(each) else "yellow"
            ),
            f"{1 - each.crossing_share:.1%}",
            f"{each.crossing_bytes / 1e6:,.1f} MB",
            f"$ {each.cost_per_month(result.price_per_gb):,.2f}",
            str(each.moved),
            _range(*each.partition_range),
            f"{each.longest_pause:.1f} s",
            f"{rebalances - len(suboptimal_steps(each))} of {rebalances}",
        )
    return shown


def step_table(result: DemoResult) -> Table:
    """Return, per step, the partitions read across racks at its end, and the optimum."""
    first = result.results[0]
    shown = table(
        "",
        *(number(_title(each).replace(" ", "\n")) for each in result.results),
        number("optimum"),
        title=f"Partitions (of {first.partitions}) read across racks after each step",
    )
    for steps in zip(*(each.steps for each in result.results), strict=True):
        optimum = str(steps[0].optimum)
        shown.add_row(Event(steps[0].event).title, *(str(step.crossing) for step in steps), optimum)
    return shown


def verdict(result: DemoResult) -> Text:
    """Return one line: whether the groups with rackward's assignors were optimal."""
    if result.is_optimal:
        return Text(
            "Optimal: after every rebalance, no even assignment has fewer partitions read across "
            "racks than rackward's.",
            style="bold green",
        )
    faults = [
        f"{_title(each)} after '{Event(step.event).title}': {step.crossing} off-rack (optimum "
        f"{step.optimum}), {_range(step.min_partitions, step.max_partitions)} partitions per member"
        for each in result.results
        if _is_rackward(each)
        for step in suboptimal_steps(each)
    ]
    return Text("NOT optimal: " + "; ".join(faults), style="bold red")


def _title(result: Result) -> str:
    return DEMO_STRATEGIES[result.strategy].title


def _is_rackward(result: Result) -> bool:
    return DEMO_STRATEGIES[result.strategy].is_rackward


def _range(minimum: int, maximum: int) -> str:
    return str(maximum) if minimum == maximum else f"{minimum} to {maximum}"
