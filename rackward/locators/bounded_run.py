"""Run a command that may hang or babble, and be done with it in time."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

MOST_BYTES = 4 << 20
"""What a command may write to its output, and to its errors."""

MOST_SECONDS = 600.0
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a command; ``problem`` is None, or why it was stopped."""

    status: int
    output: bytes
    errors: bytes
    problem: str | None


def run_bounded(command: Sequence[str], seconds: float, most: int = MOST_BYTES) -> Run:
    """Run ``command`` without a shell and without input, for ``seconds`` at most.

    When it takes longer, or writes more than ``most`` bytes, it is killed, and so is all that
    it started in its session. Raises OSError where it cannot be started.
    """
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
            written, problem = _read(output, errors, time.monotonic() + seconds, seconds, most)
            if problem is None:
                with suppress(subprocess.TimeoutExpired):
                    # It may close its output and go on.
                    process.wait(timeout=seconds)
                if process.poll() is None:
                    problem = _too_slow(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Run(process.returncode, bytes(written[0]), bytes(written[1]), problem)


def _read(
    output: IO[bytes], errors: IO[bytes], deadline: float, seconds: float, most: int
) -> tuple[tuple[bytearray, bytearray], str | None]:
    written = bytearray(), bytearray()
    with selectors.DefaultSelector() as waiting:
        waiting.register(output, selectors.EVENT_READ, written[0])
        waiting.register(errors, selectors.EVENT_READ, written[1])
        while waiting.get_map():
            left = deadline - time.monotonic()
            ready = waiting.select(left) if left > 0 else []
            if not ready:
                return written, _too_slow(seconds)
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                key.data.extend(chunk)
                if not chunk:
                    waiting.unregister(key.fileobj)
                if len(key.data) > most:
                    return written, f"printed more than {most} bytes and was stopped"
    return written, None


def _too_slow(seconds: float) -> str:
    return f"took longer than {seconds:g} s and was stopped: set the property timeout, or mend it"
