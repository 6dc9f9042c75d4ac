"""A small process that ends a cluster's processes when their owner is gone, however it ended.

Run as a script: ``python reaper.py OWNER_PID FOLDER [COMMAND ...]``. It leads the group of the
processes. When the owner has exited, it kills the group, runs the command and removes the folder.
Neither Linux nor macOS has a portable way to end a child with its parent, and this works on both.
It imports only the standard library, and little of it: one runs per cluster.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys

OWNER_CHECK_INTERVAL = 0.5
"""Seconds between checks that the owner is still the parent process."""

CLEAN_UP_TIMEOUT = 120.0
"""Maximum duration, in seconds, of the command."""


def clean_up(folder: str, command: list[str]) -> None:
    """Run the command, if there is one, and remove the folder."""
    if command:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                timeout=CLEAN_UP_TIMEOUT,
                check=False,
            )
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Wait for the end of the owner, then clean up."""
    owner, folder, *command = sys.argv[1:]
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # The end of the pipe alone is not enough: a fork of the owner keeps it open.
    while os.getppid() == int(owner) and not select.select([0], [], [], OWNER_CHECK_INTERVAL)[0]:
        pass
    if os.fork():
        signal.pause()
    group = os.getpgrp()
    os.setsid()
    os.killpg(group, signal.SIGKILL)
    clean_up(folder, command)


if __name__ == "__main__":
    main()
