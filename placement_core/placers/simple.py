"""Kafka's placement without racks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from placement_core.cluster import ClusterView
from placement_core.placement_spec import PlacementSpec, ReplicaLists
from placement_core.placers.alternation import alternation
from placement_core.placers.candidates import candidates
from placement_core.placers.start import checked_start, new_seed, start_and_shift
from placement_core.plugins import read_properties


@dataclass(frozen=True, slots=True)
class SimplePlacer:
    """Leaders go round the brokers in order of their ids, followers after their leader.

    Every round of leaders sets the followers one broker further. Five brokers, RF 3, start
    and shift 0: 012 123 234 340 401, then 023 134 240 301 412. Racks play no part.

    ``start_index`` is the place of partition 0's leader, ``shift`` what its followers are set
    off by (each 0 where only the other is given). With neither, partitions added to a topic
    continue what its others began, and a new topic begins where ``seed`` says.
    """

    start_index: int | None = None
    shift: int | None = None
    seed: int = field(default_factory=new_seed)

    def __post_init__(self) -> None:
        checked_start("start_index", self.start_index)
        checked_start("shift", self.shift)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> SimplePlacer:
        """From ``start_index``, ``shift`` and ``seed``."""
        given = read_properties("simple", properties, start_index=int, shift=int, seed=int)
        return cls(**given)

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists:
        """See ReplicaPlacer. Raises PlacementError where the brokers are too few."""
        ring = alternation(candidates(replace(spec, ignore_racks=True), view, broker_ids))
        begin = start_and_shift(ring, spec, view, self.start_index, self.shift, self.seed)
        return tuple(ring.rows(spec, *begin))
