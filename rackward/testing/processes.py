"""Child processes that end with their owner, even if it is killed (see `reaper`)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rackward.testing import reaper
from rackward.testing.errors import ClusterClosedError, ClusterError, ClusterTimeoutError

_JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH")
"""Variables of the user that would change how the children's JVMs run."""


class Processes:
    """Named child processes and a folder for them; `close` ends and removes all of it.

    The folder is created in ``parent``, or in the system's folder for temporary files.
    ``on_exit`` is a command to run in the end, also if the owner was killed.
    """

    def __init__(
        self, parent: str | os.PathLike[str] | None = None, on_exit: Sequence[str] = ()
    ) -> None:
        self._owner = os.getpid()
        self._closed = False
        self._on_exit = list(on_exit)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="rackward-", dir=parent))
        # In a group of their own, Ctrl-C reaches only the owner, which then closes in order.
        # -I -S: isolated from the user's modules, and a start within 20 ms.
        self._reaper = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", reaper.__file__),
                *(str(self._owner), str(self.folder), *self._on_exit),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    def start(self, name: str, argv: Sequence[str], out: Path) -> int:
        """Start a process whose output is appended to ``out``, and return its pid."""
        self._check_open()
        try:
            with out.open("ab") as file:
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                    env={k: v for k, v in os.environ.items() if k not in _JAVA_VARIABLES},
                    process_group=self._reaper.pid,
                )
        except OSError as error:
            raise ClusterError(f"could not start {name}: {error}") from error
        self._children[name] = child
        return child.pid

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a process; no effect after it has exited."""
        self._check_open()
        self._children[name].send_signal(number)

    def exit_code(self, name: str) -> int | None:
        """Return the exit code (-N after signal N), or None while the process runs."""
        self._check_open()
        return self._children[name].poll()

    def wait(self, name: str, timeout: float) -> int:
        """Wait for a process to exit and return its exit code.

        Raises ClusterTimeoutError after ``timeout`` seconds.
        """
        self._check_open()
        try:
            return self._children[name].wait(timeout)
        except subprocess.TimeoutExpired:
            raise ClusterTimeoutError(f"process {name} did not exit within {timeout:g} s") from None

    def close(self) -> None:
        """End all processes and remove the folder; no effect when repeated, or in a fork."""
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        for child in self._children.values():
            child.kill()
        for child in self._children.values():
            child.wait()
        reaper.clean_up(str(self.folder), self._on_exit)
        with self._reaper:
            self._reaper.kill()

    def _check_open(self) -> None:
        if self._closed:
            raise ClusterClosedError
