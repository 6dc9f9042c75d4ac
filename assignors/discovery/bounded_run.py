"""Run a command that may hang or babble, and be done with it in time."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from assignors.leading.shown import shown
from placement_core import RackwardError

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
