"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

UNFINISHED_PREFIX = ".unfinished-"
"""How the names of temporary files begin; a process that is killed leaves one behind."""


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``path``, and rename it to ``path`` at the end of the block.

    The content is on disk before the rename. After an error the temporary file is removed and an
    older file at ``path`` is left as it was. A device or a pipe is written to directly. Raises
    OSError.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    folder = path.absolute().parent
    temporary = folder / f"{UNFINISHED_PREFIX}{uuid4().hex}"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    """Write the folder's list of names to disk, where the system permits to open folders."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
