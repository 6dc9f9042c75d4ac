"""Child processes under a `supervisor`: they end with their owner, even if it is killed."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rackward.testing import supervisor
from rackward.testing.errors import ClusterClosedError, ClusterError, ClusterTimeoutError

CLEAN_UP_TIMEOUT = supervisor.ON_EXIT_TIMEOUT + 15.0

_JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH")
"""Variables of the user that would change how the children's JVMs run."""


class Processes:
    """Named child processes and a folder for them; `close` ends and removes all of it.

    The folder is created in ``parent``, or in the system's folder for temporary files.
    """

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        self._owner = os.getpid()
        self._last_request = 0
        self._closed = False
        parent_folder = os.fspath(parent) if parent is not None else tempfile.gettempdir()
        # In a session of its own, Ctrl-C reaches only the owner, which then closes in order.
        # -I -S: isolated from the user's modules, and a start within 20 ms.
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, str(self._owner), parent_folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={key: value for key, value in os.environ.items() if key not in _JAVA_VARIABLES},
        )
        try:
            self.folder = Path(self._read_response()["folder"])
        except BaseException:
            self._stop_supervisor()
            raise

    def start(self, name: str, argv: Sequence[str], out: Path) -> int:
        """Start a process whose output is appended to ``out``, and return its pid."""
        return int(self._request(do="start", name=name, argv=list(argv), out=str(out))["pid"])

    def on_exit(self, argv: Sequence[str] | None) -> None:
        """Set the command to run when this is closed or the owner dies; None removes it."""
        self._request(do="on_exit", argv=None if argv is None else list(argv))

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a process; no effect after it has exited."""
        self._request(do="signal", name=name, signal=number)

    def exit_code(self, name: str) -> int | None:
        """Return the exit code (-N after signal N), or None while the process runs."""
        code = self._request(do="poll")["exits"][name]
        return None if code is None else int(code)

    def wait(self, name: str, timeout: float) -> int:
        """Wait for a process to exit and return its exit code.

        Raises ClusterTimeoutError after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while (code := self.exit_code(name)) is None:
            if time.monotonic() > deadline:
                raise ClusterTimeoutError(f"process {name} did not exit within {timeout:g} s")
            time.sleep(0.02)
        return code

    def close(self) -> None:
        """End all processes and remove the folder; no effect when repeated, or in a fork."""
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        self._stop_supervisor()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _stop_supervisor(self) -> None:
        """Let the supervisor clean up; after CLEAN_UP_TIMEOUT kill its process group."""
        process = self._supervisor
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        with suppress(OSError):
            stdin.close()
        # Its exit closes its output. The process group is killed before the wait(): until the
        # supervisor is reaped, its pid, and so the number of its group, cannot be reused.
        deadline = time.monotonic() + CLEAN_UP_TIMEOUT
        with stdout, selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                if not os.read(stdout.fileno(), 65536):
                    break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _request(self, **request: object) -> dict[str, Any]:
        if self._closed:
            raise ClusterClosedError
        self._last_request += 1
        line = json.dumps({**request, "id": self._last_request}) + "\n"
        stdin = self._supervisor.stdin
        assert stdin is not None
        try:
            stdin.write(line.encode())
            stdin.flush()
        except OSError as error:
            raise _supervisor_exited() from error
        # The response to a request that Ctrl-C interrupted may still be in the pipe.
        while (response := self._read_response()).get("id") != self._last_request:
            pass
        if "error" in response:
            raise ClusterError(
                f"could not {request['do']} {request.get('name')}: {response['error']}"
            )
        return response

    def _read_response(self) -> dict[str, Any]:
        stdout = self._supervisor.stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise _supervisor_exited()
        response: dict[str, Any] = json.loads(line)
        return response


def _supervisor_exited() -> ClusterError:
    return ClusterError(
        "the supervisor process of the brokers has exited: close this cluster and create a new one"
    )
