"""Output of ``rackward demo``: progress while it runs, and the result as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from rackward.bench.demo import DEMO_STRATEGIES, DemoResult, suboptimal_steps
from rackward.bench.figures import cross_rack_bytes
from rackward.bench.measured import GroupStatus, Progress
from rackward.bench.results import Result, StepResult
from rackward.bench.strategies import Strategy
from rackward.bench.workloads import Event

MIN_TABLE_WIDTH = 80
"""Columns of a table of all strategies; on narrower terminals each strategy has its own table."""

MIN_LIVE_WIDTH = 60
"""Columns of the live display; narrower terminals get plain lines."""


# Progress.


class LiveProgress(Progress):
    """Prints a line for every event, and below them a status line and a table of strategies."""

    def __init__(self, live: Live, clock: Callable[[], float]) -> None:
        super().__init__(_writer(live.console), clock)
        self._live = live
        self._spinner = Spinner("dots", "")
        self._table: RenderableType = ""

    def status(self, text: str, detail: str = "") -> None:
        """Replace the status line."""
        self._spinner.update(text=f"[bold]{escape(text)}[/bold] {escape(detail)}")
        self._draw()

    def update(self, statuses: Callable[[], Sequence[GroupStatus]]) -> None:
        """Replace the table."""
        self._table = status_table(statuses())
        self._draw()

    def _draw(self) -> None:
        self._live.update(Group(self._spinner, self._table))


@contextmanager
def progress_on(
    console: Console, clock: Callable[[], float], environ: Mapping[str, str]
) -> Iterator[Progress]:
    """Yield a progress with a live display if the terminal supports it, else with plain lines."""
    if (
        not console.is_terminal
        or console.is_dumb_terminal
        or console.width < MIN_LIVE_WIDTH
        or environ.get("CI") is not None
    ):
        yield Progress(_writer(console), clock)
        return
    with Live(console=console, transient=True, refresh_per_second=8) as live:
        try:
            yield LiveProgress(live, clock)
        finally:
            live.update("")


def _writer(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, markup=False, highlight=False)


def status_table(statuses: Sequence[GroupStatus]) -> Table:
    """Return the table of the live display."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("")
    for heading in ("members", "in-rack now", "same rack", "across racks"):
        table.add_column(heading, justify="right")
    for status in statuses:
        cross_rack = cross_rack_bytes(status.bytes)
        local = status.local_partitions
        table.add_row(
            status.strategy.title,
            str(status.members),
            "rebalancing" if local is None else f"{local} of {status.partitions}",
            f"{(sum(status.bytes.values()) - cross_rack) / 1e6:,.1f} MB",
            Text(f"{cross_rack / 1e6:,.1f} MB", style=_colour(status.strategy)),
        )
    return table


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
    console.print(Columns([rack_table(each, result.racks) for each in result.results], (1, 3)))
    console.print()
    for line in explanation(result):
        console.print(line, style="dim", highlight=False, markup=False)
    console.print(verdict(result))


def headline(result: DemoResult) -> Text:
    """Return what rackward saved, in words: means of its groups and of the others."""
    others = [each for each in result.results if not _strategy(each).is_rackward]
    own = [each for each in result.results if _strategy(each).is_rackward]
    crossing, own_crossing = (
        _mean([each.crossing_bytes for each in group]) for group in (others, own)
    )
    share, own_share = (
        sum(each.crossing_bytes for each in group) / max(1, sum(each.total_bytes for each in group))
        for group in (others, own)
    )
    cost, own_cost = (
        _mean([each.cost_per_month(result.price_per_gb) for each in group])
        for group in (others, own)
    )
    if not crossing:
        return Text("Nothing was read across racks without rackward: nothing could be saved.")
    return Text.assemble(
        (
            f"rackward's groups read {100 * (1 - own_crossing / crossing):.0f} % fewer bytes "
            "across racks.",
            "bold green" if own_crossing < crossing else "bold red",
        ),
        " All groups read the same records, on the same brokers. With kafka-python's assignors, "
        f"{_percent(share)} of the bytes came from another rack; with rackward's, "
        f"{_percent(own_share)}. At $ {result.price_per_gb:g} per GB, a month of "
        f"{_rate(result):.1f} MB/s costs each group $ {cost:,.2f}; with rackward, "
        f"$ {own_cost:,.2f}.",
    )


def summary_tables(result: DemoResult, *, wide: bool) -> list[Table]:
    """Return one table with a column per strategy, or, unless ``wide``, a table per strategy."""
    estimated = " (estimated)" if result.bytes_source == "estimate" else ""
    rows: list[tuple[str, Callable[[Result], str]]] = [
        (f"read in the same rack{estimated}", lambda each: _percent(1 - each.crossing_share)),
        (f"read across racks{estimated}", lambda each: _megabytes(each.crossing_bytes)),
        ("  of all bytes read", lambda each: _megabytes(each.total_bytes)),
        ("cost per month", lambda each: f"$ {each.cost_per_month(result.price_per_gb):,.2f}"),
        ("partitions moved", lambda each: str(each.moved)),
        ("  revoked", lambda each: str(each.revoked)),
        (
            "partitions per member",
            lambda each: _range(each.steps[0].min_partitions, each.steps[0].max_partitions),
        ),
        ("  in the worst step", lambda each: _range(*each.partition_range)),
        ("longest pause", lambda each: f"{each.longest_pause:.1f} s"),
        ("optimum reached", _optimum_reached),
    ]
    tables = []
    for group in [result.results] if wide else [[each] for each in result.results]:
        table = _strategy_table("Whole run", group)
        for title, figure in rows:
            cells = (Text(figure(each), style=_colour(_strategy(each))) for each in group)
            table.add_row(title, *cells)
        tables.append(table)
    return tables


def step_table(result: DemoResult, *, wide: bool) -> Table:
    """Return, per step, the partitions read across racks at its end and the share of bytes."""
    partitions = result.results[0].partitions
    title = f"By step: partitions (of {partitions}) read across racks, and share of bytes"
    table = _strategy_table(title, result.results if wide else [])
    if not wide:
        for number in range(1, len(result.results) + 1):
            table.add_column(f"({number})", justify="right")
    for steps in zip(*(each.steps for each in result.results), strict=True):
        table.add_row(Event(steps[0].event).title, *(_step_cell(step, wide=wide) for step in steps))
    return table


def _strategy_table(title: str, results: Iterable[Result]) -> Table:
    """Return an empty table with a column for the rows' titles and one per strategy."""
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="", box=SIMPLE_HEAD
    )
    table.add_column("")
    for each in results:
        strategy = _strategy(each)
        heading = strategy.title.replace(" ", "\n").replace("CooperativeS", "Cooperative\nS")
        heading_text = Text(heading, style=_colour(strategy))
        table.add_column(heading_text, justify="right", vertical="bottom")
    return table


def _step_cell(step: StepResult, *, wide: bool) -> Text:
    share = _percent(step.crossing_bytes / step.bytes) if step.bytes else "-"
    text = Text(f"{step.crossing}, {share}" if wide else f"{step.crossing}\n{share}")
    if step.crossing == step.optimum:
        text.stylize("green")
    return text


def rack_table(result: Result, racks: Sequence[str]) -> Table:
    """Return the bytes of one strategy by rack: in-rack cells are green, others red."""
    max_crossing = max(
        (
            size
            for reader, row in result.bytes.items()
            for broker, size in row.items()
            if reader != broker
        ),
        default=0,
    )
    table = Table(
        title=_strategy(result).title.replace(" ", "\n"),
        title_style=_colour(_strategy(result)),
        header_style="dim",
        box=SIMPLE_HEAD,
    )
    table.add_column("")
    for rack in racks:
        table.add_column(rack, justify="right")
    for reader in racks:
        cells = []
        for broker in racks:
            size = result.bytes.get(reader, {}).get(broker, 0)
            if reader == broker:
                style = "bold green"
            elif size < 0.02 * result.total_bytes:
                style = "dim"
            else:
                style = "bold red" if size > 0.66 * max_crossing else "red"
            cells.append(Text(f"{size / 1e6:,.1f}", style=style))
        table.add_row(Text(reader, style="dim"), *cells)
    return table


def explanation(result: DemoResult) -> list[str]:
    """Return lines that explain the figures."""
    first = result.results[0]
    optima = ", ".join(str(step.optimum) for step in first.steps)
    lines = [
        f"{len(result.results)} groups read the same topic at the same time for "
        f"{first.seconds:.0f} s: {_rate(result):.1f} MB/s in {first.partitions} partitions on "
        f"{result.brokers} brokers of {result.cluster}, leaders shuffled with seed {first.seed}.",
        "Bytes: as counted by the brokers, per listener; the members of each strategy in each "
        "rack use a listener of their own."
        if result.bytes_source == "brokers"
        else "Bytes: estimated from the positions of each group, from the rack of a partition's "
        "leader to its reader's rack (the brokers of this cluster do not count bytes per group).",
        "Partitions read across racks: those whose leader is in another rack than their reader at "
        f"the end of the step. The optimum, by step, is {optima}: no even assignment has fewer.",
        "Moved: partitions taken from members that stayed. Revoked: partitions that members gave "
        "up, including those that they got back at once. Pause: the longest time for which records "
        "of a partition waited while none of it was read. Optimum reached: after how many "
        "rebalances.",
        f"Cost: at $ {result.price_per_gb:g} per GB across racks, for 730 hours at this rate.",
    ]
    if result.skipped_steps:
        titles = ", ".join(Event(step).title for step in result.skipped_steps)
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
    own = [each for each in result.results if _strategy(each).is_rackward]
    if result.is_optimal:
        titles = " and ".join(_strategy(each).title for each in own)
        return Text(
            "Optimal: after every rebalance, no even assignment has fewer partitions read across "
            f"racks than {titles}.",
            style="bold green",
        )
    faults = [
        f"{_strategy(each).title} after '{Event(step.event).title}': {step.crossing} off-rack "
        f"(optimum {step.optimum}), {_range(step.min_partitions, step.max_partitions)} partitions "
        "per member"
        for each in own
        for step in suboptimal_steps(each)
    ]
    return Text("NOT optimal: " + "; ".join(faults), style="bold red")


def _strategy(result: Result) -> Strategy:
    return DEMO_STRATEGIES[result.strategy]


def _optimum_reached(result: Result) -> str:
    rebalances = sum(Event(step.event).rebalances for step in result.steps)
    return f"{rebalances - len(suboptimal_steps(result))} of {rebalances}"


def _rate(result: DemoResult) -> float:
    """Return the MB per second that were written."""
    return result.results[0].produced_bytes / result.results[0].seconds / 1e6


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _range(minimum: int, maximum: int) -> str:
    return str(maximum) if minimum == maximum else f"{minimum} to {maximum}"


def _colour(strategy: Strategy) -> str:
    return "green" if strategy.is_rackward else "yellow"
