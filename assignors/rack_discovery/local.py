"""A rack out of a file, such as Kubernetes mounts.

The file holds the rack and nothing else, as a field of the downward API does. Or it holds labels,
as the downward API writes ``metadata.labels``, one ``key="value"`` on each line, and the label's
key is given after a ``#``::

    /etc/podinfo/zone
    /etc/podinfo/labels#topology.kubernetes.io/zone

Source: Kubernetes, ``pkg/fieldpath`` (values are quoted as Go's ``%q`` does; those of labels have
nothing to escape).
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

from assignors.group_leader.logs import shown
from assignors.rack_discovery.source import SourceError
from placement_core import InvalidOptionError, RackwardError

MAX_FILE_BYTES = 1 << 20
"""The labels and annotations of a pod are well below it; something else was named."""

_LABEL = re.compile(r'[^\s=]+=".*"')


@dataclass(frozen=True, slots=True)
class FileSource:
    """The rack that the file at ``path`` holds, or its label ``key`` where that is not empty."""

    path: Path
    key: str = ""
    timeout: float = 1.0

    @classmethod
    def named(cls, text: str) -> FileSource:
        """From ``PATH`` or ``PATH#KEY``; a path with a ``#`` in it is written with one more."""
        path, mark, key = text.rpartition("#")
        return cls(Path(path), key.strip()) if mark else cls(Path(text))

    @property
    def name(self) -> str:
        """See RackSource."""
        return f"file {shown(str(self.path), 200)}{'#' if self.key else ''}{shown(self.key)}"

    def ask(self, seconds: float) -> str:  # noqa: ARG002
        """See RackSource. No message holds what is in the file."""
        try:
            with self.path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no path"
            raise SourceError(f"cannot be read ({why}): mount it, or name another") from error
        if len(content) > MAX_FILE_BYTES:
            raise SourceError(f"has more than {MAX_FILE_BYTES >> 20} MB: name another")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SourceError("is not UTF-8: name another") from error
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        return self._label(lines) if self.key else _only(lines)

    def _label(self, lines: list[str]) -> str:
        for line in lines:
            key, _, quoted = line.partition("=")
            if key == self.key:
                return _unquoted(quoted)
        raise SourceError(
            'has no line KEY="VALUE" with that key: see whether the pod has the label'
        )


def _only(lines: list[str]) -> str:
    if not lines:
        raise SourceError("is empty: write the rack into it")
    if len(lines) > 1 or _LABEL.fullmatch(lines[0]):
        raise SourceError(
            f"has {len(lines)} lines or labels where the rack alone is needed: if it holds labels,"
            " name one as FILE#KEY"
        )
    return lines[0]


def _unquoted(quoted: str) -> str:
    try:
        value = json.loads(quoted)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, str):
        raise SourceError('has no value in double quotes for that key: write KEY="VALUE"')
    return value


# ---- Run a command that may hang or babble, and be done with it in time.

_CHUNK = 1 << 16


class CommandError(RackwardError):
    """``program`` could not be run, failed, or was stopped: ``what`` of these.

    Arguments may hold secrets, and none is in the message.
    """

    def __init__(self, program: str, what: str) -> None:
        super().__init__(f"{program} {what}")
        self.what = what


class SlowCommandError(CommandError):
    """A command took longer than it was given, and was stopped."""


def output_of(command: Sequence[str], seconds: float, most: int) -> bytes:
    """What ``command`` prints, run without a shell and without input for ``seconds`` at most.

    When it takes longer, or writes more than ``most`` bytes to its output or to its errors, it is
    killed, and so is all that it started in its session. Raises CommandError.
    """
    try:
        status, output, errors = _run(command, seconds, most)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CommandError(command[0], f"cannot be run: {why}") from error
    if status:
        told = errors.decode(errors="replace").strip().splitlines()
        last = f": {shown(told[-1], 200)}" if told else ""
        raise CommandError(command[0], f"ended with status {status}{last}")
    return output


def _run(command: Sequence[str], seconds: float, most: int) -> tuple[int, bytes, bytes]:
    slow = SlowCommandError(command[0], f"took longer than {seconds:.3g} s and was stopped")
    deadline = time.monotonic() + seconds
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A session of its own, so that its children can be ended with it.
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as output, process.stderr as errors:
        try:
            written = _read(output, errors, deadline, most)
            if written is None:
                raise slow
            if any(len(each) > most for each in written):
                raise CommandError(command[0], f"printed more than {most} bytes and was stopped")
            try:
                # It may close its output and go on.
                process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise slow from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode, bytes(written[0]), bytes(written[1])


def _read(
    output: IO[bytes], errors: IO[bytes], deadline: float, most: int
) -> tuple[bytearray, bytearray] | None:
    """Both to their ends, or to more than ``most`` bytes of one; None at the deadline."""
    written = bytearray(), bytearray()
    with selectors.DefaultSelector() as waiting:
        waiting.register(output, selectors.EVENT_READ, written[0])
        waiting.register(errors, selectors.EVENT_READ, written[1])
        while waiting.get_map():
            left = deadline - time.monotonic()
            ready = waiting.select(left) if left > 0 else []
            if not ready:
                return None
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                key.data.extend(chunk)
                if not chunk:
                    waiting.unregister(key.fileobj)
                if len(key.data) > most:
                    return written
    return written


# ---- A rack out of what a command prints.

MAX_OUTPUT_BYTES = 1 << 16
"""What it may print."""

DEFAULT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class CommandSource:
    """The first line that ``command`` prints.

    It is run without a shell and without input, and killed with all that it started when its time
    is over. No message shows its arguments, which may hold secrets.
    """

    command: tuple[str, ...]
    timeout: float = DEFAULT_SECONDS

    @classmethod
    def written(cls, line: str, timeout: float = DEFAULT_SECONDS) -> CommandSource:
        """From words that are quoted as for a shell. Raises InvalidOptionError."""
        try:
            words = tuple(shlex.split(line))
        except ValueError as error:
            raise InvalidOptionError(f"the command for the rack cannot be read: {error}") from error
        if not words:
            raise InvalidOptionError("the command for the rack is empty: write command:PROGRAM ARG")
        return cls(words, timeout)

    @property
    def name(self) -> str:
        """See RackSource."""
        return f"command {self.command[0]}"

    def ask(self, seconds: float) -> str:
        """See RackSource."""
        try:
            printed = output_of(self.command, seconds, MAX_OUTPUT_BYTES)
        except SlowCommandError as error:
            raise SourceError(f"{error.what}: let it write a file, and name that") from error
        except CommandError as error:
            raise SourceError(error.what) from error
        try:
            lines = printed.decode().strip().split("\n")
        except UnicodeDecodeError as error:
            raise SourceError("printed what is not UTF-8") from error
        return lines[0]
