"""What the demo says while it runs: a live picture in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table

from rackward.demo.measures import Matrix, Standing, crossing
from rackward.demo.strategies import Strategy

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
