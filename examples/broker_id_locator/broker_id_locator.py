"""A rack locator for clusters whose broker ids contain the rack: 101 and 102 are in rack-1.

    rackward topics create orders -p 12 -r 3 \\
        --rack-locator broker-id --rack-locator-properties divisor=100,prefix=rack-
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement_core import ClusterView, InvalidOptionError
from placement_core.plugins import read_properties


@dataclass(frozen=True, slots=True)
class BrokerIdLocator:
    """Returns ``prefix`` and the broker id divided by ``divisor``, rounded down."""

    divisor: int = 100
    prefix: str = "rack-"

    def __post_init__(self) -> None:
        if self.divisor < 1:
            raise InvalidOptionError(f"divisor is {self.divisor}: give a number of at least 1")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerIdLocator:
        """Construct from the text of ``--rack-locator-properties``. Raises InvalidOptionError."""
        return cls(**read_properties("broker-id", properties, divisor=int, prefix=str))

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:
        """Return the rack of every broker of the view."""
        return {broker.id: f"{self.prefix}{broker.id // self.divisor}" for broker in view.brokers}
