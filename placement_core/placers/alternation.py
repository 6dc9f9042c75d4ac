"""Brokers in a row in which neighbours stand in different racks, and the walk along it.

The rule is KIP-36's. Leaders go round the row. A partition's followers are looked for from
the broker after the leader on, ``shift`` times the number of racks further, where the shift
grows by one with every round of leaders, so that one leader does not always have the same
followers. The walk passes over a broker whose rack has a replica of the partition while
there is a rack that has none. With one rack for all this is Kafka's rule for no racks.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from placement_core.placement_spec import PlacementSpec
from placement_core.placers.candidates import Candidates


@dataclass(frozen=True, slots=True)
class Alternation:
    """``order``: the candidates in their row. ``rack_of``: a number, from 0 to ``racks - 1``,
    for the rack of each live broker, as far as a candidate stands in that rack too."""

    order: tuple[int, ...]
    rack_of: Mapping[int, int]
    racks: int

    def leader(self, partition: int, start: int) -> int:
        """The place in the row of the partition's leader."""
        return (partition + start) % len(self.order)

    def rows(self, spec: PlacementSpec, start: int, shift: int) -> list[tuple[int, ...]]:
        """The replicas of each partition of ``spec``: the present ones, and then the rule's."""
        wanted, order = spec.replication_factor, self.order
        strides = self._strides()
        rows = []
        for index in range(spec.partitions):
            partition = spec.first_partition + index
            at = self.leader(partition, start)
            present = spec.row(index)
            row = list(present) or [order[at]]
            if len(present) > 1 and present[0] == order[at] and present[-1] in order:
                # The rule laid this list as far as it goes: walk on from its end.
                at = order.index(present[-1]) + 1
            else:
                # Lists that other rules laid get theirs from where the rule would have led, so
                # that the new replicas are spread even where the present leaders are not.
                at += 1 + self._offset(partition, shift)
            self._walk(row, wanted, at, strides)
            rows.append(tuple(row))
        return rows

    def _offset(self, partition: int, shift: int) -> int:
        size = len(self.order)
        return (shift + partition // size) * self.racks % max(size - 1, 1)

    def _walk(self, row: list[int], wanted: int, at: int, strides: Sequence[int]) -> None:
        """Fill ``row`` from place ``at`` on; there must be brokers enough."""
        order, rack_of = self.order, self.rack_of
        used = {rack_of[broker] for broker in row if broker in rack_of}
        while len(row) < wanted:
            at %= len(order)
            broker = order[at]
            rack = rack_of[broker]
            if rack in used and len(used) < self.racks:
                at += strides[at]
                continue
            if broker not in row:
                row.append(broker)
                used.add(rack)
            at += 1

    def _strides(self) -> list[int]:
        """For each place, how far on the next broker is that stands in another rack.

        A large rack fills the end of the row by itself: nobody wants to walk all along it for
        every partition.
        """
        racks = [self.rack_of[broker] for broker in self.order]
        strides = [1] * (2 * len(racks))
        for at in range(2 * len(racks) - 2, -1, -1):
            if racks[at % len(racks)] == racks[(at + 1) % len(racks)]:
                strides[at] = strides[at + 1] + 1
        return strides[: len(racks)]


def alternation(among: Candidates) -> Alternation:
    """The candidates with racks taken in turn, each in order of its name, brokers of their ids."""
    if not among.racks:
        return Alternation(among.ids, dict.fromkeys(among.ids, 0), 1)
    by_rack: dict[Hashable, list[int]] = {}
    for broker in sorted(among.ids, key=lambda broker: (among.racks[broker], broker)):
        by_rack.setdefault(among.racks[broker], []).append(broker)
    number = {rack: index for index, rack in enumerate(by_rack)}
    return Alternation(
        _in_turn(list(by_rack.values())),
        {broker: number[rack] for broker, rack in among.racks.items() if rack in number},
        len(by_rack),
    )


def _in_turn(groups: Sequence[Sequence[int]]) -> tuple[int, ...]:
    rounds = chain.from_iterable(zip_longest(*groups))
    return tuple(broker for broker in rounds if broker is not None)
