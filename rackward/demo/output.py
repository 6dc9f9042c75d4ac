"""Output of the demo: progress while it runs, the result as tables, and the result as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from rackward.demo.metrics import DemoResult, StepResult, StrategyResult
from rackward.measurement.assignments import (
    AssignmentSnapshot,
    TrafficMatrix,
    cross_rack_bytes,
    share,
)
from rackward.measurement.strategies import Strategy

MIN_TABLE_WIDTH = 80
"""Columns of a table of all strategies; on narrower terminals each strategy has its own table."""

MIN_LIVE_WIDTH = 60
"""Columns of the live display; narrower terminals get plain lines."""


# Progress.


@dataclass(frozen=True, slots=True)
class StrategyStatus:
    """A strategy at one moment of the run. ``snapshot`` is None during a rebalance."""

    strategy: Strategy
    members: int
    snapshot: AssignmentSnapshot | None
    bytes: TrafficMatrix


class ProgressReporter:
    """Prints a line for every event, with the seconds since the start."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._start = clock()

    def log(self, text: str) -> None:
        """Report an event."""
        seconds = self._clock() - self._start
        self._console.print(f"{seconds:5.0f} s  {text}", markup=False, highlight=False)

    def status(self, text: str, detail: str = "") -> None:
        """Report what is going on from now; ``detail`` is about its progress."""
        self.log(f"  {detail} ..." if detail else f"{text} ...")

    def update(self, statuses: Sequence[StrategyStatus]) -> None:
        """Show the state of the strategies, which is only done by a live display."""


class LiveProgressReporter(ProgressReporter):
    """Prints a line for every event, and below them a status line and a table of strategies."""

    def __init__(self, live: Live, clock: Callable[[], float]) -> None:
        super().__init__(live.console, clock)
        self._live = live
        self._spinner = Spinner("dots", "")
        self._table: RenderableType = ""

    def status(self, text: str, detail: str = "") -> None:
        """Replace the status line."""
        self._spinner.update(text=f"[bold]{escape(text)}[/bold] {escape(detail)}")
        self._draw()

    def update(self, statuses: Sequence[StrategyStatus]) -> None:
        """Replace the table."""
        self._table = status_table(statuses)
        self._draw()

    def _draw(self) -> None:
        self._live.update(Group(self._spinner, self._table))


@contextmanager
def progress_reporter(
    console: Console, clock: Callable[[], float], environ: Mapping[str, str]
) -> Iterator[ProgressReporter]:
    """Yield a reporter with a live display if the terminal supports it, else with plain lines."""
    if (
        not console.is_terminal
        or console.is_dumb_terminal
        or console.width < MIN_LIVE_WIDTH
        or environ.get("CI") is not None
    ):
        yield ProgressReporter(console, clock)
        return
    with Live(console=console, transient=True, refresh_per_second=8) as live:
        try:
            yield LiveProgressReporter(live, clock)
        finally:
            live.update("")


def status_table(statuses: Sequence[StrategyStatus]) -> Table:
    """Return the table of the live display."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("")
    for heading in ("members", "in-rack now", "same rack", "across racks"):
        table.add_column(heading, justify="right")
    for status in statuses:
        cross_rack = cross_rack_bytes(status.bytes)
        table.add_row(
            status.strategy.title,
            str(status.members),
            "rebalancing" if status.snapshot is None else _in_rack(status.snapshot),
            f"{(sum(status.bytes.values()) - cross_rack) / 1e6:,.1f} MB",
            Text(f"{cross_rack / 1e6:,.1f} MB", style=_colour(status.strategy)),
        )
    return table


def _in_rack(snapshot: AssignmentSnapshot) -> str:
    """Return, for example, ``70 of 72``: the partitions that are not off-rack."""
    count = len(snapshot.leader_racks)
    return f"{count - snapshot.off_rack} of {count}"


# Tables.


def print_introduction(console: Console, *, own_cluster: bool) -> None:
    """Print what the demo is about, for readers who have never heard of racks."""
    kafka = "a Kafka of six brokers in three racks" if own_cluster else "your Kafka"
    console.print(
        "Kafka's brokers and consumers run in several racks: availability zones of a cloud, or "
        "rooms of a data centre. Bytes that cross from one rack to another are billed. A consumer "
        "reads a partition from one broker, the partition's leader. The assignor of a consumer "
        "group decides who reads which partition, and the usual ones ignore racks. rackward's "
        "give each consumer its fair share of partitions, and choose those that are led in its "
        f"own rack.\n\nOn {kafka}, four groups now read the same topic: two with assignors of "
        "kafka-python, two with rackward's.\n",
        markup=False,
        highlight=False,
    )


def print_result(result: DemoResult, console: Console) -> None:
    """Print what was saved, the tables of the result and their explanation."""
    wide = console.width >= MIN_TABLE_WIDTH
    console.print()
    console.print(headline(result), highlight=False)
    console.print()
    for table in summary_tables(result, wide=wide):
        console.print(table)
    console.print(Padding(step_table(result, wide=wide), (1, 0, 0, 0)))
    console.print()
    console.print(
        "[bold]Bytes by rack[/bold], in MB over the whole run: a row per rack of members, "
        "a column per rack of brokers"
    )
    console.print(
        Columns([rack_table(each, result.racks) for each in result.strategies], padding=(1, 3))
    )
    console.print()
    for line in explanation(result):
        console.print(line, style="dim", highlight=False, markup=False)
    console.print(verdict(result))


def headline(result: DemoResult) -> Text:
    """Return what rackward saved, in words: means of its groups and of the others."""
    others = [each for each in result.strategies if not each.strategy.is_rackward]
    own = [each for each in result.strategies if each.strategy.is_rackward]
    other_bytes, own_bytes = (
        sum(each.cross_rack_bytes for each in group) / len(group) for group in (others, own)
    )
    other_cost, own_cost = (
        sum(each.cost_per_month(result.seconds, result.price_per_gb) for each in group) / len(group)
        for group in (others, own)
    )
    other_share, own_share = (
        share(sum(each.cross_rack_bytes for each in group), sum(each.total_bytes for each in group))
        for group in (others, own)
    )
    if not other_bytes:
        return Text("Nothing was read across racks without rackward: nothing could be saved.")
    return Text.assemble(
        (
            f"rackward's groups read {100 * (1 - own_bytes / other_bytes):.0f} % fewer bytes "
            "across racks.",
            "bold green" if own_bytes < other_bytes else "bold red",
        ),
        " All groups read the same records, on the same brokers. With kafka-python's assignors, "
        f"{_percent(other_share)} of the bytes came from another rack; with rackward's, "
        f"{_percent(own_share)}. At $ {result.price_per_gb:g} per GB, a month of "
        f"{result.produced_bytes / result.seconds / 1e6:.1f} MB/s costs each group "
        f"$ {other_cost:,.2f}; with rackward, $ {own_cost:,.2f}.",
    )


def summary_tables(result: DemoResult, *, wide: bool) -> list[Table]:
    """Return one table with a column per strategy, or, unless ``wide``, a table per strategy."""
    estimated = "" if result.bytes_counted else " (estimated)"
    rows: list[tuple[str, Callable[[StrategyResult], str]]] = [
        (f"read in the same rack{estimated}", lambda each: _percent(each.local_share)),
        (f"read across racks{estimated}", lambda each: _megabytes(each.cross_rack_bytes)),
        ("  of all bytes read", lambda each: _megabytes(each.total_bytes)),
        (
            "cost per month",
            lambda each: f"$ {each.cost_per_month(result.seconds, result.price_per_gb):,.2f}",
        ),
        ("partitions moved", lambda each: str(each.moved)),
        ("  revoked", lambda each: str(each.revoked)),
        ("partitions per member", lambda each: _range(*each.steps[0].snapshot.load_range)),
        ("  in the worst step", lambda each: _range(*each.widest_load_range)),
        ("optimum reached", _optimum_reached),
    ]
    tables = []
    for group in [list(result.strategies)] if wide else [[each] for each in result.strategies]:
        table = _strategy_table("Whole run", group)
        for title, figure in rows:
            cells = (Text(figure(each), style=_colour(each.strategy)) for each in group)
            table.add_row(title, *cells)
        tables.append(table)
    return tables


def step_table(result: DemoResult, *, wide: bool) -> Table:
    """Return, per step, the off-rack partitions at its end and the share of cross-rack bytes."""
    title = f"By step: partitions (of {result.partitions}) read across racks, and share of bytes"
    table = _strategy_table(title, result.strategies if wide else [])
    if not wide:
        for number in range(1, len(result.strategies) + 1):
            table.add_column(f"({number})", justify="right")
    for index, step in enumerate(each.step for each in result.strategies[0].steps):
        cells = [_step_cell(each.steps[index], wide=wide) for each in result.strategies]
        table.add_row(step.title, *cells)
    return table


def _strategy_table(title: str, strategies: Iterable[StrategyResult]) -> Table:
    """Return an empty table with a column for the rows' titles and one per strategy."""
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="", box=SIMPLE_HEAD
    )
    table.add_column("")
    for each in strategies:
        heading = each.strategy.title.replace(" ", "\n").replace("CooperativeS", "Cooperative\nS")
        style = _colour(each.strategy)
        table.add_column(Text(heading, style=style), justify="right", vertical="bottom")
    return table


def _step_cell(result: StepResult, *, wide: bool) -> Text:
    cross_rack = _percent(share(cross_rack_bytes(result.bytes), sum(result.bytes.values())))
    off_rack = result.snapshot.off_rack
    text = Text(f"{off_rack}, {cross_rack}" if wide else f"{off_rack}\n{cross_rack}")
    if off_rack == result.snapshot.optimum:
        text.stylize("green")
    return text


def rack_table(result: StrategyResult, racks: tuple[str, ...]) -> Table:
    """Return the bytes of one strategy by rack: in-rack cells are green, others red."""
    matrix = result.matrix
    max_cross_rack = max(
        (size for (reader, broker), size in matrix.items() if reader != broker), default=0
    )
    table = Table(
        title=result.strategy.title.replace(" ", "\n"),
        title_style=_colour(result.strategy),
        header_style="dim",
        box=SIMPLE_HEAD,
    )
    table.add_column("")
    for rack in racks:
        table.add_column(rack, justify="right")
    for reader in racks:
        row = []
        for broker in racks:
            size = matrix.get((reader, broker), 0)
            if reader == broker:
                style = "bold green"
            elif size < 0.02 * result.total_bytes:
                style = "dim"
            else:
                style = "bold red" if size > 0.66 * max_cross_rack else "red"
            row.append(Text(f"{size / 1e6:,.1f}", style=style))
        table.add_row(Text(reader, style="dim"), *row)
    return table


def explanation(result: DemoResult) -> list[str]:
    """Return lines that explain the figures."""
    rate = result.produced_bytes / result.seconds / 1e6
    optima = ", ".join(str(step.snapshot.optimum) for step in result.strategies[0].steps)
    lines = [
        f"{len(result.strategies)} groups read the same topic at the same time for "
        f"{result.seconds:.0f} s: {rate:.1f} MB/s in {result.partitions} partitions on "
        f"{result.brokers} brokers of {result.cluster}, leaders shuffled with seed {result.seed}.",
        "Bytes: as counted by the brokers, per listener; the members of each strategy in each "
        "rack use a listener of their own."
        if result.bytes_counted
        else "Bytes: estimated from the growth of each partition, from its leader's rack to its "
        "reader's rack (the brokers of this cluster do not count bytes per group).",
        "Partitions read across racks: those whose leader is in another rack than their reader at "
        f"the end of the step. The optimum, by step, is {optima}: no even assignment has fewer.",
        "Moved: partitions taken from members that stayed. Revoked: partitions that members gave "
        "up, including those that they got back at once. Optimum reached: after how many "
        "rebalances.",
        f"Cost: at $ {result.price_per_gb:g} per GB across racks, for 730 hours at this rate.",
    ]
    if result.skipped_steps:
        titles = ", ".join(step.title for step in result.skipped_steps)
        lines.append(
            f"Skipped, because they would disturb a cluster that the demo did not start: {titles}."
        )
    else:
        lines.append(
            "No group rebalances during the demo when leaders move or a broker dies (rackward's "
            "do after leaders have been stable for minutes). So what then crosses racks does so "
            "until the next rebalance."
        )
    return lines


def verdict(result: DemoResult) -> Text:
    """Return one line: whether the groups with rackward's assignors were optimal."""
    own = [each for each in result.strategies if each.strategy.is_rackward]
    if result.is_optimal:
        return Text(
            "Optimal: after every rebalance, no even assignment has fewer partitions read across "
            f"racks than {' and '.join(each.strategy.title for each in own)}.",
            style="bold green",
        )
    faults = [
        f"{each.strategy.title} after '{step.step.title}': {step.snapshot.off_rack} off-rack "
        f"(optimum {step.snapshot.optimum}), {_range(*step.snapshot.load_range)} partitions "
        "per member"
        for each in own
        for step in each.suboptimal_steps
    ]
    return Text("NOT optimal: " + "; ".join(faults), style="bold red")


def _optimum_reached(result: StrategyResult) -> str:
    rebalances = sum(each.step.rebalances for each in result.steps)
    return f"{rebalances - len(result.suboptimal_steps)} of {rebalances}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _range(minimum: int, maximum: int) -> str:
    return str(maximum) if minimum == maximum else f"{minimum} to {maximum}"


def _colour(strategy: Strategy) -> str:
    return "green" if strategy.is_rackward else "yellow"


# JSON.

SCHEMA = """\
{"format": 1, "cluster": str, "brokers": int, "racks": [str],
 "partitions": int, "seed": int, "seconds": float, "produced_bytes": int,
 "produced_records": int,
 "bytes_source": "brokers" or "estimate", "price_per_gb": float,
 "is_optimal": bool, "skipped_steps": [step key],
 "strategies": [{"key": str, "title": str, "is_rackward": bool,
   "local_share": float or null, "total_bytes": int, "cross_rack_bytes": int,
   "cost_per_month": float, "moved": int, "revoked": int, "records_read": int,
   "min_partitions": int, "max_partitions": int,
   "bytes": {member's rack: {broker's rack: int}},
   "steps": [{"key": str, "title": str, "rebalances": bool, "seconds": float,
     "off_rack": int, "optimum": int, "is_optimal": bool, "moved": int,
     "revoked": int, "min_partitions": int, "max_partitions": int,
     "members": {member: rack}, "total_bytes": int, "cross_rack_bytes": int,
     "bytes": {member's rack: {broker's rack: int}}}]}]}"""


def to_json(result: DemoResult) -> str:
    """Return the result as one JSON document, as described by `SCHEMA`, with a line end."""
    document = {
        "format": 1,
        "cluster": result.cluster,
        "brokers": result.brokers,
        "racks": list(result.racks),
        "partitions": result.partitions,
        "seed": result.seed,
        "seconds": round(result.seconds, 3),
        "produced_bytes": result.produced_bytes,
        "produced_records": result.produced_records,
        "bytes_source": "brokers" if result.bytes_counted else "estimate",
        "price_per_gb": result.price_per_gb,
        "is_optimal": result.is_optimal,
        "skipped_steps": [step.event.value for step in result.skipped_steps],
        "strategies": [_strategy_fields(each, result) for each in result.strategies],
    }
    return json.dumps(document, indent=2) + "\n"


def _strategy_fields(each: StrategyResult, result: DemoResult) -> dict[str, Any]:
    min_partitions, max_partitions = each.widest_load_range
    return {
        "key": each.strategy.key,
        "title": each.strategy.title,
        "is_rackward": each.strategy.is_rackward,
        "local_share": each.local_share,
        "total_bytes": each.total_bytes,
        "cross_rack_bytes": each.cross_rack_bytes,
        "cost_per_month": round(each.cost_per_month(result.seconds, result.price_per_gb), 2),
        "moved": each.moved,
        "revoked": each.revoked,
        "records_read": each.records_read,
        "min_partitions": min_partitions,
        "max_partitions": max_partitions,
        "bytes": _nested(each.matrix),
        "steps": [_step_fields(step) for step in each.steps],
    }


def _step_fields(step: StepResult) -> dict[str, Any]:
    min_partitions, max_partitions = step.snapshot.load_range
    return {
        "key": step.step.event.value,
        "title": step.step.title,
        "rebalances": step.step.rebalances,
        "seconds": round(step.seconds, 3),
        "off_rack": step.snapshot.off_rack,
        "optimum": step.snapshot.optimum,
        "is_optimal": step.snapshot.is_optimal,
        "moved": step.moved,
        "revoked": step.revoked,
        "min_partitions": min_partitions,
        "max_partitions": max_partitions,
        "members": dict(sorted(step.snapshot.member_racks.items())),
        "total_bytes": sum(step.bytes.values()),
        "cross_rack_bytes": cross_rack_bytes(step.bytes),
        "bytes": _nested(step.bytes),
    }


def _nested(matrix: TrafficMatrix) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (reader, broker), size in sorted(matrix.items()):
        nested.setdefault(reader, {})[broker] = size
    return nested
