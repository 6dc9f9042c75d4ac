"""The demo's result as tables that a stranger understands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from rackward.demo.metrics import (
    DemoResult,
    Matrix,
    Standing,
    StepMeasure,
    StrategyResult,
    crossing,
    share,
)
from rackward.demo.steps import Strategy

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


# ---- What the demo says while it runs: a live picture in a terminal, plain lines elsewhere.

FEWEST_COLUMNS = 60
"""Narrower terminals get plain lines."""


@dataclass(frozen=True, slots=True)
class Glance:
    """One strategy as it stands while the story runs. ``standing`` is None in a rebalance."""

    strategy: Strategy
    members: int
    standing: Standing | None
    bytes: Matrix


class Narrator(Protocol):
    """Tells the story as it goes."""

    def note(self, text: str) -> None:
        """Something happened."""

    def now(self, text: str, detail: str = "") -> None:
        """This is going on, until something else is; ``detail`` is how far it has come."""

    def glance(self, glances: Sequence[Glance]) -> None:
        """This is how the strategies stand."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...


class PlainNarrator:
    """A line for everything that happens, with the seconds since the start."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._start = clock()

    def note(self, text: str) -> None:
        seconds = self._clock() - self._start
        self._console.print(f"{seconds:5.0f} s  {text}", markup=False, highlight=False)

    def now(self, text: str, detail: str = "") -> None:
        self.note(f"  {detail} ..." if detail else f"{text} ...")

    def glance(self, glances: Sequence[Glance]) -> None:
        """Nothing: a log is no place for a picture that changes every second."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None: ...


class LiveNarrator:
    """Lines that stay, and below them what is going on and how the strategies stand."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = clock()
        self._spinner = Spinner("dots", "")
        self._table: RenderableType = ""
        self._live = Live(console=console, transient=True, refresh_per_second=8)

    def note(self, text: str) -> None:
        seconds = self._clock() - self._start
        self._live.console.print(f"[dim]{seconds:5.0f} s[/dim]  {escape(text)}", highlight=False)

    def now(self, text: str, detail: str = "") -> None:
        self._spinner.update(text=f"[bold]{escape(text)}[/bold] {escape(detail)}")
        self._draw()

    def glance(self, glances: Sequence[Glance]) -> None:
        self._table = picture(glances)
        self._draw()

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._live.update("")
        self._live.__exit__(None, None, None)

    def _draw(self) -> None:
        self._live.update(Group(self._spinner, self._table))


def picture(glances: Sequence[Glance]) -> Table:
    """How the strategies stand, as a small table."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("")
    for heading in ("members", "local now", "same rack", "crossed"):
        table.add_column(heading, justify="right")
    for glance in glances:
        across = crossing(glance.bytes)
        colour = "green" if glance.strategy.ours else "yellow"
        table.add_row(
            glance.strategy.title,
            str(glance.members),
            "rebalancing" if glance.standing is None else local_now(glance.standing),
            f"{(sum(glance.bytes.values()) - across) / 1e6:,.1f} MB",
            f"[{colour}]{across / 1e6:,.1f} MB[/]",
        )
    return table


def local_now(standing: Standing) -> str:
    """``70 of 72``: partitions that are read in their leader's rack."""
    count = len(standing.leader_racks)
    return f"{count - standing.off_rack} of {count}"


def narrator_for(
    console: Console, clock: Callable[[], float], environ: Mapping[str, str]
) -> Narrator:
    """A live picture where the terminal can show one, plain lines elsewhere."""
    if (
        console.is_terminal
        and not console.is_dumb_terminal
        and console.width >= FEWEST_COLUMNS
        and environ.get("CI") is None
    ):
        return LiveNarrator(console, clock)
    return PlainNarrator(console, clock)


# ---- The demo's result as JSON, for scripts. `SCHEMA` documents it in the command's help.

SCHEMA = """\
{"format": 1, "cluster": str, "brokers": int, "racks": [str], "partitions": int,
 "seed": int, "seconds": float, "produced_bytes": int, "produced_records": int,
 "bytes_counted_by": "brokers" or "estimate", "price_per_gb": float,
 "at_optimum": bool, "left_out": [step key],
 "strategies": [{"key": str, "title": str, "ours": bool,
   "local_share": float or null, "total_bytes": int, "crossing_bytes": int,
   "price_per_month": float, "moved": int, "interrupted": int, "records_read": int,
   "fewest_partitions": int, "most_partitions": int,
   "bytes": {reader's rack: {broker's rack: int}},
   "steps": [{"key": str, "title": str, "rebalances": bool, "seconds": float,
     "off_rack": int, "optimum": int, "at_optimum": bool, "moved": int,
     "interrupted": int, "fewest_partitions": int, "most_partitions": int,
     "members": {member: rack}, "total_bytes": int, "crossing_bytes": int,
     "bytes": {reader's rack: {broker's rack: int}}}]}]}"""


def to_json(result: DemoResult) -> str:
    """``result`` as one JSON document, ending in a newline."""
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
        "bytes_counted_by": "brokers" if result.counted else "estimate",
        "price_per_gb": result.price_per_gb,
        "at_optimum": result.at_optimum,
        "left_out": [step.event.value for step in result.left_out],
        "strategies": [_strategy(found, result) for found in result.strategies],
    }
    return json.dumps(document, indent=2) + "\n"


def _strategy(found: StrategyResult, result: DemoResult) -> dict[str, Any]:
    fewest, most = found.loads
    return {
        "key": found.strategy.key,
        "title": found.strategy.title,
        "ours": found.strategy.ours,
        "local_share": found.local_share,
        "total_bytes": found.total_bytes,
        "crossing_bytes": found.crossing_bytes,
        "price_per_month": round(found.monthly_price(result.seconds, result.price_per_gb), 2),
        "moved": found.moved,
        "interrupted": found.interrupted,
        "records_read": found.records,
        "fewest_partitions": fewest,
        "most_partitions": most,
        "bytes": _nested(found.matrix),
        "steps": [_step(measure) for measure in found.steps],
    }


def _step(measure: StepMeasure) -> dict[str, Any]:
    fewest, most = measure.standing.loads
    return {
        "key": measure.step.event.value,
        "title": measure.step.title,
        "rebalances": measure.step.rebalances,
        "seconds": round(measure.seconds, 3),
        "off_rack": measure.standing.off_rack,
        "optimum": measure.standing.optimum,
        "at_optimum": measure.standing.at_optimum,
        "moved": measure.moved,
        "interrupted": measure.interrupted,
        "fewest_partitions": fewest,
        "most_partitions": most,
        "members": dict(sorted(measure.standing.member_racks.items())),
        "total_bytes": sum(measure.bytes.values()),
        "crossing_bytes": crossing(measure.bytes),
        "bytes": _nested(measure.bytes),
    }


def _nested(matrix: Matrix) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (reader, broker), size in sorted(matrix.items()):
        nested.setdefault(reader, {})[broker] = size
    return nested
