"""A rack out of what a command prints."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from assignors.discovery.bounded_run import CommandError, SlowCommandError, output_of
from assignors.discovery.source import SourceError
from placement_core import InvalidOptionError

MOST_BYTES = 1 << 16
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
            printed = output_of(self.command, seconds, MOST_BYTES)
        except SlowCommandError as error:
            raise SourceError(f"{error.what}: let it write a file, and name that") from error
        except CommandError as error:
            raise SourceError(error.what) from error
        try:
            lines = printed.decode().strip().split("\n")
        except UnicodeDecodeError as error:
            raise SourceError("printed what is not UTF-8") from error
        return lines[0]
