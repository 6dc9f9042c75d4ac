"""The real command at a terminal, with somebody who answers, or leaves."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from integration.command_line import Done

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 180.0


def one_line(done: Done) -> str:
    """The line that a command ended with, status 2; AssertionError for anything else."""
    assert (done.status, done.out) == (2, ""), done
    assert done.err.startswith("rackward: "), done.err
    assert done.err.count("\n") == 1, done.err
    return done.err


def at_terminal(
    bootstrap_servers: str, *arguments: str, until: str, then: bytes | signal.Signals
) -> Done:
    """Run ``rackward ARGUMENTS``; once it shows ``until``, type something or send a signal.

    What it shows is all in ``out``, in the terminal's line ends.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rackward.cli", *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "COLUMNS": "80",
            "NO_COLOR": "1",
            "RACKWARD_BOOTSTRAP_SERVER": bootstrap_servers,
        },
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        shown = _read(ours, until)
        if isinstance(then, bytes):
            os.write(ours, then)
        else:
            process.send_signal(then)
        shown += _read(ours, None)
        return Done(process.wait(SECONDS), shown, "")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read(terminal: int, until: str | None) -> str:
    """What is shown until ``until`` is, or (None) until the other side is gone."""
    deadline = time.monotonic() + SECONDS
    shown = b""
    while until is None or until not in shown.decode(errors="replace"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([terminal], [], [], left)[0]:
            raise AssertionError(f"not within {SECONDS:g} s: {until!r} after {shown!r}")
        try:
            more = os.read(terminal, 65536)
        except OSError:
            # What Linux says when the other side is closed.
            more = b""
        if not more:
            if until is None:
                break
            raise AssertionError(f"ended before {until!r}: {shown!r}")
        shown += more
    return shown.decode(errors="replace")
