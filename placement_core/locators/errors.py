"""Why the racks of brokers cannot be had."""

from __future__ import annotations

from placement_core.errors import RackwardError


class LocatorError(RackwardError):
    """A rack locator failed, or its answer cannot be used; ``locator`` is its name."""

    def __init__(self, locator: str, problem: str) -> None:
        self.locator = locator
        super().__init__(f"rack locator {locator}: {problem}")


class RackTextError(RackwardError, ValueError):
    """A text does not say the racks of brokers in the format that it should have."""
