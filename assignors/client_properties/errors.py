"""What is wrong with a connection property."""

from __future__ import annotations

from placement_core import RackwardError


class ConnectionPropertyError(RackwardError, ValueError):
    """A connection property that no client could use; ``name`` is the property's name.

    The message never holds the value of a property that is a secret.
    """

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f"{name}: {problem}")
