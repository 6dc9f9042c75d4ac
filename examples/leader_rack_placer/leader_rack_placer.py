"""A placer that keeps the preferred leaders in chosen racks, for example near the producers.

    rackward topics create orders -p 12 -r 3 \\
        --placement leaders-in --placement-properties racks=a+b

It lets the rack-alternating placer choose the brokers, and moves the first replica that is in one
of the racks to the front. Replicas that a partition has already keep their order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from placement_core import ClusterView, InvalidOptionError, PlacementSpec
from placement_core.placers import PlacementError, RackAlternatingPlacer, ReplicaLists
from placement_core.plugins import read_properties


@dataclass(frozen=True, slots=True)
class LeaderRackPlacer:
    """Places rack-alternating, with leaders in ``racks``."""

    racks: frozenset[str]
    inner: RackAlternatingPlacer = field(default_factory=RackAlternatingPlacer)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LeaderRackPlacer:
        """Construct from ``racks=A+B`` and, optionally, ``seed=N``. Raises InvalidOptionError."""
        values = read_properties("leaders-in", properties, racks=_parse_names, seed=int)
        if not values.get("racks"):
            raise InvalidOptionError("leaders-in needs the property racks: write racks=A+B")
        return cls(values.pop("racks"), RackAlternatingPlacer(**values))

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists | None:
        """Return one replica list per partition; None, which is the simple placer, without racks.

        Raises PlacementError if a new partition has no replica in the racks.
        """
        racks = view.racks()
        if spec.ignore_racks or not any(racks.values()):
            return None
        rows = list(self.inner.place(spec, view, broker_ids))
        for index, row in enumerate(rows):
            if not spec.present_replicas(index):
                leader = next((broker for broker in row if racks[broker] in self.racks), None)
                if leader is None:
                    raise PlacementError(
                        f"partition {spec.first_partition + index} has no replica in the racks "
                        f"{', '.join(sorted(self.racks))}: add replicas, or name more racks"
                    )
                rows[index] = (leader, *(broker for broker in row if broker != leader))
        return tuple(rows)


def _parse_names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split("+") if name.strip())
