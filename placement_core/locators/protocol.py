"""What every rack locator is: one method that says where brokers stand now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from placement_core.cluster import ClusterView


@runtime_checkable
class RackLocator(Protocol):
    """Knows the racks of a cluster's brokers, from wherever they are written down."""

    def racks(self, view: ClusterView) -> Mapping[int, str | None]:
        """Broker id to rack, for every broker of ``view``; None for one that has no rack.

        Asked for each creation, and answered afresh: nothing is kept from call to call.
        Raises a RackwardError where the racks cannot be had.
        """
        ...
