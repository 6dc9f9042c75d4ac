"""A rack out of an environment variable."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """The rack is ``value``, that of the environment variable ``name``."""

    name: str
    value: str
    timeout: float = 1.0

    def ask(self, seconds: float) -> str:  # noqa: ARG002
        """See RackSource."""
        return self.value
