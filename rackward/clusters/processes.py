"""The owner's end of a `supervisor`: processes that are gone when the owner is, however it went."""

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

from rackward.clusters import supervisor
from rackward.clusters.errors import ClusterClosedError, ClusterError, ClusterTimeoutError

END_SECONDS = supervisor.LAST_SECONDS + 15.0

_SWAYS_JAVA = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH")


class Processes:
    """Named child processes and a folder for them; `close` ends and removes all of it.

    ``parent`` is where the folder is made; None: the system's place for such things.
    """

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        self._owner = os.getpid()
        self._requests = 0
        self._closed = False
        where = os.fspath(parent) if parent is not None else tempfile.gettempdir()
        clean = {key: value for key, value in os.environ.items() if key not in _SWAYS_JAVA}
        # A session of its own, so that Ctrl-C reaches the owner alone, who then closes in
        # order; -I -S: none of the user's modules, and a start in 20 ms.
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, str(self._owner), where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=clean,
        )
        try:
            self.folder = Path(self._read()["folder"])
        except BaseException:
            self._end_supervisor()
            raise

    def start(self, name: str, argv: Sequence[str], out: Path) -> int:
        """Start a process, its output appended to ``out``; returns its pid."""
        return int(self._ask(do="start", name=name, argv=list(argv), out=str(out))["pid"])

    def at_end(self, argv: Sequence[str] | None) -> None:
        """Have a command run when this is closed or its owner dies; None: none."""
        self._ask(do="at_end", argv=None if argv is None else list(argv))

    def signal(self, name: str, number: int) -> None:
        """Send a signal; nothing where the process has ended."""
        self._ask(do="signal", name=name, signal=number)

    def exit_code(self, name: str) -> int | None:
        """How the process ended (minus the signal that ended it); None: it runs."""
        code = self._ask(do="poll")["exits"][name]
        return None if code is None else int(code)

    def wait(self, name: str, timeout: float) -> int:
        """Wait for the end of a process; ClusterTimeoutError after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while (code := self.exit_code(name)) is None:
            if time.monotonic() > deadline:
                raise ClusterTimeoutError(f"{name} did not end within {timeout:g} s")
            time.sleep(0.02)
        return code

    def close(self) -> None:
        """End every process and remove the folder; again, or in a fork: nothing."""
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        self._end_supervisor()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _end_supervisor(self) -> None:
        """Let it clean up; where it cannot, kill its whole group."""
        process = self._supervisor
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        with suppress(OSError):
            stdin.close()
        # Its end closes its output. It is not waited for before its group is killed: until
        # it is reaped nobody else can have its pid, nor the group of that number.
        deadline = time.monotonic() + END_SECONDS
        with stdout, selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                if not os.read(stdout.fileno(), 65536):
                    break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _ask(self, **request: object) -> dict[str, Any]:
        if self._closed:
            raise ClusterClosedError
        self._requests += 1
        line = json.dumps({**request, "id": self._requests}) + "\n"
        stdin = self._supervisor.stdin
        assert stdin is not None
        try:
            stdin.write(line.encode())
            stdin.flush()
        except OSError as error:
            raise self._lost() from error
        # The answer to a request that Ctrl-C cut short may still be in the pipe.
        while (answer := self._read()).get("id") != self._requests:
            pass
        if "error" in answer:
            raise ClusterError(
                f"could not {request['do']} {request.get('name')}: {answer['error']}"
            )
        return answer

    def _read(self) -> dict[str, Any]:
        stdout = self._supervisor.stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise self._lost()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _lost(self) -> ClusterError:
        return ClusterError(
            "the process that looks after the brokers has ended: close this cluster and "
            "make another one"
        )
