"""What commands show: tables, plain text in pipes, JSON of any value, prompts, pages, log lines."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from placement_core import InvalidOptionError
from rack_traffic.atomic_write import write_atomically
from rack_traffic.errors import OutputError
from rackward.cli.options import LogFormat, RunOptions

SCHEMA_VERSION = 1
"""Version of the JSON that commands print. It grows if the meaning of a field changes, not if a
field is added."""

_UNLIMITED_WIDTH = 100_000
_NUMBER_LIST = re.compile(r"\[\n\s*((?:-?[0-9]+,\n\s*)*-?[0-9]+)\n\s*\]")
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def stdout() -> Console:
    """Return a console on stdout: as wide as the terminal; in pipes without wrapping or colours."""
    return _console(stderr=False)


def stderr() -> Console:
    """Return a console on stderr, for what accompanies JSON or a plan on stdout."""
    return _console(stderr=True)


def table_console(as_json: bool) -> Console:
    """Return the console for tables: stdout, or stderr if stdout is for JSON."""
    return stderr() if as_json else stdout()


def escape_controls(text: str) -> str:
    """Return ``text`` with control and bidirectional characters as ``\\x1b`` or ``\\u202e``.

    Names of groups, clients and racks may contain any character. Terminals would execute them.
    """
    return _CONTROL_CHARACTERS.sub(lambda match: ascii(match[0])[1:-1], text)


def print_json(command: str, *values: Any) -> None:
    """Print the fields of ``values`` as one JSON object, after the command's name.

    A value is a dict, or an object whose fields are listed in the reference (docs/reference/json).
    """
    sys.stdout.write(format_json(command, *values))


def format_json(command: str, *values: Any) -> str:
    """Return the text of `print_json`; lists of numbers are on one line."""
    text = _escape_json(json.dumps(_document(command, *values), indent=2, ensure_ascii=False))
    # JSON strings contain no line breaks, so that no string matches.
    return _NUMBER_LIST.sub(lambda match: f"[{' '.join(match[1].split())}]", text) + "\n"


def print_json_line(command: str, event: str, *values: Any) -> None:
    """Print one line of JSON about an event, and flush it."""
    document = _document(command, {"event": event}, *values)
    sys.stdout.write(_escape_json(json.dumps(document, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def _document(command: str, *values: Any) -> dict[str, Any]:
    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "command": command}
    for value in values:
        document |= msgspec.to_builtins(value, str_keys=True)
    return document


def _escape_json(text: str) -> str:
    # json escapes the control characters below 0x20 only. Line breaks are between its tokens.
    return "\n".join(
        _CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", line)
        for line in text.split("\n")
    )


_GAP = 2
"""Spaces between two columns, in pipes and on terminals that are too narrow for a table."""


class Rows(Table):
    """A table that keeps names whole: the texts in its columns before the first `number`.

    In a pipe, a row is one line. On a terminal that is too narrow for that, names that leave no
    room for the figures of their row are in lines above them.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = [
            [
                [*(cell if isinstance(cell, Text) else console.render_str(str(cell))).split("\n")]
                for cell in (column.header, *column.cells)
            ]
            for column in self.columns
        ]
        right = [column.justify == "right" for column in self.columns]
        widths = [max(line.cell_len for cell in column for line in cell) for column in columns]
        names = right.index(True) if True in right else 0
        room = options.max_width - sum(width + _GAP for width in widths[names:])
        if console.soft_wrap:
            lines = _in_pipe(columns, right)
        elif names and room >= 0 and sum(widths) + 3 * len(widths[1:]) > options.max_width:
            lines = _narrow(columns, right, names, [room, *widths[names:]])
        else:
            yield from super().__rich_console__(console, options)
            return
        if self.title is not None:
            yield Text(str(self.title), style="bold")
        yield from lines


_Cells = Sequence[Sequence[Sequence[Text]]]
"""By column and row, the first of which is the heading: the lines of a cell."""


def _in_pipe(columns: _Cells, right: Sequence[bool]) -> Iterator[Text]:
    """Yield a line per row. Empty cells are hyphens, or in the first column as the cell above."""
    texts = []
    for index, (head, *cells) in enumerate(columns):
        shown = [" ".join(line.plain for line in head if line)]
        for cell in cells:
            text = "; ".join(line.plain for line in cell if line)
            shown.append(text or ("-" if index else shown[-1]))
        width = max(map(cell_len, shown))
        spaces = [" " * (width - cell_len(each)) for each in shown]
        pairs = zip(spaces, shown, strict=True) if right[index] else zip(shown, spaces, strict=True)
        texts.append(["".join(pair) for pair in pairs])
    for row in zip(*texts, strict=True):
        yield Text((" " * _GAP).join(row).rstrip())


def _narrow(
    columns: _Cells, right: Sequence[bool], names: int, widths: Sequence[int]
) -> Iterator[Text]:
    """Yield the lines of rows whose first ``names`` columns may be lines above the others.

    ``widths`` are the room for names beside the other columns, and the widths of these.
    """
    for index, row in enumerate(zip(*columns, strict=True)):
        above = [line for cell in row[:names] for line in cell if line]
        beside = [*takewhile(lambda line: line.cell_len <= widths[0], reversed(above))][::-1]
        for line in above[: len(above) - len(beside)]:
            line.overflow = "fold"
            yield line
        others = row[names:] if any(map(any, row[names:])) else ()
        block = max(map(len, others), default=0)
        height = max(len(beside), block)
        # Headings are at the bottom; figures end beside the last of the names.
        down = [0, *(height - block for _ in others)]
        if not index:
            down = [height - len(cell) for cell in (beside, *others)]
        cells = [
            [*[Text()] * lines, *cell] for lines, cell in zip(down, (beside, *others), strict=True)
        ]
        for parts in zip_longest(*cells, fillvalue=Text()):
            line = Text()
            for part, width, on_right in zip(parts, widths, right[names - 1 :], strict=False):
                space = " " * (width - part.cell_len)
                line.append_text(Text.assemble(*((space, part) if on_right else (part, space))))
                line.append(" " * _GAP)
            line.rstrip()
            yield line
        if not index:
            yield Text("─" * (sum(widths) + _GAP * len(widths[1:])))


def table(*columns: str | Column, title: str | None = None) -> Table:
    """Return an empty table in the style of all commands.

    A column is a heading, of text that is folded where it does not fit, or a `number`.
    """
    return Rows(
        *(Column(each, overflow="fold") if isinstance(each, str) else each for each in columns),
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
    )


def number(heading: str) -> Column:
    """Return a column of figures, which are on the right and not wrapped."""
    return Column(heading, justify="right", no_wrap=True)


def rack_name(rack: str | None) -> str:
    """Return a rack, or what is shown in place of its name."""
    return "(no rack)" if rack is None else rack


def text(value: object) -> str:
    """Return a value for a cell: figures with thousands separators, nothing for None."""
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


class EscapingConsole(Console):
    """Escapes control characters other than line breaks, in strings and in all that is rendered."""

    def render_str(self, text: str, **options: Any) -> Text:
        # Before the layout, so that columns are as wide as the escaped text.
        return super().render_str(_escape_lines(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        # A Text passes no render_str. Its columns are as wide as before: commands escape its text.
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(_escape_lines(segment.text), segment.style)


def _escape_lines(text: str) -> str:
    return "\n".join(map(escape_controls, text.split("\n")))


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty() and "COLUMNS" not in os.environ
    return EscapingConsole(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        width=_UNLIMITED_WIDTH if piped else None,
        soft_wrap=piped,
    )


# ---- Confirmation.


def require_confirmation(run: RunOptions, plan: str | None = None) -> None:
    """Raise InvalidOptionError if a prompt will be needed and stdin cannot answer it.

    Commands call this first, before they connect. ``plan`` is the path of a plan, if there is one;
    ``-`` uses up stdin.
    """
    if run.yes or run.dry_run:
        return
    reason = "stdin is not a terminal" if plan != "-" else "the plan is read from stdin"
    if plan == "-" or not sys.stdin.isatty():
        raise InvalidOptionError(f"confirmation needed but {reason}: pass --yes or --dry-run")


def confirm(question: str, yes: bool) -> None:
    """Return if ``yes``, or if the user confirms; otherwise raise typer.Exit(1)."""
    if yes:
        return
    try:
        confirmed = typer.confirm(escape_controls(question), err=True)
    except typer.Abort:
        # The end of the input: Ctrl-D.
        typer.echo(err=True)
        confirmed = False
    if not confirmed:
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(1)


# ---- Pages.


def check_folder(option: str, file: Path) -> None:
    """Raise InvalidOptionError, which names ``option``, if the file's folder does not exist."""
    if not file.parent.is_dir():
        raise InvalidOptionError(
            f"{option} {file}: the folder {file.parent} does not exist: create it first"
        )


def write_page(file: Path, page: str) -> int:
    """Write the page atomically; return its size in bytes. Raises OutputError."""
    content = page.encode()
    try:
        with write_atomically(file) as opened:
            opened.write(content)
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror or error}") from error
    return len(content)


# ---- Log lines.

_MAX_MESSAGE = 2000
"""Characters of a logged message: peers send names of up to 32 KB, and errors quote them."""


class _EscapingFormatter(logging.Formatter):
    """One line per message: control characters are escaped, and long messages are cut.

    The lines of a traceback, whose last ones are the text of the error, are escaped and indented.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        cut = record.message[: _MAX_MESSAGE + 1]
        record.message = cut if len(cut) <= _MAX_MESSAGE else f"{cut[: _MAX_MESSAGE - 3]}..."
        record.message = escape_controls(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"  {escape_controls(line[:_MAX_MESSAGE])}" for line in lines)


class _JsonFormatter(_EscapingFormatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage()[:_MAX_MESSAGE],
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return _escape_json(json.dumps(document, ensure_ascii=False))


@contextmanager
def log_to_stderr(name: str, log_format: LogFormat = LogFormat.TEXT) -> Iterator[None]:
    """Write what the logger ``name`` and its children log to stderr, with the time."""
    log = logging.getLogger(name)
    handler = logging.StreamHandler()
    text = _EscapingFormatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(_JsonFormatter() if log_format is LogFormat.JSON else text)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
