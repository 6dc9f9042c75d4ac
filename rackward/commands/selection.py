"""The topics that --topics and --exclude name."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Annotated

import typer

from placement_core import InvalidOptionError

Topics = Annotated[
    str | None,
    typer.Option(
        "--topics",
        metavar="NAME,...",
        help="These topics only; * stands for any letters. Default: all.",
    ),
]
Exclude = Annotated[
    str | None, typer.Option("--exclude", metavar="NAME,...", help="But not these topics.")
]


def select(
    known: Collection[str], topics: str | None = None, exclude: str | None = None
) -> frozenset[str]:
    """The topics of ``known`` that are meant.

    Raises InvalidOptionError, naming the option, where a name or a pattern of ``topics`` fits
    none, and where ``exclude`` leaves none.
    """
    chosen = frozenset(known) if topics is None else frozenset[str]()
    for pattern in _patterns("--topics", topics):
        found = {name for name in known if fnmatchcase(name, pattern)}
        if not found:
            raise InvalidOptionError(
                f"--topics {pattern}: the cluster has no such topic that this user may see: "
                "check the name"
            )
        chosen |= found
    without = _patterns("--exclude", exclude)
    left = frozenset(
        name for name in chosen if not any(fnmatchcase(name, pattern) for pattern in without)
    )
    if chosen and not left:
        raise InvalidOptionError(f"--exclude {exclude}: no topic is left: exclude fewer")
    return left


def _patterns(option: str, text: str | None) -> list[str]:
    if text is None:
        return []
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise InvalidOptionError(f"{option} {text!r}: write names, with commas between them")
    return found
