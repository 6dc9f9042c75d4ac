"""Where downloads are kept, and the lock that keeps two processes from fetching them at once."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Progress = Callable[[str], None]
"""Takes one line that tells a person what is going on."""

VARIABLE = "RACKWARD_CACHE"


def cache_directory(chosen: str | os.PathLike[str] | None = None) -> Path:
    """The folder for downloads: ``chosen``, else $RACKWARD_CACHE, else the user's cache."""
    if chosen is not None:
        return Path(chosen).expanduser().absolute()
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "rackward"
    # The specification has relative paths ignored.
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "rackward"


@contextmanager
def locked(path: Path, progress: Progress | None = None) -> Iterator[None]:
    """Hold the lock of this name against every other process of this machine.

    The kernel frees it when its holder dies, so a lock is never stale; the file stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if progress is not None:
                progress(f"waiting for another process that holds {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
