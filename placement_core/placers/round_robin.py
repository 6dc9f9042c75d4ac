"""Round-robin placement: Kafka's rule without racks, and the rack-alternating rule of KIP-36.

Goal. Leaders even over brokers; replicas of a partition in as many racks as there are; and not
always the same followers for a leader, so that the load of a failed broker is spread.

Algorithm.

1. The brokers are put in a row that takes one broker from each rack in turn, racks by name and
   brokers by id, so that neighbours stand in different racks. Without racks the row is by id.
2. Leaders go round the row: partition p is led by the broker at position ``p + start_index``.
3. Followers come from the brokers behind the leader in the row. The walk passes over a broker
   whose rack has a replica of the partition while another rack has none.
4. In each further round of leaders, the walk starts ``number of racks`` positions further on.
   ``shift`` is the number of such rounds that partition 0 begins with.

Worked example: racks 1: {0, 5}, 2: {3, 4}, 3: {1, 2} give the row 0 3 1 5 4 2. RF 3, start index
and shift 0::

    partitions 0 to 5     031  315  154  542  420  203
    partitions 6 to 11    042  320  103  531  415  254

Five brokers without racks, RF 3::

    partitions 0 to 4     012  123  234  340  401
    partitions 5 to 9     023  134  240  301  412

Racks 1: {0}, 2: {1, 2}, RF 2: 01, 10, 20. The walk from broker 1 passes over 2, whose rack leads.

Properties. With racks >= RF, no rack has two replicas of a partition; otherwise every rack has one.
With a multiple of the number of brokers as partitions, every broker leads equally many, and has
equally many replicas if racks are equal in size. In smaller racks, brokers get more replicas than
elsewhere if RF > 1: a rack of one broker as many as a larger rack.

Added partitions and replicas. Partitions added to a topic continue its rotation: start index and
shift are derived from the lists that it has. Replicas added to partitions are those that the rule
gives a topic created with the higher replication factor.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import ClassVar, Self

import numpy as np

from placement_core.cluster import ClusterView
from placement_core.flow import IntArray
from placement_core.placers.spec import (
    Candidates,
    PlacementSpec,
    ReplicaLists,
    candidates,
    require_int,
    to_replica_lists,
)
from placement_core.plugins import read_properties

MISSING = -1
"""The place of a replica that is not placed yet."""

NO_RACK = -1
"""Of brokers that hold replicas, and are in no rack of a candidate."""

SAMPLE = 24
"""The number of partitions that are compared to find the shift of a topic."""


def new_seed() -> int:
    """Return a random seed. A placer keeps the seed it is made with, so a plan can be repeated."""
    return secrets.randbelow(1 << 32)


@dataclass(frozen=True, slots=True)
class _RoundRobinPlacer:
    """The options and the procedure that both placers below share."""

    name: ClassVar[str]
    uses_racks: ClassVar[bool]

    start_index: int | None = None
    shift: int | None = None
    seed: int = field(default_factory=new_seed)

    def __post_init__(self) -> None:
        for name, value in (("start_index", self.start_index), ("shift", self.shift)):
            if value is not None:
                require_int(name, value, 0)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Construct from ``start_index``, ``shift`` and ``seed``. Raises InvalidOptionError."""
        return cls(**read_properties(cls.name, properties, start_index=int, shift=int, seed=int))

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists:
        """See ReplicaPlacer. Raises PlacementError, of which MissingRacksError is one."""
        if not self.uses_racks:
            spec = replace(spec, ignore_racks=True)
        rotation = RackRotation.of(candidates(spec, view, broker_ids))
        start, shift = self._start_and_shift(rotation, spec, view)
        return rotation.place(spec, start, shift)

    def _start_and_shift(
        self, rotation: RackRotation, spec: PlacementSpec, view: ClusterView
    ) -> tuple[int, int]:
        """Return the start index and the shift of partition 0.

        If one of the options is given, the other is 0 by default. Otherwise both are derived from
        the topic's own partitions or, for a new topic, drawn by the seed.
        """
        if self.start_index is not None or self.shift is not None:
            return self.start_index or 0, self.shift or 0
        rows = existing_rows(spec, view)
        start = rotation.most_likely_start(rows)
        if start is not None:
            return start, rotation.most_likely_shift(rows, start)
        rng = topic_rng(self.seed, spec)
        size = len(rotation.order)
        return rng.randrange(size), rng.randrange(size)


@dataclass(frozen=True, slots=True)
class SimplePlacer(_RoundRobinPlacer):
    """Kafka's placement without racks: leaders round the brokers by id, followers behind them.

    ``start_index`` is the position of partition 0's leader, ``shift`` the number of rounds that its
    followers are shifted by (each 0 if only the other is given). With neither, partitions added to
    a topic continue its rotation, and a new topic starts where ``seed`` decides.

    The rule and its worked table are in :mod:`placement_core.placers.round_robin`.
    """

    name: ClassVar[str] = "simple"
    uses_racks: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class RackAlternatingPlacer(_RoundRobinPlacer):
    """Kafka's rack-aware placement (KIP-36): replicas in as many racks as there are.

    A rack id is compared as a whole, paths too: MultiLevelPlacer is for racks with levels. If no
    broker has a rack, this is SimplePlacer. If only some brokers have one it raises
    MissingRacksError, unless the spec ignores racks.

    Differences to Kafka: the proposal lets a broker create topics automatically as if there were
    no racks if some brokers lack one; here that takes ``ignore_racks``. Today's controllers place
    by another rule if a request has no lists; given lists they accept any, so these are what a
    topic gets.

    ``start_index``, ``shift`` and ``seed`` are as for SimplePlacer. The rule and its worked table
    are in :mod:`placement_core.placers.round_robin`.
    """

    name: ClassVar[str] = "rack-alternating"
    uses_racks: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RackRotation:
    """The row of the candidates, and the walk along it.

    order
        The candidates in their row.
    rack_at
        The rack of each position.
    strides
        Per position, the distance to the next broker in another rack. A large rack fills the end of
        the row by itself, and a walk broker by broker would pass all of it for every partition.
    rack_of
        The rack, 0 to ``racks - 1``, of every live broker in a rack that has a candidate.
    """

    order: tuple[int, ...]
    rack_at: IntArray
    strides: IntArray
    rack_of: Mapping[int, int]
    racks: int

    @classmethod
    def of(cls, among: Candidates) -> RackRotation:
        """Return the row that takes one candidate from each rack in turn."""
        if not among.racks:
            order, rack_of, racks = among.ids, dict.fromkeys(among.ids, 0), 1
        else:
            by_rack: dict[Hashable, list[int]] = {}
            for broker in sorted(among.ids, key=lambda broker: (among.racks[broker], broker)):
                by_rack.setdefault(among.racks[broker], []).append(broker)
            number = {rack: index for index, rack in enumerate(by_rack)}
            in_turn = chain.from_iterable(zip_longest(*by_rack.values()))
            order = tuple(broker for broker in in_turn if broker is not None)
            rack_of = {b: number[rack] for b, rack in among.racks.items() if rack in number}
            racks = len(by_rack)
        rack_at = [rack_of[broker] for broker in order]
        return cls(order, np.array(rack_at), np.array(_strides(rack_at)), rack_of, racks)

    def place(self, spec: PlacementSpec, start: int, shift: int) -> ReplicaLists:
        """Return the replicas of each partition of ``spec``: the present ones, then the rule's."""
        size = len(self.order)
        partition = np.arange(spec.first_partition, spec.first_partition + spec.partitions)
        leader = self._leader_position(partition, start % size)
        # A list that another rule made gets its new replicas where the rule would place them, so
        # that these are even also if the present leaders are not.
        position = leader + 1 + self._follower_offset(partition, shift % max(size - 1, 1))
        rows = np.full((spec.replication_factor, spec.partitions), MISSING)
        rows[0] = leader
        number = {broker: at for at, broker in enumerate(self.order)}
        for index, present in enumerate(spec.present):
            if not present:
                continue
            row = [number.setdefault(broker, len(number)) for broker in present]
            rows[: len(row), index] = row
            if len(row) > 1 and row[0] == leader[index] and row[-1] < size:
                # The rule made this list: continue the walk from its last replica.
                position[index] = row[-1] + 1
        others = [self.rack_of.get(broker, NO_RACK) for broker in list(number)[size:]]
        self._walk(rows, position, np.append(self.rack_at, others).astype(np.int64))
        return to_replica_lists(rows, list(number))

    def most_likely_start(self, rows: Mapping[int, tuple[int, ...]]) -> int | None:
        """Return the start index that explains most leaders of ``rows`` (by partition).

        Some leaders may have been changed since. None if no leader is a candidate.
        """
        position = {broker: index for index, broker in enumerate(self.order)}
        votes = Counter(
            (position[row[0]] - partition) % len(position)
            for partition, row in rows.items()
            if row[0] in position
        )
        return votes.most_common(1)[0][0] if votes else None

    def most_likely_shift(self, rows: Mapping[int, tuple[int, ...]], start: int) -> int:
        """Return the lowest of the shifts that reproduce most of the first lists with followers."""
        position = {broker: index for index, broker in enumerate(self.order)}
        shifts = np.arange(max(len(self.order) - 1, 1))
        votes = np.zeros(len(shifts), np.int64)
        with_followers = [(partition, row) for partition, row in rows.items() if len(row) > 1]
        for partition, row in with_followers[:SAMPLE]:
            if not position.keys() >= set(row):
                continue
            partitions = np.full(len(shifts), partition)
            leader = self._leader_position(partitions, start)
            placed = np.full((len(row), len(shifts)), MISSING)
            placed[0] = leader
            self._walk(placed, leader + 1 + self._follower_offset(partitions, shifts), self.rack_at)
            expected = np.array([position[broker] for broker in row])
            votes += (placed == expected[:, None]).all(axis=0)
        return int(votes.argmax())

    def _leader_position(self, partition: IntArray, start: int) -> IntArray:
        return (partition + start) % len(self.order)

    def _follower_offset(self, partition: IntArray, shift: int | IntArray) -> IntArray:
        """Return the number of positions from behind the leader to the start of the walk."""
        size = len(self.order)
        offset: IntArray = (shift + partition // size) * self.racks % max(size - 1, 1)
        return offset

    def _walk(self, rows: IntArray, position: IntArray, rack_at: IntArray) -> None:
        """Fill what is MISSING in ``rows``, walking from a ``position`` per partition.

        ``rows[i]`` has the position of the i-th replica of every partition. Brokers that are no
        candidates have numbers behind the last position, and their racks in ``rack_at``. There must
        be enough candidates.
        """
        size, strides = len(self.order), self.strides
        for column, replicas in enumerate(rows):
            short = (replicas == MISSING).nonzero()[0]
            if not len(short):
                continue
            before = rows[:column, short]
            racks_before = rack_at[before]
            every_rack_used = _count_racks(racks_before) == self.racks
            at = position[short] % size
            walking = np.arange(len(short))
            while len(walking):
                here = at[walking]
                passed = (racks_before[:, walking] == rack_at[here]).any(axis=0)
                passed &= ~every_rack_used[walking]
                refused = passed | (before[:, walking] == here).any(axis=0)
                walking = walking[refused]
                at[walking] = (here + np.where(passed, strides[here], 1))[refused] % size
            replicas[short] = at
            position[short] = at + 1


def _count_racks(racks: IntArray) -> IntArray:
    """Return the number of distinct racks in each column of ``racks``, without NO_RACK."""
    in_order = np.sort(racks, axis=0)
    first = in_order != NO_RACK
    first[1:] &= in_order[1:] != in_order[:-1]
    count: IntArray = first.sum(axis=0)
    return count


def _strides(racks: Sequence[int]) -> list[int]:
    """Return per position of a ring the distance to the next position with another rack."""
    size = len(racks)
    strides = [1] * (2 * size)
    for position in range(2 * size - 2, -1, -1):
        if racks[position % size] == racks[(position + 1) % size]:
            strides[position] = strides[position + 1] + 1
    return strides[:size]


def topic_rng(seed: int, spec: PlacementSpec, *purpose: object) -> random.Random:
    """Return the random generator of a topic and purpose, the same on every Python version."""
    return random.Random(repr((seed, spec.topic, *purpose)))


def existing_rows(spec: PlacementSpec, view: ClusterView) -> dict[int, tuple[int, ...]]:
    """Return the replica lists that the topic has before the placement, by partition number."""
    placed = range(spec.first_partition, spec.first_partition + spec.partitions)
    rows = {
        partition: tuple(row)
        for (topic, partition), row in view.replicas.items()
        if topic == spec.topic and partition not in placed and row
    }
    rows.update({placed[i]: row for i, row in enumerate(spec.present) if row})
    return dict(sorted(rows.items()))
