"""The quickstart, docs/tutorial.md, does what it says: its blocks run in order, as users run them.

Programs are the blocks after "Save this as `NAME`". A block of text is a part of what the last
command before it prints, at 80 columns; that command is repeated until it prints this, as the page
says.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.waiting import TEST_TIMEOUT, wait_until

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"


class Block(NamedTuple):
    """A block of the page and the text before it."""

    before: str
    language: str
    text: str


def blocks() -> Iterator[Block]:
    parts = re.split(r"^```(\w*)\n(.*?)^```\n", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    for index in range(0, len(parts) - 1, 3):
        yield Block(*parts[index : index + 3])


class Shell:
    """Runs the commands of the page in a folder."""

    def __init__(self, folder: Path, processes: ExitStack) -> None:
        self._folder = folder
        self._processes = processes
        self._jobs: list[subprocess.Popen[str]] = []
        self.environment = {
            **os.environ,
            "COLUMNS": "80",
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            # Programs are not in the checkout, which may be what is tested.
            "PYTHONPATH": str(ROOT),
        }

    def start(self, command: str, stdout: int | None = None) -> subprocess.Popen[str]:
        """Start a command in the background; it is killed at the end if it still runs."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self._folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=stdout,
            text=True,
        )
        self._processes.callback(end, process)
        return process

    def run(self, command: str) -> str:
        """Run a command of the page and return what it prints."""
        if command.startswith("kill "):
            assert command.split()[1:] == [f"%{n + 1}" for n in range(len(self._jobs))]
            for job in self._jobs:
                job.send_signal(signal.SIGTERM)
            for job in self._jobs:
                assert job.wait(TEST_TIMEOUT) in (0, 128 + signal.SIGTERM), job.args
            self._jobs = []
            return ""
        if command.endswith("&"):
            self._jobs.append(self.start(command[:-1]))
            return ""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TEST_TIMEOUT,
            check=False,
        )
        if done.returncode == 2:
            assert "rebalancing" in done.stderr or "start its consumers" in done.stderr, done.stderr
        return "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n"


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@contextmanager
def running_cluster(shell: Shell) -> Iterator[None]:
    """Run cluster.py, with what it says to export."""
    process = shell.start("python cluster.py", subprocess.PIPE)
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").strip().partition("=")
            shell.environment[name] = value
            break
    assert "RACKWARD_BOOTSTRAP_SERVER" in shell.environment, printed
    yield
    process.communicate("\n", timeout=TEST_TIMEOUT)
    assert process.returncode == 0


def test_the_quickstart_prints_what_its_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RACKWARD_BOOTSTRAP_SERVER", raising=False)
    page = list(blocks())
    with ExitStack() as processes:
        shell = Shell(tmp_path, processes)
        consumer = tmp_path / "consumer.py"
        command = ""
        compared = 0
        for before, language, text in page:
            if language == "python" and (saved := re.search(r"Save this as `(\S+)`", before)):
                (tmp_path / saved[1]).write_text(text)
                if saved[1] == "cluster.py":
                    processes.enter_context(running_cluster(shell))
            elif language == "python":
                change(consumer, text)
            elif language == "sh" and "venv/bin/activate" not in text:
                for command in text.splitlines():
                    shell.run(command)
            elif language == "text":
                compared += 1
                check_output(shell, command, text)
        assert compared == 4


def check_output(shell: Shell, command: str, expected: str) -> None:
    """Wait until the command prints the lines."""
    printed = ""

    def has_printed() -> bool:
        nonlocal printed
        printed = shell.run(command)
        return expected in printed

    try:
        wait_until(has_printed, TEST_TIMEOUT, command)
    except AssertionError:
        assert printed == expected


def change(program: Path, lines: str) -> None:
    """Replace the import of the consumer and the assignor with those in ``lines``."""
    changed = program.read_text()
    for pattern in (r"^from \S+ import Consumer$", r'"partition\.assignment\.strategy": "[^"]+"'):
        (new,) = re.findall(pattern, lines, re.MULTILINE)
        changed, count = re.subn(pattern, new, changed, flags=re.MULTILINE)
        assert count == 1, pattern
    program.write_text(changed)
