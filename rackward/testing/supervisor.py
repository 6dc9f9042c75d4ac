"""A small process that owns a cluster's processes, so that they cannot outlive the owner.

Run as a script: ``python supervisor.py OWNER_PID PARENT_FOLDER``. It creates a folder, writes
its name to standard output, and then executes requests read from standard input (one JSON
object per line, one response line each): start, signal and poll child processes. It stops
when the pipe closes, when the owner process is gone (the pipe alone is not enough: a fork of
the owner keeps it open), or on SIGTERM, SIGHUP or SIGINT. Then it kills its children and
removes the folder. As the children's parent it never signals a reused pid. Neither Linux nor
macOS has a portable way to end a child with its parent, and this works on both.

It imports only the standard library, and little of it: one supervisor runs per cluster.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any

OWNER_CHECK_INTERVAL = 0.5
"""Seconds between checks that the owner is still the parent process."""

ON_EXIT_TIMEOUT = 120.0
"""Maximum duration, in seconds, of the command that runs on exit."""

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Supervisor:
    """Child processes, their folder, and the requests that act on them."""

    def __init__(self, owner: int, parent_folder: str) -> None:
        self.owner = owner
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.on_exit: list[str] | None = None
        self.folder = tempfile.mkdtemp(prefix="rackward-", dir=parent_folder)

    def serve(self) -> None:
        """Execute requests until the owner closes the pipe or is gone."""
        write_message({"folder": self.folder})
        buffer = b""
        while True:
            readable, _, _ = select.select([0], [], [], OWNER_CHECK_INTERVAL)
            if os.getppid() != self.owner:
                return
            if not readable:
                continue
            chunk = os.read(0, 65536)
            if not chunk:
                return
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                request = json.loads(line)
                try:
                    response = self.execute(request)
                except (OSError, KeyError, ValueError) as error:
                    response = {"error": f"{type(error).__name__}: {error}"}
                write_message({**response, "id": request["id"]})

    def execute(self, request: dict[str, Any]) -> dict[str, Any]:
        """Execute one request and return its response."""
        match request["do"]:
            case "start":
                return self.start(request["name"], request["argv"], request["out"])
            case "signal":
                child = self.children[request["name"]]
                # send_signal does nothing after the child has been reaped.
                child.send_signal(request["signal"])
                return {}
            case "poll":
                return {"exits": {name: child.poll() for name, child in self.children.items()}}
            case "on_exit":
                self.on_exit = request["argv"]
                return {}
            case other:
                raise ValueError(f"unknown request {other!r}")

    def start(self, name: str, argv: list[str], out: str) -> dict[str, Any]:
        """Start a child under a name; its output is appended to the file ``out``."""
        with open(out, "ab") as file:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
        self.children[name] = child
        return {"pid": child.pid}

    def clean_up(self) -> None:
        """Kill all children, run the command set for the exit, and remove the folder."""
        for child in self.children.values():
            child.kill()
        for child in self.children.values():
            child.wait()
        if self.on_exit is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    self.on_exit,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    timeout=ON_EXIT_TIMEOUT,
                    check=False,
                )
        shutil.rmtree(self.folder, ignore_errors=True)


def write_message(message: dict[str, Any]) -> None:
    """Write one JSON line to the owner."""
    os.write(1, json.dumps(message).encode() + b"\n")


def main() -> None:
    """Serve one owner, then clean up."""
    supervisor = Supervisor(int(sys.argv[1]), sys.argv[2])
    try:
        for number in _STOP_SIGNALS:
            signal.signal(number, lambda *_: sys.exit())
        supervisor.serve()
    except BrokenPipeError:
        pass  # The owner exited before it read a response.
    finally:
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        supervisor.clean_up()


if __name__ == "__main__":
    main()
