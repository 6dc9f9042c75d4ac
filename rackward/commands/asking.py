"""Asking before a change."""

from __future__ import annotations

import sys

import typer

from placement_core import InvalidOptionError


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
