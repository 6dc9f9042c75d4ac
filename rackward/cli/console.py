"""What commands show: tables, plain text in pipes, JSON, confirmation prompts, help of groups."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from placement_core import InvalidOptionError
from rack_traffic.atomic_write import write_atomically
from rack_traffic.errors import OutputError

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


def print_json(command: str, fields: Mapping[str, Any]) -> None:
    """Print ``fields`` with the schema version and the command's name, as one JSON object."""
    sys.stdout.write(format_json(command, fields))


def format_json(command: str, fields: Mapping[str, Any]) -> str:
    """Return the text of `print_json`; lists of numbers are on one line."""
    document = {"schema_version": SCHEMA_VERSION, "command": command, **fields}
    text = _escape_json(json.dumps(document, indent=2, ensure_ascii=False))
    # JSON strings contain no line breaks, so that no string matches.
    return _NUMBER_LIST.sub(lambda match: f"[{' '.join(match[1].split())}]", text) + "\n"


def print_json_line(command: str, event: str, fields: Mapping[str, Any]) -> None:
    """Print one line of JSON, and flush it."""
    document = {"schema_version": SCHEMA_VERSION, "command": command, "event": event, **fields}
    sys.stdout.write(_escape_json(json.dumps(document, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def _escape_json(text: str) -> str:
    # json escapes the control characters below 0x20 only. Line breaks are between its tokens.
    return "\n".join(
        _CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", line)
        for line in text.split("\n")
    )


def table(title: str | None = None) -> Table:
    """Return an empty table in the style of all commands."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
    )


class _EscapingConsole(Console):
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
    return _EscapingConsole(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        width=_UNLIMITED_WIDTH if piped else None,
        soft_wrap=piped,
    )


# Confirmation.


def require_confirmation(yes: bool, dry_run: bool, plan: str | None = None) -> None:
    """Raise InvalidOptionError if a prompt will be needed and stdin cannot answer it.

    Commands call this first, before they connect. ``plan`` is the path of a plan, if there is one;
    ``-`` uses up stdin.
    """
    if yes or dry_run:
        return
    if plan == "-":
        raise InvalidOptionError(
            "confirmation needed but the plan is read from stdin: pass --yes or --dry-run"
        )
    if not sys.stdin.isatty():
        raise InvalidOptionError(
            "confirmation needed but stdin is not a terminal: pass --yes or --dry-run"
        )


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


# Pages.


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


# Logging.

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


@contextmanager
def log_to_stderr(name: str) -> Iterator[None]:
    """Write what the logger ``name`` and its children log to stderr, with the time."""
    log = logging.getLogger(name)
    handler = logging.StreamHandler()
    handler.setFormatter(_EscapingFormatter("%(asctime)s %(levelname)s %(message)s"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


# ---- Groups of subcommands, such as ``rackward topics``.


class _WholeSummaries(TyperGroup):
    """A group whose help shows the first sentence of each subcommand in full.

    Typer would cut it to the width of the terminal.
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(limit=1000))
                    for name in self.list_commands(ctx)
                    if (command := self.get_command(ctx, name)) is not None
                ]
            )


def command_group(summary: str) -> typer.Typer:
    """Return a group without subcommands yet; ``summary`` is its help."""
    group = typer.Typer(
        cls=_WholeSummaries,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        help=summary,
    )
    # Without a callback, typer would merge a single command into the group.
    group.callback()(lambda: None)
    return group
