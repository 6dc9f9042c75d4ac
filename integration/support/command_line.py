"""Run the rackward command in a process, with pipes or at a terminal."""

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
    """Exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The output as one JSON document per line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def json(self) -> Any:
        """The output as one JSON document."""
        return json.loads(self.out)


def rackward(
    cluster: Cluster | str,
    *arguments: object,
    cwd: Path | None = None,
    stdin: str | None = None,
    status: int | None = 0,
) -> Done:
    """Run the command and wait for it; raise AssertionError if it exits with another ``status``.

    ``cluster`` may be ``host:port``. On a Cluster, first wait until every broker has the current
    metadata, because the command may ask any of them.
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
    """A running command whose output is read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def until(self, matches: Callable[[str], bool], within: float = SECONDS) -> str:
        """Read up to the first line that matches, and return it; AssertionError if none does."""
        deadline = time.monotonic() + within
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if matches(line):
                return line
            assert time.monotonic() < deadline, f"not within {within:g} s: {self.lines[-5:]}"
        raise AssertionError(f"the command exited before: {self.lines[-5:]}")

    def send(self, signum: signal.Signals) -> Done:
        """Send a signal, wait for the exit, and return the result."""
        self.process.send_signal(signum)
        return self.end()

    def end(self) -> Done:
        """Wait for the exit and return the result."""
        out, err = self.process.communicate(timeout=SECONDS)
        return Done(self.process.returncode, "".join(self.lines) + out, err)


@contextmanager
def running(cluster: Cluster, *arguments: object, cwd: Path | None = None) -> Iterator[Running]:
    """Start the command as `rackward` does; kill it at the end of the block if it still runs."""
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
        # The checkout must be on the path in other working folders, too.
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


# The command at a terminal.

ROOT = Path(__file__).resolve().parents[2]
TERMINAL_SECONDS = 180.0


def one_line(done: Done) -> str:
    """Return the error line of a command; AssertionError unless it is all output, status 2."""
    assert (done.status, done.out) == (2, ""), done
    assert done.err.startswith("rackward: "), done.err
    assert done.err.count("\n") == 1, done.err
    return done.err


def at_terminal(
    bootstrap_servers: str, *arguments: str, until: str, then: bytes | signal.Signals
) -> Done:
    """Run ``rackward ARGUMENTS``; once it shows ``until``, type text or send a signal.

    ``out`` of the result holds all output, with the terminal's line ends.
    """
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rackward.cli.main", *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "COLUMNS": "80",
            "NO_COLOR": "1",
            "RACKWARD_BOOTSTRAP_SERVER": bootstrap_servers,
        },
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        shown = _read(master, until)
        if isinstance(then, bytes):
            os.write(master, then)
        else:
            process.send_signal(then)
        shown += _read(master, None)
        return Done(process.wait(TERMINAL_SECONDS), shown, "")
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _read(terminal: int, until: str | None) -> str:
    """Return the output up to and including ``until``; with None, until the terminal is closed."""
    deadline = time.monotonic() + TERMINAL_SECONDS
    shown = b""
    while until is None or until not in shown.decode(errors="replace"):
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not select.select([terminal], [], [], remaining)[0]:
            raise AssertionError(f"not within {SECONDS:g} s: {until!r} after {shown!r}")
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            # EIO on Linux: the other side is closed.
            chunk = b""
        if not chunk:
            if until is None:
                break
            raise AssertionError(f"the command exited before {until!r}: {shown!r}")
        shown += chunk
    return shown.decode(errors="replace")
