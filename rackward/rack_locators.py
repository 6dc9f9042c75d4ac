"""The rack locators that read files and run commands, beside the pure ones."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assignors.rack_discovery.local import SlowCommandError, output_of
from placement_core import ClusterView, InvalidOptionError, RackwardError
from placement_core.locators import LOCATORS as PURE
from placement_core.locators import RackLocator, TextFormat, TextLocator, checked_format
from placement_core.locators import load_locator as load_known
from placement_core.plugins import read_properties

# ---- Racks out of what a command prints.

MAX_OUTPUT_BYTES = 4 << 20
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
            printed = output_of(self.command, self.timeout, MAX_OUTPUT_BYTES)
        except SlowCommandError as error:
            raise RackwardError(f"{error}: set the property timeout, or mend it") from error
        try:
            return TextLocator(printed.decode(), self.format).racks(view)
        except (UnicodeDecodeError, RackwardError) as error:
            raise RackwardError(
                f"what {self.command[0]} printed cannot be used: {error}"
            ) from error


# ---- Racks out of a file, read anew each time.

SUFFIXES: Mapping[str, TextFormat] = {
    ".properties": "properties",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
}
MAX_FILE_BYTES = 16 << 20
"""No mapping of brokers to racks is larger; something else was named."""


@dataclass(frozen=True, slots=True)
class FileLocator:
    """The racks in the file at ``path``; its suffix says the format where ``format`` does not."""

    path: Path
    format: TextFormat | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> FileLocator:
        """From ``path``, which must be given, and ``format``. Raises InvalidOptionError."""
        given = read_properties("file", properties, path=Path, format=checked_format)
        if "path" not in given:
            raise InvalidOptionError("file needs the property path: write path=FILE")
        return cls(**given)

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:
        """See RackLocator. Raises RackwardError where the file cannot be read or parsed."""
        kind = self.format or SUFFIXES.get(self.path.suffix.lower(), "properties")
        try:
            with self.path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
            if len(content) > MAX_FILE_BYTES:
                raise RackwardError(
                    f"{self.path} has more than {MAX_FILE_BYTES >> 20} MB: name another"
                )
            return TextLocator(content.decode("utf-8-sig"), kind).racks(view)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else f"it is not UTF-8 ({error})"
            raise RackwardError(f"{self.path} cannot be read: {why}") from error
        except RackwardError as error:
            raise RackwardError(f"{self.path}: {error}") from error


LOCATORS: Mapping[str, type[RackLocator]] = {
    **PURE,
    "file": FileLocator,
    "command": CommandLocator,
}
"""Every locator that comes with rackward, by the names that tools know them under."""


def load_locator(name: str, properties: Mapping[str, str] | None = None) -> RackLocator:
    """The locator of that name: one of LOCATORS, an entry point, or ``module:Class``.

    As :func:`placement_core.locators.load_locator`, with the file and the command locator.
    """
    return load_known(name, properties, LOCATORS)
