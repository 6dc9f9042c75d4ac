"""Brokers in a row in which neighbours stand in different racks, and the walk along it.

The rule is KIP-36's. Leaders go round the row. A partition's followers are looked for from
the broker after the leader on, ``shift`` times the number of racks further, where the shift
grows by one with every round of leaders, so that one leader does not always have the same
followers. The walk passes over a broker whose rack has a replica of the partition while
there is a rack that has none. With one rack for all this is Kafka's rule for no racks.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest

from placement_core.cluster import ClusterView
from placement_core.errors import InvalidOptionError
from placement_core.placers.spec import Candidates, PlacementSpec, ReplicaLists, candidates
from placement_core.plugins import read_properties


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


# ---- Where a rotation begins: as told, as the topic's other partitions did, or as a seed says.

SAMPLE = 24
"""How many partitions are compared to find the shift that a topic was laid out with."""


def new_seed() -> int:
    """A seed that nobody has chosen. It stays with its placer, so that a plan can be repeated."""
    return secrets.randbelow(1 << 32)


def seeded(seed: int, spec: PlacementSpec, *purpose: object) -> random.Random:
    """A generator of its own for each topic and purpose, the same on every Python."""
    return random.Random(repr((seed, spec.topic, *purpose)))


def checked_start(name: str, value: int | None) -> None:
    """Raises InvalidOptionError where an index is given and is not a whole number from 0 on."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise InvalidOptionError(f"{name} is {value!r}: give a whole number, 0 or more")


def known_rows(spec: PlacementSpec, view: ClusterView) -> dict[int, tuple[int, ...]]:
    """The replica lists that the topic has before the placement, by partition."""
    target = range(spec.first_partition, spec.first_partition + spec.partitions)
    rows = {
        partition: tuple(row)
        for (topic, partition), row in view.replicas.items()
        if topic == spec.topic and partition not in target and row
    }
    rows.update({target[i]: row for i, row in enumerate(spec.present) if row})
    return dict(sorted(rows.items()))


def start_and_shift(
    ring: Alternation,
    spec: PlacementSpec,
    view: ClusterView,
    start_index: int | None,
    shift: int | None,
    seed: int,
) -> tuple[int, int]:
    """The start index and the shift of partition 0.

    Where either is given, the other is 0 unless it is given too. Where neither is, the
    topic's own partitions say where it began; without any, the seed does.
    """
    if start_index is not None or shift is not None:
        return start_index or 0, shift or 0
    known = known_rows(spec, view)
    start = _start_of(ring, known)
    if start is not None:
        return start, _shift_of(ring, known, start)
    draw = seeded(seed, spec)
    return draw.randrange(len(ring.order)), draw.randrange(len(ring.order))


def _start_of(ring: Alternation, known: Mapping[int, tuple[int, ...]]) -> int | None:
    """The start index that most leaders agree with: some may have been moved since."""
    place = {broker: index for index, broker in enumerate(ring.order)}
    votes = Counter(
        (place[row[0]] - partition) % len(place)
        for partition, row in known.items()
        if row[0] in place
    )
    return votes.most_common(1)[0][0] if votes else None


def _shift_of(ring: Alternation, known: Mapping[int, tuple[int, ...]], start: int) -> int:
    """The shift with which the rule comes closest to the first lists with followers."""
    sample = [(partition, row) for partition, row in known.items() if len(row) > 1][:SAMPLE]

    def agreeing(shift: int) -> int:
        return sum(
            ring.rows(PlacementSpec(1, len(row), first_partition=partition), start, shift) == [row]
            for partition, row in sample
            if len(row) <= len(ring.order)
        )

    return max(range(max(len(ring.order) - 1, 1)), key=agreeing)


# ---- Kafka's placement without racks.


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


# ---- Kafka's rack-aware placement, KIP-36.


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
