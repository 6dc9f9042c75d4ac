"""Runs the command in processes that are forked from one that has imported it.

Most of a short command's time is the import of client libraries. Each run is a fork with its own
working folder, environment, arguments and standard streams, like a new process. The parent reads a
JSON request per line and writes the exit status:

    <- {"arguments": [...], "env": {...}, "cwd": "/...", "stdin": "/...", "out": "/...", ...}
    -> 0
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[2]


class WarmCommand:
    """The process that has imported the command."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "integration.support.warm_command"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=SOURCES,
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
    import rackward.cli.groups
    import rackward.cli.leaders
    import rackward.cli.main
    import rackward.cli.placement
    import rackward.cli.topics.create
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
