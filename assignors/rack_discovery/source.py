"""What can be asked for a rack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Protocol, runtime_checkable

from placement_core import RackwardError


class SourceError(RackwardError):
    """A source has no rack to tell, though it should: why, and what to do about it."""


@runtime_checkable
class RackSource(Protocol):
    """One place where a rack may be found."""

    @property
    def name(self) -> str:
        """What it is called in logs; no secret is in it."""

    @property
    def timeout(self) -> float:
        """Seconds that it may take."""

    def ask(self, seconds: float) -> str | None:
        """The rack, None where it knows of none.

        It is asked in a thread of its own, and nobody waits for it much longer than
        ``seconds``. Raises SourceError; whatever else it raises is taken for a failure too.
        """


@dataclass(frozen=True, slots=True)
class UnusableSource:
    """In the place of a source that was named, or is installed, and cannot be made."""

    name: str
    why: str
    timeout: float = 1.0

    def ask(self, seconds: float) -> NoReturn:  # noqa: ARG002
        """Raise SourceError."""
        raise SourceError(self.why)
