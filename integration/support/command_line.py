"""Run the rackward command in a process, with pipes or at a terminal.

Most of a short command's time is the import of client libraries. So most runs are forks of one
process that has imported the command. Each fork has its own working folder, environment, arguments
and standard streams, like a new process.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT

ROOT = Path(__file__).resolve().parents[2]
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
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder) / name for name in ("stdin", "stdout", "stderr")]
        streams[0].write_text(stdin or "")
        words = ["rackward", *map(str, arguments)]
        fork = FORKS.Process(
            target=_run, args=(words, _environment(cluster), cwd or Path.cwd(), streams)
        )
        fork.start()
        fork.join(SECONDS)
        if fork.exitcode is None:
            # With the processes that it has started.
            os.killpg(int(fork.pid or 0), signal.SIGKILL)
            raise AssertionError(f"not finished within {SECONDS:g} s: {' '.join(words)}")
        done = Done(fork.exitcode, streams[1].read_text(), streams[2].read_text())
    assert status is None or done.status == status, f"status {done.status}\n{done.out}\n{done.err}"
    return done


FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "integration.support.command_line",
        *(f"rackward.cli.{name}" for name in ("main", "audit", "groups", "leaders", "placement")),
        *(f"rackward.cli.{name}" for name in ("top", "topics", "traffic.collect")),
    ]
)


def _run(words: list[str], env: Mapping[str, str], cwd: Path, streams: Sequence[Path]) -> None:
    """Run the command in this process, which ends with its exit status."""
    from rackward.cli.main import main

    os.setsid()
    for number, path in enumerate(streams):
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(file, number)
        os.close(file)
    # multiprocessing has closed the one of the parent.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = words
    main()


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
def running(cluster: Cluster, *arguments: object) -> Iterator[Running]:
    """Start the command as `rackward` does; kill it at the end of the block if it still runs."""
    cluster.await_metadata()
    with subprocess.Popen(
        [sys.executable, "-m", "rackward.cli.main", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(cluster),
    ) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


def _environment(cluster: Cluster | str) -> dict[str, str]:
    servers = cluster if isinstance(cluster, str) else cluster.bootstrap_servers
    return {
        **os.environ,
        "RACKWARD_BOOTSTRAP_SERVER": servers,
        # The checkout must be on the path in other working folders, too.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


def one_line(done: Done) -> str:
    """Return the error line of a command; AssertionError unless it is all output, status 2.

    A command that takes over two seconds also prints its steps: "Reading topics ...".
    """
    assert (done.status, done.out) == (2, ""), done
    lines = [line for line in done.err.splitlines(keepends=True) if not line.endswith(" ...\n")]
    assert len(lines) == 1, done.err
    assert lines[0].startswith("rackward: "), done.err
    return lines[0]


class Terminal:
    """A terminal of 24 lines with a command that prints lines or whole frames."""

    def __init__(self, bootstrap_servers: str, arguments: Sequence[str]) -> None:
        self.master, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)
        self.resize(80)
        environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rackward.cli.main", *arguments],
            cwd=ROOT,
            env={
                **environment,
                "TERM": "xterm",
                "RACKWARD_BOOTSTRAP_SERVER": bootstrap_servers,
            },
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
        )
        self.shown = b""

    def resize(self, columns: int) -> None:
        size = struct.pack("HHHH", 24, columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    @property
    def frame(self) -> str:
        """The text since the cursor was last at the beginning of the terminal."""
        frame = self.shown.rpartition(b"\x1b[H")[2].decode(errors="replace")
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", frame)

    def press(self, keys: str, until: str, absent: str = "\0") -> list[str]:
        """Type keys; return the lines of the first frame that has ``until``."""
        os.write(self.master, keys.encode())
        deadline = time.monotonic() + TEST_TIMEOUT
        while until not in self.frame or absent in self.frame:
            assert time.monotonic() < deadline, f"no {until!r} in {self.frame}"
            self._read()
        return self.frame.split("\r\n")

    def end(self) -> int:
        """Wait for the end of the command, and return its exit status."""
        while self.process.poll() is None:
            self._read()
        while self._read():
            pass
        return self.process.returncode

    def _read(self) -> bool:
        readable = bool(select.select([self.master], [], [], 0.2)[0])
        if readable:
            self.shown += os.read(self.master, 65536)
        return readable


@contextmanager
def at_terminal(cluster: Cluster, *arguments: str) -> Iterator[Terminal]:
    """Run the command at a terminal; kill it at the end of the block if it still runs."""
    terminal = Terminal(cluster.bootstrap_servers, arguments)
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.master)
        os.close(terminal.slave)
