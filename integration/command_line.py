"""The real command, as a process of its own, and what it printed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.warm_command import warm_command
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
        [sys.executable, "-m", "rackward.cli", *map(str, arguments)],
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
