"""Placement over racks with levels, KIP-879."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice

from placement_core.cluster import ClusterView
from placement_core.placement_spec import PlacementSpec, ReplicaLists
from placement_core.placers.candidates import candidates
from placement_core.placers.rack_rings import Draw, deal
from placement_core.placers.rack_tree import RackNode, rack_tree
from placement_core.placers.simple import SimplePlacer
from placement_core.placers.start import known_rows, new_seed, seeded
from placement_core.plugins import read_properties


@dataclass(frozen=True, slots=True)
class MultiLevelPlacer:
    """Each partition's replicas spread over the widest level first, then within each part.

    With racks such as /dc1/r1, three data centres of two racks and RF 3 a partition has a
    replica in each data centre, and the racks of each get every other one; with RF 5 two data
    centres have a replica in both of their racks. A ring at each node says who is next, from
    a start that ``seed`` draws; see rack_rings for the rule and for uneven trees.

    Leaders go round first and followers after them. So every broker leads as often as any
    other (once in as many partitions as there are brokers), a tree's unevenness notwithstanding,
    and what leaders got counts when followers are handed out.

    Partitions added to a topic, and replicas added to partitions, go where the rings stopped:
    what the topic has is counted as served.

    Where it departs from the proposal: there a partition goes on from the replica before it, so
    that with as many replicas as data centres one of these would lead everything; and a room
    with one broker has as many turns as one with nine.

    With no racks at all this is SimplePlacer. Where some brokers lack a rack it raises
    MissingRacksError, unless the spec says to ignore racks.
    """

    seed: int = field(default_factory=new_seed)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> MultiLevelPlacer:
        """From ``seed``."""
        return cls(**read_properties("multi-level", properties, seed=int))

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists:
        """See ReplicaPlacer. Raises PlacementError and MissingRacksError."""
        among = candidates(spec, view, broker_ids)
        if not among.racks:
            return SimplePlacer(seed=self.seed).place(spec, view, broker_ids)
        inside = {broker: among.racks[broker] for broker in among.ids}
        tree = rack_tree(inside, {b: r for b, r in among.racks.items() if b not in inside})
        present = tuple(spec.row(index) for index in range(spec.partitions))
        known = known_rows(spec, view)
        leads = Counter(row[0] for row in known.values())
        led = _grown(tree, present, 1, leads, self._draw(spec, "leaders"))
        served = Counter(broker for row in known.values() for broker in row)
        served.update(row[0] for row, before in zip(led, present, strict=True) if not before)
        return _grown(tree, led, spec.replication_factor, served, self._draw(spec, "followers"))

    def _draw(self, spec: PlacementSpec, purpose: str) -> Draw:
        def draw(node: RackNode) -> random.Random:
            return seeded(self.seed, spec, purpose, node.path)

        return draw


def _grown(
    tree: RackNode, rows: ReplicaLists, least: int, served: Counter[int], draw: Draw
) -> ReplicaLists:
    """The rows, each with ``least`` replicas or as many more as it has."""
    short = [index for index, row in enumerate(rows) if len(row) < least]
    wants = [least - len(rows[index]) for index in short]
    placed = tree.child_of.keys() | tree.outside.keys()
    held = [tuple(filter(placed.__contains__, rows[index])) for index in short]
    dealt = iter(deal(tree, wants, held, served, draw))
    grown = list(rows)
    for index, wanted in zip(short, wants, strict=True):
        grown[index] += tuple(islice(dealt, wanted))
    return tuple(grown)
