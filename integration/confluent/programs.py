"""A test module that runs as a program of its own, and the lines that it prints."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from tests.support.waiting import TEST_TIMEOUT


class Program:
    """Runs ``module`` with ``arguments`` in a process; ``lines`` are what it printed."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        self._thread = threading.Thread(target=self._read_lines, daemon=True)
        self._thread.start()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def kill(self) -> None:
        """Kill it, unless it has ended, and read the rest of its lines."""
        self.process.kill()
        self.process.wait(TEST_TIMEOUT)
        self._thread.join(TEST_TIMEOUT)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
