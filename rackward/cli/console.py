"""Where output goes: tables for people, plain text for pipes, JSON for programs."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from placement_core import InvalidOptionError

SCHEMA_VERSION = 1
"""Of every JSON that commands print. Fields may be added; a change of meaning is a new one."""

_UNLIMITED = 100_000
_NUMBERS = re.compile(r"\[\n\s*((?:-?[0-9]+,\n\s*)*-?[0-9]+)\n\s*\]")


def stdout() -> Console:
    """A console that fits a terminal, and neither wraps nor colours what goes into a pipe."""
    return _console(stderr=False)


def stderr() -> Console:
    """The same for what accompanies JSON: plans, progress and questions."""
    return _console(stderr=True)


def for_people(as_json: bool) -> Console:
    """Where tables go: to stdout, unless that is for JSON alone."""
    return stderr() if as_json else stdout()


def print_json(command: str, fields: Mapping[str, Any]) -> None:
    """Write ``fields`` with the schema's version and the command's name, as one JSON object."""
    told = {"schema_version": SCHEMA_VERSION, "command": command, **fields}
    text = json.dumps(told, indent=2, ensure_ascii=False)
    # Replica lists on one line. No text is hit: JSON has no line breaks within them.
    text = _NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    sys.stdout.write(text + "\n")


def table(title: str | None = None) -> Table:
    """The look that all tables share."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
    )


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        width=_UNLIMITED if piped else None,
        soft_wrap=piped,
    )


# ---- Asking before a change.


def check_can_ask(yes: bool) -> None:
    """Raise InvalidOptionError where a question would be asked and nobody is there to answer.

    For the beginning of a command, before it takes anybody's time.
    """
    if not yes and not sys.stdin.isatty():
        raise InvalidOptionError(
            "this changes the cluster, and nobody is there to be asked: give --yes, or --dry-run "
            "to see what it would do"
        )


def ask(question: str, yes: bool) -> None:
    """Go on where ``yes`` or the answer to ``question`` is yes; typer.Exit(1) otherwise."""
    if yes:
        return
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip().lower()
    if answer not in ("y", "yes"):
        sys.stderr.write("Nothing was changed.\n")
        raise typer.Exit(1)


# ---- What long-running commands log, for people.


@contextmanager
def logged(name: str) -> Iterator[None]:
    """What the logger of that name, and those below it, log goes to stderr, with the time."""
    log = logging.getLogger(name)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
