"""Kafka's rack-aware placement, KIP-36."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from placement_core.cluster import ClusterView
from placement_core.placement_spec import PlacementSpec, ReplicaLists
from placement_core.placers.alternation import alternation
from placement_core.placers.candidates import candidates
from placement_core.placers.start import checked_start, new_seed, start_and_shift
from placement_core.plugins import read_properties


@dataclass(frozen=True, slots=True)
class RackAlternatingPlacer:
    """Each partition's replicas in as many racks as there are, leaders even over brokers.

    The brokers are put in a row that takes one from each rack in turn. With racks 1: {0, 5},
    2: {3, 4} and 3: {1, 2} that is 0 3 1 5 4 2. Leaders go round the row; followers come next
    in it, racks that have a replica passed over while one has none. Each further round sets
    the followers off by the number of racks. RF 3, start and shift 0:

        partitions 0 to 5     031  315  154  542  420  203
        partitions 6 to 11    042  320  103  531  415  254

    - racks >= RF: no rack has two replicas of a partition; otherwise every rack has one.
    - partitions a multiple of the brokers: as many leaders on every broker, and where the
      racks are equal in size as many replicas too. A broker that is alone in its rack gets
      more replicas than others.

    A rack id is compared as a whole, paths too: for levels there is MultiLevelPlacer. With no
    racks at all this is SimplePlacer. Where some brokers lack a rack it raises
    MissingRacksError, unless the spec says to ignore racks. (The proposal lets a broker create
    topics by itself as if there were no racks in that case: ask for ignore_racks there. The
    controllers of today's Kafka lay out topics by yet another rule when they are given no
    lists; given lists they take any, so these are what a topic gets.)

    ``start_index``, ``shift`` and ``seed`` are as for SimplePlacer.
    """

    start_index: int | None = None
    shift: int | None = None
    seed: int = field(default_factory=new_seed)

    def __post_init__(self) -> None:
        checked_start("start_index", self.start_index)
        checked_start("shift", self.shift)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> RackAlternatingPlacer:
        """From ``start_index``, ``shift`` and ``seed``."""
        given = read_properties(
            "rack-alternating", properties, start_index=int, shift=int, seed=int
        )
        return cls(**given)

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists:
        """See ReplicaPlacer. Raises PlacementError and MissingRacksError."""
        ring = alternation(candidates(spec, view, broker_ids))
        begin = start_and_shift(ring, spec, view, self.start_index, self.shift, self.seed)
        return tuple(ring.rows(spec, *begin))
