"""The interface of a source of racks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Protocol, runtime_checkable

from placement_core import RackwardError


class SourceError(RackwardError):
    """A source that should provide a rack does not: the reason, and what to do about it."""


@runtime_checkable
class RackSource(Protocol):
    """Something that may provide the rack of this process."""

    @property
    def name(self) -> str:
        """The name in log lines. It contains no secret."""

    @property
    def timeout(self) -> float:
        """Seconds that :meth:`find_rack` may take."""

    def find_rack(self, timeout: float) -> str | None:
        """Return the rack, or None if this source has none.

        It is called in a thread of its own, and abandoned shortly after ``timeout`` seconds.
        Raises SourceError; any other exception counts as a failure too.
        """


@dataclass(frozen=True, slots=True)
class InvalidSource:
    """Stands for a source that is configured or installed and cannot be constructed."""

    name: str
    reason: str
    timeout: float = 1.0

    def find_rack(self, timeout: float) -> NoReturn:  # noqa: ARG002
        """Raise SourceError."""
        raise SourceError(self.reason)
