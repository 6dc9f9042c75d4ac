"""Racks as the cluster's own metadata has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement_core.cluster import ClusterView
from placement_core.plugins import read_properties


@dataclass(frozen=True, slots=True)
class MetadataLocator:
    """``broker.rack`` of each broker: what the view says anyway. The default."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> MetadataLocator:
        """It has no properties."""
        read_properties("metadata", properties)
        return cls()

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:
        """See RackLocator. An empty rack counts as none."""
        return {broker.id: broker.rack or None for broker in view.brokers}
