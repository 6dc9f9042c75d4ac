"""A consumer group as numpy arrays, and an assignment in arrays as a plan.

Members are numbered in order of their ids and topics in order of their names, so that nothing
that is computed from the arrays depends on the order of the input. The partitions of all topics
form one row: the partitions of topic t are the numbers ``base[t]`` to ``base[t + 1] - 1``. An
assignment is an array with a member's number per partition.

Whatever members claim, and whatever racks are called, is encoded as far as it makes sense and
ignored otherwise: a group must not fail to rebalance because of one member.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from assignors.model import LeaderRacks, Member, Plan, WeightSource, resolve_weights
from assignors.partition_arrays import UNASSIGNED, AssignedPartitions, Claims
from placement_core.errors import InvalidGroupError
from placement_core.flow import CostArray, IntArray, as_int64
from placement_core.racks import RackPath, levels_crossed, parse_rack


@dataclass(frozen=True, slots=True, eq=False)
class MemberColumns(Sequence[Member]):
    """Members as columns. A member is made when it is looked at.

    ids, instance_ids, racks
        Per member, as in :class:`Member`.
    topic_sets, topic_set
        Distinct sets of topics, and the index of each member's among them.
    generations
        Per member; -1 if unknown or impossible.
    claims
        What all members claim to own.
    member
        Returns a member, given its index.
    """

    ids: Sequence[str]
    instance_ids: Sequence[str | None]
    racks: Sequence[str | None]
    topic_sets: Sequence[frozenset[str]]
    topic_set: IntArray
    generations: IntArray
    claims: Claims
    member: Callable[[int], Member]

    @classmethod
    def of(cls, members: Iterable[Member]) -> MemberColumns:
        """Return ``members`` as columns."""
        rows = tuple(members)
        sets: dict[frozenset[str], int] = {}
        numbers = [
            sets.setdefault(
                row.topics if isinstance(row.topics, frozenset) else frozenset(row.topics),
                len(sets),
            )
            for row in rows
        ]
        return cls(
            ids=[row.id for row in rows],
            instance_ids=[row.instance_id for row in rows],
            racks=[row.rack for row in rows],
            topic_sets=list(sets),
            topic_set=np.array(numbers, np.int64),
            generations=np.array([_generation(row) for row in rows], np.int64),
            claims=Claims.of([row.owned for row in rows]),
            member=rows.__getitem__,
        )

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Member: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Member]: ...
    def __getitem__(self, index: int | slice) -> Member | Sequence[Member]:
        if isinstance(index, slice):
            return [self.member(each) for each in range(*index.indices(len(self)))]
        return self.member(range(len(self))[index])

    def sorted_by_id(self) -> MemberColumns:
        """Return the members sorted. Raises InvalidGroupError if two have the same id."""
        ids, member = self.ids, self.member
        sorted_ids = sorted(ids)
        if len(set(ids)) < len(ids):
            twice = next(one for one, other in pairwise(sorted_ids) if one == other)
            raise InvalidGroupError(
                f"two members have the id {twice!r}: give each member an id of its own"
            )
        if sorted_ids == ids:
            return self
        order = sorted(range(len(ids)), key=ids.__getitem__)
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        claims = self.claims
        return MemberColumns(
            ids=sorted_ids,
            instance_ids=[self.instance_ids[m] for m in order],
            racks=[self.racks[m] for m in order],
            topic_sets=self.topic_sets,
            topic_set=self.topic_set[order],
            generations=self.generations[order],
            claims=replace(claims, member=position[claims.member]),
            member=lambda index: member(order[index]),
        )


def _generation(member: Member) -> int:
    """Return the member's generation, -1 if it cannot be one."""
    generation = member.generation
    if isinstance(generation, int) and 0 <= generation < 1 << 62:
        return generation
    return -1


@dataclass(frozen=True, slots=True)
class EncodedGroup:
    """A consumer group and the partitions that it consumes.

    members, topics
        Sorted by id and by name. Only topics that have a subscriber and known partitions.
    base
        Per topic, the number of its partition 0; one entry more for the end.
    subscription
        Per member, the number of its set of topics. Members with equal sets share a number.
    subscribed
        ``[topic, subscription]``: whether the set contains the topic.
    leader_rack, member_rack
        Per partition and per member, a row and a column of ``crossed``. 0: the rack is unknown.
    crossed
        ``[leader rack, member rack]``: how many of the ``depth`` levels lie between them. Row 0
        is 0 everywhere: a partition whose leader's rack is unknown is never off-rack.
    crossing_rank
        ``crossed`` with its distinct numbers numbered from 0. Levels that are only ever crossed
        together share a rank, so the ranks are few even where the levels are many.
    depth
        The number of levels of the deepest leader's rack, at least 1.
    """

    members: MemberColumns
    topics: tuple[str, ...]
    base: IntArray
    subscription: IntArray
    subscribed: NDArray[np.bool_]
    leader_rack: IntArray
    member_rack: IntArray
    crossed: IntArray
    crossing_rank: IntArray
    depth: int

    @property
    def sizes(self) -> IntArray:
        """The number of partitions per topic."""
        return self.base[1:] - self.base[:-1]

    @property
    def topic_of(self) -> IntArray:
        """The topic of each partition."""
        return np.repeat(np.arange(len(self.topics)), self.sizes)

    @property
    def ranks(self) -> int:
        """The number of ranks above 0, at least 1."""
        return max(1, int(self.crossing_rank.max(initial=0)))

    def levels_crossed(self, assigned: IntArray) -> IntArray:
        """Return how many levels each partition is read across.

        0 if it is local, unassigned, or its leader's rack is unknown.
        """
        crossed = self.crossed[self.leader_rack, self.member_rack[assigned]]
        return np.where(assigned == UNASSIGNED, 0, crossed)

    def crossings(self, assigned: IntArray) -> IntArray:
        """Return how many partitions are read across each level.

        Widest level first; the last entry is the number of off-rack partitions.
        """
        count = np.bincount(self.levels_crossed(assigned), minlength=self.depth + 1)
        # Level j from the top is crossed by what crosses at least depth - j + 1 levels from below.
        return count[:0:-1].cumsum()

    def crossing_weights(self, assigned: IntArray, weights: TrafficWeights) -> list[int]:
        """Return how much weight is read across each level, exactly, widest level first."""
        crossed = self.levels_crossed(assigned)
        return [weights.total(crossed >= level) for level in range(self.depth, 0, -1)]


def encode_group(members: Iterable[Member], leader_racks: LeaderRacks) -> EncodedGroup:
    """Number members, topics, partitions, subscriptions and racks.

    Racks are compared at the depth of the leaders' racks: the levels of a member's rack below
    that are ignored, as no leader can match them.

    Raises InvalidGroupError if two members have the same id.
    """
    columns = members if isinstance(members, MemberColumns) else MemberColumns.of(members)
    columns = columns.sorted_by_id()
    sets, subscription = _encode_subscriptions(columns, frozenset(leader_racks))
    topics = tuple(sorted(frozenset().union(*sets)))
    topic_index = {topic: t for t, topic in enumerate(topics)}
    subscribed = np.zeros((len(topics), len(sets)), bool)
    rows = np.fromiter(map(topic_index.__getitem__, chain.from_iterable(sets)), np.int64)
    subscribed[rows, np.repeat(np.arange(len(sets)), list(map(len, sets)))] = True
    leaders = [leader_racks[topic] for topic in topics]
    leader_paths, leader_rack = _encode_racks(leaders)
    depth = max((len(path) for path in leader_paths if path), default=1)
    member_paths, member_rack = _encode_racks([columns.racks], depth)
    crossed = np.array(
        [
            [levels_crossed(leader, member, depth) if leader else 0 for member in member_paths]
            for leader in leader_paths
        ],
        np.int64,
    ).reshape(len(leader_paths), len(member_paths))
    return EncodedGroup(
        members=columns,
        topics=topics,
        base=np.array([0, *accumulate(map(len, leaders))]),
        subscription=subscription,
        subscribed=subscribed,
        leader_rack=leader_rack,
        member_rack=member_rack,
        crossed=crossed,
        crossing_rank=np.unique(crossed).searchsorted(crossed),
        depth=depth,
    )


def _encode_subscriptions(
    members: MemberColumns, existing: frozenset[str]
) -> tuple[list[frozenset[str]], IntArray]:
    """Return the distinct sets of existing topics, and the number of each member's set."""
    sets: dict[frozenset[str], int] = {}
    number = np.zeros(len(members.topic_sets), np.int64)
    for at in dict.fromkeys(members.topic_set.tolist()):
        number[at] = sets.setdefault(members.topic_sets[at] & existing, len(sets))
    return list(sets), number[members.topic_set]


class _RackNumbers(dict[Hashable, int]):
    """Rack id to number, in order of appearance; ids with the same path share a number."""

    def __init__(self, depth: int | None) -> None:
        super().__init__()
        self.paths: dict[RackPath | None, int] = {None: 0}
        self._depth = depth

    def __missing__(self, rack: Hashable) -> int:
        path = parse_rack(rack)
        number = self.paths.setdefault(path and path[: self._depth], len(self.paths))
        self[rack] = number
        return number


def _encode_racks(
    rows: Sequence[Sequence[str | None]], depth: int | None = None
) -> tuple[list[RackPath | None], IntArray]:
    """Return the paths of the racks in ``rows``, cut to ``depth`` levels, and each rack's number.

    Path 0 is None, the unknown rack; the others are sorted.
    """
    numbers = _RackNumbers(depth)
    try:
        number = _number(rows, numbers)
    except TypeError:
        # A rack that is not hashable, such as a list, is unknown.
        strings = [[rack if isinstance(rack, str) else None for rack in row] for row in rows]
        number = _number(strings, numbers)
    known = sorted(path for path in numbers.paths if path is not None)
    sorted_number = np.zeros(len(numbers.paths), np.int64)
    for at, path in enumerate(known, start=1):
        sorted_number[numbers.paths[path]] = at
    return [None, *known], sorted_number[number]


def _number(rows: Sequence[Sequence[str | None]], numbers: _RackNumbers) -> IntArray:
    """Return the number of each rack. Raises TypeError if a rack is not hashable."""
    number = numbers.__getitem__
    try:
        # Numbers up to 255 go through bytes, in half the time of an array of integers.
        data = b"".join([bytes(map(number, row)) for row in rows])
    except ValueError:
        return np.fromiter(map(number, chain.from_iterable(rows)), np.int64)
    return np.frombuffer(data, np.uint8).astype(np.int64)


def topic_classes(group: EncodedGroup) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return the class of each topic, and ``subscribed`` as ``[class, subscription]``.

    Topics with the same subscribers are one class.
    """
    classes: dict[bytes, int] = {}
    packed = (row.tobytes() for row in np.packbits(group.subscribed, axis=1))
    class_of = np.array([classes.setdefault(row, len(classes)) for row in packed], np.int64)
    first = np.empty(len(classes), np.int64)
    first[class_of[::-1]] = np.arange(len(class_of))[::-1]
    return class_of, group.subscribed[first]


# ---- Current owners, from the members' claims.


def current_owners(group: EncodedGroup) -> IntArray:
    """Return the member that owns each partition, or UNASSIGNED.

    If several members claim a partition, the claim of the highest generation counts; if two
    claims share that generation, the partition has no owner. Nor has it if its owner does not
    subscribe to the topic. Claims on partitions that do not exist are ignored.
    """
    return _owners(group, group.members.claims, group.members.generations)


def encode_assignment(
    group: EncodedGroup, assigned: Mapping[str, Mapping[str, Sequence[int]]]
) -> IntArray:
    """Return the member that each partition is assigned to, or UNASSIGNED.

    ``assigned`` is member id to topic to partitions. What several members have, or a member that
    does not subscribe to it, counts as unassigned.
    """
    ids = group.members.ids
    claims = Claims.of([assigned.get(member_id, {}) for member_id in ids])
    return _owners(group, claims, np.zeros(len(ids), np.int64))


def _owners(group: EncodedGroup, claims: Claims, generations: IntArray) -> IntArray:
    owner: IntArray = np.full(int(group.base[-1]), UNASSIGNED, np.int64)
    claims, partition = claims.locate(group.topics, group.base)
    if len(partition) and np.bincount(partition).max() > 1:
        valid = _resolve_claims(generations[claims.member], partition, claims.member)
        claims, partition = claims.where(valid), partition[valid]
    subscribed = group.subscribed[claims.topic, group.subscription[claims.member]]
    owner[partition[subscribed]] = claims.member[subscribed]
    return owner


def _resolve_claims(
    generation: IntArray, partition: IntArray, claimant: IntArray
) -> NDArray[np.bool_]:
    """Return whether each claim is valid: one, or none, per partition."""
    order = np.lexsort((claimant, -generation, partition))
    repeated = np.zeros(len(order), bool)
    repeated[1:] = (np.diff(partition[order]) == 0) & (np.diff(claimant[order]) == 0)
    order = order[~repeated]
    same_partition = np.diff(partition[order]) == 0
    same_generation = np.diff(generation[order]) == 0
    latest = np.append(True, ~same_partition)
    contested = np.append(same_partition & same_generation, False)
    valid = np.zeros(len(partition), bool)
    valid[order[latest & ~contested]] = True
    return valid


# ---- Traffic weights as integers.

PRECISIONS = ((1_000, 53), (10_000, 10))
"""A number of partitions, and how many significant bits the weights in groups of up to that many
have. With 53, weights are exact; with 10, the error of each is at most 0.1 %."""

COARSEST_PRECISION = 7
"""The significant bits of weights in larger groups: the error of each is at most 0.8 %."""

GUESS_PRECISION = 10
"""The significant bits of the mean that replaces missing weights."""


@dataclass(frozen=True, slots=True, eq=False)
class TrafficWeights:
    """The traffic of each partition, as integers of which no unit is lost.

    ``units`` has the distinct weights, heaviest first; ``index`` is each partition's among them.
    """

    index: IntArray
    units: CostArray

    @property
    def of_partition(self) -> CostArray:
        """The weight of each partition."""
        weight: CostArray = self.units[self.index]
        return weight

    def total(self, partitions: NDArray[np.bool_]) -> int:
        """Return the exact weight of the partitions that are True."""
        count = np.bincount(self.index[partitions], minlength=len(self.units))
        return int((count.astype(object) * self.units).sum())


def traffic_weights(group: EncodedGroup, weights: WeightSource | None) -> TrafficWeights:
    """Return each partition's weight; 1 for all without weights.

    A weight that is missing, negative, infinite or not a number counts as the mean of the others.
    Even a partition without traffic has a weight, below that of all others, so that it is local
    where that has no cost. Raises what ``weights`` raises if it is a function.
    """
    weight = np.full(int(group.base[-1]), np.nan)
    resolved = resolve_weights(weights, group.topics) or {}
    for topic, row in resolved.items():
        t = bisect_left(group.topics, topic)
        of_topic = weight[group.base[t] : group.base[t + 1]]
        of_topic[: len(row)] = row[: len(of_topic)]
    return round_weights(weight)


def round_weights(weight: NDArray[np.float64]) -> TrafficWeights:
    """Return weights as integers, rounded in large groups; see `traffic_weights`."""
    known = np.isfinite(weight) & (weight >= 0)
    heaviest = weight[known].max(initial=0.0)
    if heaviest <= 0:
        return TrafficWeights(np.zeros(len(weight), np.int64), np.ones(1, np.int64))
    mean = math.fsum(weight[known] / heaviest) / np.count_nonzero(known) * heaviest
    weight = np.where(known, weight, _round(np.array([mean]), GUESS_PRECISION))
    bits = next(
        (bits for partitions, bits in PRECISIONS if len(weight) <= partitions), COARSEST_PRECISION
    )
    distinct, index, counts = np.unique(
        -_round(weight, bits), return_inverse=True, return_counts=True
    )
    lowest = np.frexp(distinct[distinct < 0])[1].min()
    mantissa, exponent = np.frexp(-distinct)
    shift = np.maximum(exponent - lowest, 0)
    units = [int(m * 2.0**53) << e for m, e in zip(mantissa, shift.tolist(), strict=True)]
    divisor = math.gcd(*units)
    units = [each // divisor for each in units]
    if not units[-1]:
        # Partitions without traffic: in small groups, all of them weigh less than one unit.
        scale = min(int(counts[-1]), 1000) + 1
        units = [each * scale for each in units[:-1]] + [1]
    return TrafficWeights(index, as_int64(np.array(units, object)))


def _round(weight: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Return ``weight`` with so many significant bits."""
    mantissa, exponent = np.frexp(weight)
    rounded: NDArray[np.float64] = np.ldexp(np.rint(mantissa * 2.0**bits), exponent - bits)
    return np.minimum(rounded, np.finfo(np.float64).max)


# ---- From an assignment in arrays to a plan.


def decode_plan(
    group: EncodedGroup, assigned: IntArray, owner: IntArray, unproved: int = 0
) -> Plan:
    """Return the plan of an assignment in which every partition has a member.

    ``owner`` is the result of :func:`current_owners`. ``unproved`` is the number of off-rack
    partitions by which the solver's lower bound falls short of the plan.
    """
    ids = group.members.ids
    crossings = tuple(group.crossings(assigned).tolist())
    loads = np.bincount(assigned, minlength=len(ids)).tolist()
    return Plan(
        partitions=AssignedPartitions(ids, group.topics, group.base, assigned),
        off_rack=crossings[-1],
        crossings=crossings,
        optimum=max(0, crossings[-1] - unproved),
        moved=int(np.count_nonzero((owner != UNASSIGNED) & (owner != assigned))),
        loads=dict(zip(ids, loads, strict=True)),
    )
