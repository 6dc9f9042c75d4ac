"""A price table for racks such as /dc1/room2: a price between data centres, another between rooms.

    rackward traffic run snapshots tables \\
        --prices contract --prices-properties data_centres=0.08,rooms=0.01,discount=0.25
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement_core import InvalidOptionError
from placement_core.plugins import read_properties
from rack_traffic.prices import PriceRule, PriceTable


@dataclass(frozen=True, slots=True)
class ContractPrices:
    """Prices per GB, both directions together, less ``discount`` (0.25 is a quarter)."""

    data_centres: float
    rooms: float
    discount: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.discount <= 1:
            raise InvalidOptionError(f"discount is {self.discount}: give a share from 0 to 1")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ContractPrices:
        """Construct from the text of ``--prices-properties``. Raises InvalidOptionError."""
        values = read_properties(
            "contract", properties, data_centres=float, rooms=float, discount=float
        )
        if missing := {"data_centres", "rooms"} - values.keys():
            raise InvalidOptionError(f"contract needs the properties {', '.join(sorted(missing))}")
        return cls(**values)

    def price_table(self) -> PriceTable:
        """Return a rule for each level that is crossed; level 1 is the data centre."""
        return PriceTable(
            (
                PriceRule(self.data_centres * (1 - self.discount), level=1),
                PriceRule(self.rooms * (1 - self.discount), level=2),
            )
        )
