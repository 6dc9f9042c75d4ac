"""The errors that rackward raises, with the offending values as attributes."""

from __future__ import annotations

from collections.abc import Iterable


class RackwardError(Exception):
    """Base class of every error that rackward raises on purpose.

    The message is one line: what was wrong, with the values, and what to do.
    """


class InvalidGroupError(RackwardError):
    """The members given to an assignor do not form a group, for example two of one id."""


class InvalidOptionError(RackwardError, ValueError):
    """An option of an assignor, a placer or a tool is out of range."""


class SolverLimitError(RackwardError, OverflowError):
    """The numbers of a problem are larger than the solver can compute with exactly."""


class PlacementError(RackwardError):
    """The requested replicas cannot be placed on the available brokers."""


class MissingRacksError(PlacementError):
    """Some of the brokers to place on, ``broker_ids``, have no rack while others have one."""

    def __init__(self, broker_ids: Iterable[int]) -> None:
        self.broker_ids = tuple(sorted(broker_ids))
        super().__init__(
            f"{format_brokers(self.broker_ids)} without a rack, while others have one: set "
            "broker.rack there, leave them out (--brokers; --drain of placement plan), or ignore "
            "racks (--ignore-racks)"
        )


class PlacerError(PlacementError):
    """A placer raised an error or returned an invalid layout; ``placer`` is its name."""

    def __init__(self, placer: str, problem: str) -> None:
        self.placer = placer
        super().__init__(f"placer {placer}: {problem}")


class LocatorError(RackwardError):
    """A rack locator raised an error or returned invalid racks; ``locator`` is its name."""

    def __init__(self, locator: str, problem: str) -> None:
        self.locator = locator
        super().__init__(f"rack locator {locator}: {problem}")


class RackParseError(RackwardError, ValueError):
    """A text does not contain the racks of brokers in the expected format."""


def format_brokers(broker_ids: Iterable[int], limit: int | None = None) -> str:
    """Return ``broker 3`` or ``brokers 1, 2, 3`` for a message, at most ``limit`` of the ids."""
    ids = sorted(broker_ids)
    more = ", ..." if limit is not None and len(ids) > limit else ""
    return f"broker{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids[:limit]))}{more}"
