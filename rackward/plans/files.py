"""Plans in files, and over pipes."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from rackward.plans.errors import PlanFileError

STANDARD = "-"
"""Stands for standard input, or standard output."""
MOST_BYTES = 256 << 20
"""A million partitions take half of it; something else was named."""


def read_text(path: str) -> str:
    """The text of the file, or of standard input. Raises PlanFileError."""
    try:
        if path == STANDARD:
            found = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                found = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise PlanFileError(f"{path} cannot be read: {error.strerror}") from error
    if len(found) > MOST_BYTES:
        raise PlanFileError(f"{name_of(path)} has more than {MOST_BYTES >> 20} MB: it is no plan")
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PlanFileError(f"{name_of(path)} is not UTF-8: it is no plan") from error


def write_text(path: Path, text: str) -> None:
    """Write the file whole or not at all, over an old one. Raises PlanFileError."""
    folder = path.absolute().parent
    try:
        handle, scratch = tempfile.mkstemp(prefix=f".{path.name}-", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            # Made for its owner alone; a plan is for whoever may read files here.
            Path(scratch).chmod(0o666 & ~_umask())
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PlanFileError(f"{path} cannot be written: {error.strerror}") from error


def name_of(path: str) -> str:
    """What errors call it."""
    return "standard input" if path == STANDARD else path


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found
