"""Rack locators that read a file or run a command; `placement_core.locators` has the others."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assignors.rack_discovery.sources import SourceError, run_command
from placement_core import ClusterView, InvalidOptionError, RackwardError
from placement_core.locators import LOCATORS as PURE_LOCATORS
from placement_core.locators import RackLocator, parse_racks
from placement_core.locators import load_locator as load_locator_of
from placement_core.plugins import read_properties
from rackward.config_files import read_text

MAX_OUTPUT_BYTES = 4 << 20
"""Limit for the output of a command, and for its errors."""
MAX_FILE_BYTES = 16 << 20
MAX_TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class CommandLocator:
    """The racks that a command prints, within ``timeout`` seconds.

    The command runs once for each call of `racks`, without a shell and without input. Its errors
    are shown if it fails. Its arguments, which may be secrets, are never shown.
    """

    command: tuple[str, ...]
    timeout: float = 10.0

    def __post_init__(self) -> None:
        if not self.command:
            raise InvalidOptionError("command is empty: write command=PROGRAM and its arguments")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> CommandLocator:
        """Return the locator for ``command`` (quoted as for a shell) and ``timeout``.

        Raises InvalidOptionError.
        """
        values = read_properties("command", properties, command=shlex.split, timeout=_parse_timeout)
        return cls(**{**values, "command": tuple(values.get("command", ()))})

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:  # noqa: ARG002
        """Return the rack by broker id. Raises RackwardError if the command or its output fails."""
        try:
            output = run_command(self.command, self.timeout, MAX_OUTPUT_BYTES)
        except SourceError as error:
            raise RackwardError(f"{self.command[0]} {error}") from error
        try:
            return dict(parse_racks(output.decode()))
        except (UnicodeDecodeError, RackwardError) as error:
            raise RackwardError(f"the output of {self.command[0]} is not valid: {error}") from error


def _parse_timeout(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        raise ValueError(f"give seconds, more than 0 and at most {MAX_TIMEOUT_SECONDS:g}")
    return seconds


@dataclass(frozen=True, slots=True)
class FileLocator:
    """The racks in the file at ``path``, which is read for each call of `racks`."""

    path: Path

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> FileLocator:
        """Return the locator for ``path``, which is required. Raises InvalidOptionError."""
        values = read_properties("file", properties, path=Path)
        if "path" not in values:
            raise InvalidOptionError("file needs the property path: write path=FILE")
        return cls(**values)

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:  # noqa: ARG002
        """Return the rack by broker id. Raises RackwardError if the file is not valid."""
        text = read_text(self.path, MAX_FILE_BYTES)
        try:
            return dict(parse_racks(text))
        except RackwardError as error:
            raise RackwardError(f"{self.path}: {error}") from error


LOCATORS: Mapping[str, type[RackLocator]] = {
    **PURE_LOCATORS,
    "file": FileLocator,
    "command": CommandLocator,
}
"""All locators of rackward, by their names on the command line and in configuration files."""


def load_locator(name: str, properties: Mapping[str, str] | None = None) -> RackLocator:
    """Return the locator of that name: one of LOCATORS, an entry point, or ``module:Class``.

    See :func:`placement_core.locators.load_locator`.
    """
    return load_locator_of(name, properties, LOCATORS)
