"""Run the rackward command in a process, with pipes or at a terminal.

Most of a short command's time is the import of client libraries. So most runs are forks of one
process that has imported the command. Each fork has its own working folder, environment, arguments
and standard streams, like a new process.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
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
from typing import Any, Self

from rackward.testing import Cluster

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


def completed(cluster: Cluster, words: str) -> list[str]:
    """Return what a shell shows for the last of the words of a command line."""
    typed = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, rackward.cli; sys.argv[0] = 'rackward'; rackward.cli.run()",
        ],
        env={**_environment(cluster), **typed, "_RACKWARD_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


def _environment(cluster: Cluster | str) -> dict[str, str]:
    servers = cluster if isinstance(cluster, str) else cluster.bootstrap_servers
    return {
        **os.environ,
        "RACKWARD_BOOTSTRAP_SERVER": servers,
        # The checkout must be on the path in other working folders, too.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


# The command at a terminal.

ROOT = Path(__file__).resolve().parents[2]


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
    """A terminal of 24 lines of 80 columns in which a command runs; killed at the end of the block.

    ``shown`` has all that the command has printed, with the terminal's line ends.
    """

    def __init__(self, cluster: Cluster, *arguments: str) -> None:
        self.master, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)
        self.resize(80)
        self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        environment = {**_environment(cluster), "TERM": "xterm", "NO_COLOR": "1"}
        environment.pop("COLUMNS", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rackward.cli.main", *arguments],
            cwd=ROOT,
            env=environment,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def resize(self, columns: int) -> None:
        """Change the width, as a user does."""
        size = struct.pack("HHHH", 24, columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.master, keys.encode())

    def read_until(self, matches: Callable[[str], bool]) -> None:
        """Read until what was shown matches; AssertionError if it does not."""
        deadline = time.monotonic() + SECONDS
        while not matches(self.shown):
            assert time.monotonic() < deadline, self.shown[-5000:]
            self._read()

    def end(self) -> int:
        """Wait for the exit and return its status; the terminal is as it was before."""
        status = self.process.wait(SECONDS)
        while self._read():
            pass
        assert termios.tcgetattr(self.slave) == self.before
        return status

    def _read(self) -> bool:
        if not select.select([self.master], [], [], 0.2)[0]:
            return False
        self.shown += self._decoder.decode(os.read(self.master, 65536))
        return True
