"""Which groups and topics are collected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Patterns:
    """Names that match one of ``include`` (none: all names) and none of ``exclude``.

    In a pattern, ``*`` stands for any letters and ``?`` for one.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def take(self, name: str) -> bool:
        """Whether ``name`` is one of them."""
        if self.include and not any(fnmatchcase(name, each) for each in self.include):
            return False
        return not any(fnmatchcase(name, each) for each in self.exclude)

    @property
    def all(self) -> bool:
        """Whether every name is one of them."""
        return not self.include and not self.exclude


@dataclass(frozen=True, slots=True)
class Selection:
    """Groups and topics to collect; ``internal`` has the topics that Kafka keeps for itself."""

    groups: Patterns = Patterns()
    topics: Patterns = Patterns()
    internal: bool = False
