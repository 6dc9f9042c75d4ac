"""A small process that owns a cluster's processes, so that they cannot outlive its owner.

Run as a script: ``python supervisor.py OWNER_PID PARENT_FOLDER``. It makes a folder, tells
its name, and starts and signals processes as the owner asks over its standard input, one
JSON object a line. When the pipe ends, the owner's process is gone (a pipe alone is not
enough: a fork of the owner would hold it open), or a signal asks it to end, it kills its
children, removes the folder and ends. Being the children's parent, it never signals a pid
that has passed to somebody else, and it works alike on Linux and macOS: neither has
anything portable that ends a child with its parent.

It imports the standard library alone, and few modules of it: one runs per cluster.
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

CHECK_SECONDS = 0.5
"""How often it looks whether its owner still is its parent."""

LAST_SECONDS = 120.0
"""How long the command that is run last may take."""


class Supervisor:
    """The children, the folder, and what to do with them."""

    def __init__(self, owner: int, parent: str) -> None:
        self.owner = owner
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.last: list[str] | None = None
        self.folder = tempfile.mkdtemp(prefix="rackward-", dir=parent)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do one thing that the owner asks; the answer goes back."""
        match request["do"]:
            case "start":
                return self.start(request["name"], request["argv"], request["out"])
            case "signal":
                child = self.children[request["name"]]
                # send_signal does nothing once the child has been reaped.
                child.send_signal(request["signal"])
                return {}
            case "poll":
                return {"exits": {name: child.poll() for name, child in self.children.items()}}
            case "at_end":
                self.last = request["argv"]
                return {}
            case other:
                raise ValueError(f"cannot do {other!r}")

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

    def end(self) -> None:
        """Kill every child, wait for it, run what was to be run last, remove the folder."""
        for child in self.children.values():
            child.kill()
        for child in self.children.values():
            child.wait()
        if self.last is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    self.last,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    timeout=LAST_SECONDS,
                    check=False,
                )
        shutil.rmtree(self.folder, ignore_errors=True)

    def serve(self) -> None:
        """Answer requests until the owner closes the pipe or is gone."""
        tell({"folder": self.folder})
        pending = b""
        while True:
            readable, _, _ = select.select([0], [], [], CHECK_SECONDS)
            if os.getppid() != self.owner:
                return
            if not readable:
                continue
            chunk = os.read(0, 65536)
            if not chunk:
                return
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                request = json.loads(line)
                try:
                    answer = self.answer(request)
                except (OSError, KeyError, ValueError) as error:
                    answer = {"error": f"{type(error).__name__}: {error}"}
                tell({**answer, "id": request["id"]})


def tell(message: dict[str, Any]) -> None:
    """One line to the owner."""
    os.write(1, json.dumps(message).encode() + b"\n")


def main() -> None:
    """Serve one owner, then clean up."""
    supervisor = Supervisor(int(sys.argv[1]), sys.argv[2])
    try:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda *_: sys.exit())
        supervisor.serve()
    except BrokenPipeError:
        pass  # the owner went while it was being told something
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        supervisor.end()


if __name__ == "__main__":
    main()
