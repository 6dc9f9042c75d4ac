"""Why a placement could not be made."""

from __future__ import annotations

from collections.abc import Iterable

from placement_core.errors import RackwardError


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
