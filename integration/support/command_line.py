"""Run the rackward command in a process, with pipes or at a terminal.

Most of a short command's time is the import of client libraries. So most runs are forks of one
process that has imported the command: this module, run as a program. Each fork has its own working
folder, environment, arguments and standard streams, like a new process. The program reads a JSON
request per line and writes the exit status:

    <- {"arguments": [...], "env": {...}, "cwd": "/...", "stdin": "/...", "out": "/...", ...}
    -> 0
"""

from __future__ import annotations

import atexit
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
from functools import cache
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


# The process that has imported the command.


class WarmCommand:
    """The process that has imported the command."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "integration.support.command_line"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            # Its own process group, so that `_end` also kills the children of a late run.
            start_new_session=True,
        )
        atexit.register(self._end)

    def run(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None,
        stdin: str | None,
        seconds: float,
    ) -> tuple[int, str, str]:
        """Return exit status, stdout and stderr of one run; AssertionError after ``seconds``."""
        with tempfile.TemporaryDirectory() as folder:
            files = {name: str(Path(folder) / name) for name in ("stdin", "out", "err")}
            Path(files["stdin"]).write_text(stdin or "")
            request = {
                "arguments": list(arguments),
                "env": dict(env),
                "cwd": str(cwd or Path.cwd()),
                **files,
            }
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], seconds)[0]:
                self._end()
                warm_command.cache_clear()
                raise AssertionError(
                    f"not finished within {seconds:g} s: rackward {' '.join(arguments)}"
                )
            status = int(self._process.stdout.readline())
            return status, Path(files["out"]).read_text(), Path(files["err"]).read_text()

    def _end(self) -> None:
        atexit.unregister(self._end)
        if self._process.poll() is None:
            os.killpg(self._process.pid, 9)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@cache
def warm_command() -> WarmCommand:
    """Return the process that all tests share; it exits with them."""
    return WarmCommand()


def main() -> None:
    """Fork for each request until standard input is closed."""
    import rackward.cli.audit
    import rackward.cli.groups
    import rackward.cli.leaders
    import rackward.cli.main
    import rackward.cli.placement
    import rackward.cli.top
    import rackward.cli.topics
    import rackward.cli.traffic.collect

    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            os._exit(_run(request, rackward.cli.main.main))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(request: Mapping[str, Any], command: Any) -> int:
    for number, (name, flags) in enumerate(
        [
            ("stdin", os.O_RDONLY),
            ("out", os.O_WRONLY | os.O_CREAT),
            ("err", os.O_WRONLY | os.O_CREAT),
        ]
    ):
        file = os.open(request[name], flags, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["rackward", *request["arguments"]]
    try:
        command()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - as an interpreter ends
        sys.excepthook(*sys.exc_info())
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    main()
