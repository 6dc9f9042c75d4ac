"""Racks out of what a command prints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from assignors.discovery.bounded_run import SlowCommandError, output_of
from placement_core import ClusterView, InvalidOptionError, RackwardError
from placement_core.locators import TextFormat, TextLocator
from placement_core.locators.text import checked_format
from placement_core.plugins import read_properties

MOST_BYTES = 4 << 20
"""What a command may write to its output, and to its errors."""

MOST_SECONDS = 600.0


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= MOST_SECONDS:
        raise ValueError(f"give seconds, more than 0 and at most {MOST_SECONDS:g}")
    return seconds


@dataclass(frozen=True, slots=True)
class CommandLocator:
    """The racks that a command prints in ``format``, within ``timeout`` seconds.

    It is run anew for each question, without a shell, and without input. It may print
    MOST_BYTES; what it writes to its standard error is shown if it fails. No message shows its
    arguments, which may hold secrets.
    """

    command: tuple[str, ...]
    format: TextFormat = "properties"
    timeout: float = 10.0

    def __post_init__(self) -> None:
        if not self.command:
            raise InvalidOptionError("command is empty: write command=PROGRAM and its arguments")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> CommandLocator:
        """From ``command`` (words, quoted as for a shell), ``format`` and ``timeout``."""
        given = read_properties(
            "command", properties, command=shlex.split, format=checked_format, timeout=_seconds
        )
        return cls(**{**given, "command": tuple(given.get("command", ()))})

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:
        """See RackLocator. Raises RackwardError where it fails, takes or prints too much."""
        try:
            printed = output_of(self.command, self.timeout, MOST_BYTES)
        except SlowCommandError as error:
            raise RackwardError(f"{error}: set the property timeout, or mend it") from error
        try:
            return TextLocator(printed.decode(), self.format).racks(view)
        except (UnicodeDecodeError, RackwardError) as error:
            raise RackwardError(
                f"what {self.command[0]} printed cannot be used: {error}"
            ) from error


__all__ = ["MOST_BYTES", "MOST_SECONDS", "CommandLocator"]
