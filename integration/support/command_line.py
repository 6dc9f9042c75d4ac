"""The real command, as a process of its own, and what it printed."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.support.warm_command import warm_command
from rackward.clusters import Cluster

SECONDS = 180.0


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def json(self) -> Any:
        """The one JSON document."""
        return json.loads(self.out)


def rackward(
    cluster: Cluster | str,
    *arguments: object,
    cwd: Path | None = None,
    stdin: str | None = None,
    status: int | None = 0,
) -> Done:
    """Run it to its end; ``cluster`` may be ``host:port``. AssertionError for another status.

    Any broker may be asked, and so each knows first what the test has done to the cluster.
    """
    if not isinstance(cluster, str):
        cluster.await_metadata()
    done = Done(
        *warm_command().run(
            [*map(str, arguments)], _environment(cluster), cwd, stdin, seconds=SECONDS
        )
    )
    assert status is None or done.status == status, f"status {done.status}\n{done.out}\n{done.err}"
    return done


class Running:
    """A command that runs; its output is read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def until(self, holds: Callable[[str], bool], within: float = SECONDS) -> str:
        """Read on to the first line for which it holds. AssertionError where none comes."""
        deadline = time.monotonic() + within
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if holds(line):
                return line
            assert time.monotonic() < deadline, f"not in {within:g} s: {self.lines[-5:]}"
        raise AssertionError(f"it ended before that: {self.lines[-5:]}")

    def send(self, signum: signal.Signals) -> Done:
        """Send a signal; returns how the command ended."""
        self.process.send_signal(signum)
        return self.end()

    def end(self) -> Done:
        """Wait for its end."""
        out, err = self.process.communicate(timeout=SECONDS)
        return Done(self.process.returncode, "".join(self.lines) + out, err)


@contextmanager
def running(cluster: Cluster, *arguments: object, cwd: Path | None = None) -> Iterator[Running]:
    """Start it, as `rackward` does; whatever is left of it at the end of the block is killed."""
    cluster.await_metadata()
    process = _start(cluster, arguments, cwd)
    try:
        yield Running(process)
    finally:
        _end(process)


def _environment(cluster: Cluster | str) -> dict[str, str]:
    servers = cluster if isinstance(cluster, str) else cluster.bootstrap_servers
    return {
        **os.environ,
        "RACKWARD_BOOTSTRAP_SERVER": servers,
        # From another working folder the sources must be found as well.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


def _start(
    cluster: Cluster | str, arguments: tuple[object, ...], cwd: Path | None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rackward.cli.main", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=_environment(cluster),
    )


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


# ---- The real command at a terminal, with somebody who answers, or leaves.

ROOT = Path(__file__).resolve().parents[2]
TERMINAL_SECONDS = 180.0


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
        [sys.executable, "-m", "rackward.cli.main", *arguments],
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
        return Done(process.wait(TERMINAL_SECONDS), shown, "")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read(terminal: int, until: str | None) -> str:
    """What is shown until ``until`` is, or (None) until the other side is gone."""
    deadline = time.monotonic() + TERMINAL_SECONDS
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
