"""Racks written down beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement_core.cluster import ClusterView
from placement_core.locators.text import broker_id, checked_racks


@dataclass(frozen=True, slots=True)
class StaticLocator:
    """A mapping of broker id to rack, as given."""

    mapping: Mapping[int, str]

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> StaticLocator:
        """From ``0=rack1,1=rack2,...``: ids as keys. Raises RackTextError."""
        return cls(checked_racks((broker_id(key), rack) for key, rack in properties.items()))

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:  # noqa: ARG002
        """See RackLocator."""
        return dict(self.mapping)
