"""Racks from files, such as Kubernetes mounts, and from the output of commands.

A file contains the rack and nothing else, like a field of the downward API. Or it contains labels,
as the downward API writes ``metadata.labels``, one ``key="value"`` per line, and the label's key is
given after a ``#``::

    /etc/podinfo/zone
    /etc/podinfo/labels#topology.kubernetes.io/zone

Source: Kubernetes, ``pkg/fieldpath`` (values are quoted as by Go's ``%q``; label values contain
nothing that is escaped).
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from assignors.group_leader.logs import sanitize
from assignors.rack_discovery.source import SourceError
from placement_core import InvalidOptionError, RackwardError

MAX_FILE_BYTES = 1 << 20
"""The labels and annotations of a pod are much smaller. A larger file is the wrong one."""

MAX_OUTPUT_BYTES = 1 << 16
COMMAND_TIMEOUT = 2.0
"""Seconds that a command may take by default."""

_LABEL = re.compile(r'[^\s=]+=".*"')


@dataclass(frozen=True, slots=True)
class FileSource:
    """The content of the file ``path``, or of its label ``key`` unless that is empty.

    No error shows anything of the content: it may be a file of secrets, named by mistake.
    """

    path: Path
    key: str = ""
    timeout: float = 1.0

    @classmethod
    def parse(cls, text: str) -> FileSource:
        """Parse ``PATH`` or ``PATH#KEY``. A path with a ``#`` in it needs another one after it."""
        path, separator, key = text.rpartition("#")
        return cls(Path(path), key.strip()) if separator else cls(Path(text))

    @property
    def name(self) -> str:
        """``file PATH`` or ``file PATH#KEY``."""
        return f"file {sanitize(str(self.path), 200)}{'#' if self.key else ''}{sanitize(self.key)}"

    def find_rack(self, timeout: float) -> str:  # noqa: ARG002
        """Read the file. Raise SourceError."""
        try:
            with self.path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a valid path"
            raise SourceError(
                f"cannot be read ({reason}): mount the file, or give another path"
            ) from error
        if len(content) > MAX_FILE_BYTES:
            raise SourceError(f"is larger than {MAX_FILE_BYTES >> 20} MB: give another path")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SourceError("is not UTF-8: give another path") from error
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        return self._label_value(lines) if self.key else _single_line(lines)

    def _label_value(self, lines: list[str]) -> str:
        for line in lines:
            key, _, quoted = line.partition("=")
            if key == self.key:
                return _unquote(quoted)
        raise SourceError('has no line KEY="VALUE" with that key: check that the pod has the label')


def _single_line(lines: list[str]) -> str:
    if not lines:
        raise SourceError("is empty: write the rack into it")
    if len(lines) > 1 or _LABEL.fullmatch(lines[0]):
        raise SourceError(
            f"has {len(lines)} lines or labels instead of the rack alone: if it contains labels,"
            " give one as FILE#KEY"
        )
    return lines[0]


def _unquote(quoted: str) -> str:
    try:
        value = json.loads(quoted)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, str):
        raise SourceError('has no value in double quotes for that key: write KEY="VALUE"')
    return value


@dataclass(frozen=True, slots=True)
class CommandSource:
    """The first line that ``command`` prints.

    It runs without a shell and without input, and is killed with all its children after the
    timeout. No message shows its arguments, which may contain secrets.
    """

    command: tuple[str, ...]
    timeout: float = COMMAND_TIMEOUT

    @classmethod
    def parse(cls, line: str, timeout: float = COMMAND_TIMEOUT) -> CommandSource:
        """Split ``line`` as a shell does. Raise InvalidOptionError if it is empty or unbalanced."""
        try:
            words = tuple(shlex.split(line))
        except ValueError as error:
            raise InvalidOptionError(
                f"the command for the rack cannot be parsed: {error}"
            ) from error
        if not words:
            raise InvalidOptionError("the command for the rack is empty: write command:PROGRAM ARG")
        return cls(words, timeout)

    @property
    def name(self) -> str:
        """``command PROGRAM``."""
        return f"command {self.command[0]}"

    def find_rack(self, timeout: float) -> str:
        """Run the command. Raise SourceError."""
        try:
            output = run_command(self.command, timeout, MAX_OUTPUT_BYTES)
        except CommandTimeoutError as error:
            raise SourceError(
                f"{error.problem}: have it write a file, and use that as the source"
            ) from error
        except CommandError as error:
            raise SourceError(error.problem) from error
        try:
            lines = output.decode().strip().split("\n")
        except UnicodeDecodeError as error:
            raise SourceError("printed text that is not UTF-8") from error
        return lines[0]


# ---- Running a command with limits on its time and output.

_CHUNK_BYTES = 1 << 16


class CommandError(RackwardError):
    """``program`` could not be run, failed, or was killed; ``problem`` says which of these.

    The message does not contain the arguments, which may be secret.
    """

    def __init__(self, program: str, problem: str) -> None:
        super().__init__(f"{program} {problem}")
        self.problem = problem


class CommandTimeoutError(CommandError):
    """A command took longer than its timeout, and was killed."""


def run_command(command: Sequence[str], timeout: float, max_bytes: int) -> bytes:
    """Run ``command`` without a shell and without input, and return its standard output.

    After ``timeout`` seconds, or ``max_bytes`` of output or of errors, it is killed with all that
    it started in its session. Raise CommandError.
    """
    try:
        status, output, errors = _run(command, timeout, max_bytes)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CommandError(command[0], f"cannot be run: {reason}") from error
    if status:
        error_lines = errors.decode(errors="replace").strip().splitlines()
        last = f": {sanitize(error_lines[-1], 200)}" if error_lines else ""
        raise CommandError(command[0], f"ended with status {status}{last}")
    return output


def _run(command: Sequence[str], timeout: float, max_bytes: int) -> tuple[int, bytes, bytes]:
    """Return the exit status, the standard output and the standard error."""
    timed_out = CommandTimeoutError(command[0], f"took longer than {timeout:.3g} s and was stopped")
    deadline = time.monotonic() + timeout
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A session of its own, so that its children can be killed with it.
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as stdout, process.stderr as stderr:
        try:
            streams = _read_both(stdout, stderr, deadline, max_bytes)
            if streams is None:
                raise timed_out
            if any(len(each) > max_bytes for each in streams):
                raise CommandError(
                    command[0], f"printed more than {max_bytes} bytes and was stopped"
                )
            try:
                # A command may close its output and continue to run.
                process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise timed_out from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode, bytes(streams[0]), bytes(streams[1])


def _read_both(
    stdout: IO[bytes], stderr: IO[bytes], deadline: float, max_bytes: int
) -> tuple[bytearray, bytearray] | None:
    """Read both to the end, or more than ``max_bytes`` of one. Return None at the deadline."""
    contents = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ, contents[0])
        selector.register(stderr, selectors.EVENT_READ, contents[1])
        while selector.get_map():
            remaining = deadline - time.monotonic()
            ready = selector.select(remaining) if remaining > 0 else []
            if not ready:
                return None
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK_BYTES)
                key.data.extend(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
                if len(key.data) > max_bytes:
                    return contents
    return contents
