"""``rackward top``: a live view of what consumer groups read across racks."""

from __future__ import annotations

import io
import json
import os
import re
import select
import signal
import sys
import termios
import threading
import time
import tty
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live

from placement_core import InvalidOptionError, RackwardError
from rackward.cli import options
from rackward.cli.commands import single_command
from rackward.cli.options import ClusterOptions, PriceOptions
from rackward.cli.output import EscapingConsole, check_folder, stdout, write_page
from rackward.cli.top_frame import View, frame, press, rows
from rackward.groups.host_racks import HostRacks
from rackward.groups.live import WINDOW_SECONDS, LivePass, LiveReader
from rackward.kafka import CredentialsError

EPILOG = """
\b
Examples:
  rackward top --bootstrap-server kafka:9092
  rackward top 'orders-*' --interval 5 --status http://lead:9101
  rackward top --once                  one frame, as text in a pipe
  rackward top --svg top.svg           one frame as a picture

It is read-only. Columns: share of partitions that are local (+: the racks of some are unknown),
bytes a second across racks (~: as written, since the group has committed nothing), lag in records,
cost a month, who assigns the partitions, time since the last rebalance that was seen, and the bytes
across racks in each pass.
Wide terminals have more columns.

\b
Keys:
  j k, arrows, PgUp, PgDn   select a group, or scroll
  < >, arrows               sort by the column to the left or right
  r                         reverse the order
  /                         filter by a part of the name; Escape ends it
  Enter, Escape             one group: members, partitions, why off-rack
  m                         hide or show the matrix of racks
  q, Ctrl-C                 quit

Needs the rights of rackward audit. A broker that does not respond delays a pass, not keys, by 3 s
or the interval; groups that could not be read are dim. See docs/audit.md.

Exit status: 0 success; 2 error (reason on stderr); 130 stopped with Ctrl-C.
"""

STATUS_SECONDS = 2.0
POLL_SECONDS = 0.1
"""Time after which a resized terminal, or the end of a pass, is noticed."""

ESCAPE_SECONDS = 0.05
"""Time in which the rest of a key's sequence arrives; if none does, the key was Escape."""

PICTURE_WIDTH = 120

_KEYS = {
    b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[C": "right", b"\x1b[D": "left",
    b"\x1b[5~": "pageup", b"\x1b[6~": "pagedown", b"\x1b": "escape",
    b"\r": "enter", b"\n": "enter", b"\x7f": "backspace", b"\x08": "backspace",
}  # fmt: skip
_SEQUENCE = re.compile(rb"\x1b\[[0-9;]*[A-Za-z~]|[\xc0-\xff][\x80-\xbf]*|.", re.DOTALL)

app = single_command()


@app.command(epilog=EPILOG)
def top(
    groups: options.GroupNames = None,
    *,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.5, max=3600.0, help="Time between two passes.")
    ] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Measure for 6 s, print a frame and exit.")
    ] = False,
    svg: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Measure for 30 s and write a picture, as SVG."),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Health port of rackward lead or a controller: what it knows of its groups. May "
            "be repeated.",
        ),
    ] = None,
    prices: PriceOptions,
    mapping: options.RackMapping = None,
    cluster: ClusterOptions,
) -> None:
    """Show live what consumer groups read across racks, their lag, cost and rebalances."""
    price_table, currency = prices.parse()
    host_racks = HostRacks.parse_option("--mapping", mapping)
    console = stdout()
    if svg is not None:
        check_folder("--svg", svg)
    live = not once and svg is None
    if live and (not console.is_terminal or console.is_dumb_terminal or not sys.stdin.isatty()):
        raise InvalidOptionError("top needs a terminal: without one, use --once")
    settings = (groups or ("*",), price_table, currency.sign, host_racks, interval)
    with cluster.connect() as admin:
        passes = Passes(LiveReader(admin, *settings), status or ())
        if live:
            _show(console, passes)
            return
        end = time.monotonic() + (0.0 if svg is None else WINDOW_SECONDS)
        while not (latest := passes.read()).measured or time.monotonic() < end:
            time.sleep(interval)
    width = PICTURE_WIDTH if svg and console.soft_wrap else console.width
    lines = Group(*frame(latest, View(), width, None, passes.statuses, passes.fault))
    if svg is None:
        console.print(lines)
    else:
        sys.stderr.write(f"Wrote {svg} ({write_page(svg, picture(lines, width)):,} B)\n")


def picture(lines: Group, width: int) -> str:
    """Return an SVG, without the fonts that rich would load from another host."""
    console = EscapingConsole(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(lines)
    return re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="rackward top"), flags=re.S)


# ---- Passes.


@dataclass
class Passes:
    """Makes passes, and keeps what the processes at ``urls`` tell about their groups.

    ``fault`` is why the last pass, or one of ``urls``, has failed; empty if none has.
    """

    reader: LiveReader
    urls: Sequence[str]
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    fault: str = ""

    def read(self) -> LivePass:
        """Make a pass, and read the statuses. Raises what `LiveReader.read` raises."""
        latest, fault, found = self.reader.read(), "", {}
        for url in self.urls:
            try:
                with urllib.request.urlopen(f"{url}/status", timeout=STATUS_SECONDS) as response:
                    for group in json.load(response)["groups"]:
                        # Of several processes, the one that leads.
                        if group["group"] not in found or group["state"] == "leading":
                            found[group["group"]] = group
            except (OSError, ValueError, KeyError, TypeError) as error:
                fault = f"--status {url}: {error}"
        self.statuses, self.fault = found, fault
        return latest

    def run(self, stopped: threading.Event) -> None:
        """Make passes until ``stopped`` is set."""
        while not stopped.is_set():
            began = time.monotonic()
            try:
                self.read()
            except RackwardError as error:
                self.fault = str(error)
                if isinstance(error, CredentialsError):
                    # Repeated failures may lock an account.
                    return
            except Exception:
                # The connections are closed at the end.
                if not stopped.is_set():
                    raise
            stopped.wait(max(0.0, began + self.reader.interval - time.monotonic()))


# ---- The terminal.


def _show(console: Console, passes: Passes) -> None:
    """Show frames until the user quits, or a signal raises; then the terminal is as before."""
    latest, stopped = passes.read(), threading.Event()
    threading.Thread(target=passes.run, args=(stopped,), daemon=True).start()
    # There is no way back from Ctrl-Z to a terminal that still has this screen.
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    view: View | None = View()
    shown: object = None
    try:
        # Each key at once, without an echo.
        tty.setcbreak(terminal)
        with Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live:
            while view is not None:
                latest = passes.reader.latest or latest
                state = (latest, view, console.size, passes.fault)
                if state != shown:
                    lines = frame(latest, view, *console.size, passes.statuses, passes.fault)
                    live.update(Group(*lines), refresh=True)
                    shown = state
                for key in _read_keys(terminal):
                    if view is not None:
                        in_order = rows(latest, view, passes.statuses)
                        names = [each.audit.group for each, _ in in_order]
                        view = press(view, key, names, console.height // 2)
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        stopped.set()


def _read_keys(terminal: int) -> list[str]:
    """Return the keys that are pressed within POLL_SECONDS."""
    if not select.select([terminal], [], [], POLL_SECONDS)[0]:
        return []
    typed = os.read(terminal, 1024)
    if typed.endswith((b"\x1b", b"\x1b[")) and select.select([terminal], [], [], ESCAPE_SECONDS)[0]:
        typed += os.read(terminal, 1024)
    keys = [_KEYS.get(each, each.decode(errors="ignore")) for each in _SEQUENCE.findall(typed)]
    # Nothing: the terminal is gone.
    return keys if typed else ["q"]
