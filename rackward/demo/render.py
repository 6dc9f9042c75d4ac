"""The demo's result as tables that a stranger understands."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rackward.demo.measures import DemoResult, StepMeasure, StrategyResult, crossing, share

WIDE = 80
"""Columns that a table of all strategies needs; narrower terminals get a table for each."""

Figure = tuple[str, Callable[[StrategyResult], str]]


def show(result: DemoResult, console: Console) -> None:
    """Print the tables, and how to read them."""
    console.print()
    for table in summaries(result, wide=console.width >= WIDE):
        console.print(table)
    console.print(Padding(by_step(result, wide=console.width >= WIDE), (1, 0, 0, 0)))
    console.print()
    console.print(
        "[bold]Who sent what to whom[/bold], MB over the whole run: a row per rack of readers, "
        "a column per rack of brokers"
    )
    console.print(
        Columns([matrix(found, result.racks) for found in result.strategies], padding=(1, 3))
    )
    console.print()
    for line in explanation(result):
        console.print(line, style="dim", highlight=False, markup=False)
    console.print(verdict(result))


def summaries(result: DemoResult, *, wide: bool) -> list[Table]:
    """The main figures: one table with a column per strategy, or a table per strategy."""
    figures = _figures(result)
    groups = [list(result.strategies)] if wide else [[found] for found in result.strategies]
    tables = []
    for group in groups:
        table = _with_strategies("Over the whole run", group)
        for title, figure in figures:
            table.add_row(title, *(Text(figure(found), style=_colour(found)) for found in group))
        tables.append(table)
    return tables


def by_step(result: DemoResult, *, wide: bool) -> Table:
    """Per step: the partitions off-rack at its end, and the share of bytes that crossed."""
    title = f"Step by step: partitions off-rack (of {result.partitions}), and bytes that crossed"
    table = _with_strategies(title, result.strategies if wide else [])
    if not wide:
        for number in range(1, len(result.strategies) + 1):
            table.add_column(f"({number})", justify="right")
    for index, step in enumerate(found.step for found in result.strategies[0].steps):
        cells = [_cell(found.steps[index], wide=wide) for found in result.strategies]
        table.add_row(step.title, *cells)
    return table


def _figures(result: DemoResult) -> list[Figure]:
    estimate = "" if result.counted else " (estimated)"
    members = len(result.strategies[0].steps[0].standing.member_racks)
    return [
        (f"read in the same rack{estimate}", lambda found: _percent(found.local_share)),
        (f"crossed racks{estimate}", lambda found: f"{found.crossing_bytes / 1e6:,.1f} MB"),
        ("  of all that it read", lambda found: f"{found.total_bytes / 1e6:,.1f} MB"),
        (
            "price per month",
            lambda found: f"$ {found.monthly_price(result.seconds, result.price_per_gb):,.2f}",
        ),
        ("partitions moved", lambda found: str(found.moved)),
        ("  interrupted", lambda found: str(found.interrupted)),
        (
            f"load of {members} members",
            lambda found: _range(*found.steps[0].standing.loads),
        ),
        ("  where most uneven", lambda found: _range(*found.loads)),
        ("optimum reached", _optimum),
    ]


def _with_strategies(title: str, strategies: Iterable[StrategyResult]) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="", box=SIMPLE_HEAD
    )
    table.add_column("")
    for found in strategies:
        heading = found.strategy.title.replace(" ", "\n").replace("CooperativeS", "Cooperative\nS")
        table.add_column(Text(heading, style=_colour(found)), justify="right", vertical="bottom")
    return table


def _cell(measure: StepMeasure, *, wide: bool) -> Text:
    across = _percent(share(crossing(measure.bytes), sum(measure.bytes.values())))
    off_rack = measure.standing.off_rack
    text = Text(f"{off_rack}, {across}" if wide else f"{off_rack}\n{across}")
    if off_rack == measure.standing.optimum:
        text.stylize("green")
    return text


def matrix(found: StrategyResult, racks: tuple[str, ...]) -> Table:
    """The rack-by-rack bytes of one strategy: green stays in the rack, red crosses."""
    cells = found.matrix
    most = max((size for (one, other), size in cells.items() if one != other), default=0)
    table = Table(
        title=found.strategy.title.replace(" ", "\n"),
        title_style=_colour(found),
        header_style="dim",
        box=SIMPLE_HEAD,
    )
    table.add_column("")
    for rack in racks:
        table.add_column(rack, justify="right")
    for reader in racks:
        row = []
        for broker in racks:
            size = cells.get((reader, broker), 0)
            row.append(Text(f"{size / 1e6:,.1f}", style=_heat(reader == broker, size, most, found)))
        table.add_row(Text(reader, style="dim"), *row)
    return table


def _heat(local: bool, size: int, most: int, found: StrategyResult) -> str:
    if local:
        return "bold green"
    if size < 0.02 * found.total_bytes:
        return "dim"
    return "bold red" if size > 0.66 * most else "red"


def explanation(result: DemoResult) -> list[str]:
    """What the figures mean and what they rest on, a line each."""
    rate = result.produced_bytes / result.seconds / 1e6
    how = (
        "Bytes are what the brokers counted as sent, per listener; every strategy's readers in "
        "each rack have a listener of their own."
        if result.counted
        else "Bytes are estimated: each partition's growth, from its leader's rack to its "
        "reader's (this cluster's brokers count for everybody together)."
    )
    lines = [
        f"{len(result.strategies)} groups read the same {rate:.1f} MB/s of one topic "
        f"({result.partitions} partitions on {result.brokers} brokers, leaders shuffled with seed "
        f"{result.seed}) at the same time for {result.seconds:.0f} s, on {result.cluster}.",
        how,
        "Off-rack: partitions whose reader is in another rack than their leader, as things stood "
        f"at the end of the step. The fewest possible then: {_optima(result)}.",
        "Moved: partitions taken from members that stayed. Interrupted: let go, even if only for "
        "a moment. Load: partitions per member. Optimum reached: after how many rebalances.",
        f"Price: {result.price_per_gb:g} $ per GB that crosses, 730 hours of this rate.",
    ]
    if result.left_out:
        titles = ", ".join(step.title for step in result.left_out)
        lines.append(f"Left out, because the cluster is not the demo's to break: {titles}.")
    else:
        lines.append(
            "Nobody rebalances so soon after leaders move or a broker dies (ours do, once leaders "
            "have settled for minutes): what strays here is put right "
            "at the next rebalance, by assignors that look at leaders."
        )
    return lines


def _optima(result: DemoResult) -> str:
    return ", ".join(str(step.standing.optimum) for step in result.strategies[0].steps)


def verdict(result: DemoResult) -> Text:
    """One line: whether our groups were where they should be."""
    ours = [found for found in result.strategies if found.strategy.ours]
    if result.at_optimum:
        return Text(
            "Optimal: after every rebalance no balanced assignment could have read fewer "
            f"partitions from another rack than {' and '.join(f.strategy.title for f in ours)}.",
            style="bold green",
        )
    faults = [
        f"{found.strategy.title} after '{measure.step.title}': {measure.standing.off_rack} "
        f"off-rack (optimum {measure.standing.optimum}), loads {_range(*measure.standing.loads)}"
        for found in ours
        for measure in found.short_of_optimum
    ]
    return Text("NOT optimal: " + "; ".join(faults), style="bold red")


def _optimum(found: StrategyResult) -> str:
    rebalances = sum(measure.step.rebalances for measure in found.steps)
    reached = rebalances - len(found.short_of_optimum)
    return f"{reached} of {rebalances}"


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.1f} %"


def _range(fewest: int, most: int) -> str:
    return str(most) if fewest == most else f"{fewest} to {most}"


def _colour(found: StrategyResult) -> str:
    return "green" if found.strategy.ours else "yellow"
