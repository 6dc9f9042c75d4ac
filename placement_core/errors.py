"""The errors that rackward raises, with the offending values on them."""

from __future__ import annotations

from collections.abc import Iterable


class RackwardError(Exception):
    """Root of every error that rackward raises on purpose.

    The message is one line: what was wrong, with the values, and what to do.
    """


class InvalidGroupError(RackwardError):
    """The members handed to an assignor do not form a group (two of one id, say)."""


class InvalidOptionError(RackwardError, ValueError):
    """An option of an assignor, a placer or a tool is out of its range."""


class InvalidLayoutError(RackwardError, ValueError):
    """A layout, or the text of one, is not of the form that it has to have."""


# ---- Why a placement could not be made.


class PlacementError(RackwardError):
    """What was asked for cannot be placed on the brokers that there are."""


class MissingRacksError(PlacementError):
    """Some brokers say their rack and others, in ``broker_ids``, do not."""

    def __init__(self, broker_ids: Iterable[int]) -> None:
        self.broker_ids = tuple(sorted(broker_ids))
        super().__init__(
            f"{listed(self.broker_ids)} without a rack, while others have one: set broker.rack "
            "there, leave them out by broker_ids, or ask for ignore_racks (--ignore-racks)"
        )


class PlacerError(PlacementError):
    """A placer raised an error, or its answer cannot be used; ``placer`` is its name."""

    def __init__(self, placer: str, problem: str) -> None:
        self.placer = placer
        super().__init__(f"placer {placer}: {problem}")


def listed(broker_ids: Iterable[int]) -> str:
    """``broker 3`` or ``brokers 1, 2, 3``, for messages."""
    ids = sorted(broker_ids)
    return f"broker{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}"


# ---- Why the racks of brokers cannot be had.


class LocatorError(RackwardError):
    """A rack locator failed, or its answer cannot be used; ``locator`` is its name."""

    def __init__(self, locator: str, problem: str) -> None:
        self.locator = locator
        super().__init__(f"rack locator {locator}: {problem}")


class RackTextError(RackwardError, ValueError):
    """A text does not say the racks of brokers in the format that it should have."""
