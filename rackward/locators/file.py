"""Racks out of a file, read anew each time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from placement_core import ClusterView, InvalidOptionError, RackwardError
from placement_core.locators import TextFormat, TextLocator
from placement_core.locators.text import checked_format
from placement_core.plugins import read_properties

SUFFIXES: Mapping[str, TextFormat] = {
    ".properties": "properties",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
}
MOST_BYTES = 16 << 20
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
                content = file.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise RackwardError(
                    f"{self.path} has more than {MOST_BYTES >> 20} MB: name another"
                )
            return TextLocator(content.decode("utf-8-sig"), kind).racks(view)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else f"it is not UTF-8 ({error})"
            raise RackwardError(f"{self.path} cannot be read: {why}") from error
        except RackwardError as error:
            raise RackwardError(f"{self.path}: {error}") from error
