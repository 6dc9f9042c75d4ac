"""A consumer group as numpy arrays, and an assignment in arrays as a plan.

Members are numbered in order of their ids and topics in order of their names, so that nothing
that is computed from the arrays depends on the order of the input. The partitions of all topics
form one row: the partitions of topic t are the numbers ``base[t]`` to ``base[t + 1] - 1``. An
assignment is an array with a member's number per partition.

Whatever members claim, and whatever racks are called, is encoded as far as it makes sense and
ignored otherwise: a group must not fail to rebalance because of one member.
"""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from assignors.model import LeaderRacks, Member, Plan, WeightSource, resolve_weights
from placement_core.errors import InvalidGroupError
from placement_core.flow import IntArray
from placement_core.racks import RackPath, levels_crossed, parse_rack

UNASSIGNED = -1
"""In an assignment: the partition has no member."""


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

    members: tuple[Member, ...]
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
        return np.diff(self.base)

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

    def crossings(self, assigned: IntArray, weight: IntArray | None = None) -> IntArray:
        """Return how many partitions, or how much weight, is read across each level.

        Widest level first; the last entry is the number of off-rack partitions.
        """
        count = np.bincount(self.levels_crossed(assigned), weight, self.depth + 1)
        # Level j from the top is crossed by what crosses at least depth - j + 1 levels from below.
        return np.cumsum(count[:0:-1]).astype(np.int64)


def encode_group(members: Iterable[Member], leader_racks: LeaderRacks) -> EncodedGroup:
    """Number members, topics, partitions, subscriptions and racks.

    Racks are compared at the depth of the leaders' racks: the levels of a member's rack below
    that are ignored, as no leader can match them.

    Raises InvalidGroupError if two members have the same id.
    """
    ordered = tuple(sorted(members, key=lambda member: member.id))
    for one, other in pairwise(ordered):
        if one.id == other.id:
            raise InvalidGroupError(
                f"two members have the id {one.id!r}: give each member an id of its own"
            )
    sets, subscription = _encode_subscriptions(ordered, frozenset(leader_racks))
    topics = tuple(sorted(frozenset().union(*sets)))
    topic_index = {topic: t for t, topic in enumerate(topics)}
    subscribed = np.zeros((len(topics), len(sets)), bool)
    rows = np.fromiter(map(topic_index.__getitem__, chain.from_iterable(sets)), np.int64)
    subscribed[rows, np.repeat(np.arange(len(sets)), list(map(len, sets)))] = True
    leaders = [leader_racks[topic] for topic in topics]
    leader_paths, leader_rack = _encode_racks(leaders)
    depth = max((len(path) for path in leader_paths if path), default=1)
    member_paths, member_rack = _encode_racks([[member.rack for member in ordered]], depth)
    crossed = np.array(
        [
            [levels_crossed(leader, member, depth) if leader else 0 for member in member_paths]
            for leader in leader_paths
        ],
        np.int64,
    ).reshape(len(leader_paths), len(member_paths))
    return EncodedGroup(
        members=ordered,
        topics=topics,
        base=np.concatenate(([0], np.cumsum(list(map(len, leaders)), dtype=np.int64))),
        subscription=subscription,
        subscribed=subscribed,
        leader_rack=leader_rack,
        member_rack=member_rack,
        crossed=crossed,
        crossing_rank=np.unique(crossed, return_inverse=True)[1].reshape(crossed.shape),
        depth=depth,
    )


def _encode_subscriptions(
    members: Sequence[Member], existing: frozenset[str]
) -> tuple[list[frozenset[str]], IntArray]:
    """Return the distinct sets of existing topics, and the number of each member's set."""
    sets: dict[frozenset[str], int] = {}
    number_of: dict[frozenset[str], int] = {}
    numbers = []
    for member in members:
        topics = member.topics if isinstance(member.topics, frozenset) else frozenset(member.topics)
        number = number_of.get(topics)
        if number is None:
            number = number_of[topics] = sets.setdefault(topics & existing, len(sets))
        numbers.append(number)
    return list(sets), np.array(numbers, np.int64)


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
    first = np.unique(class_of, return_index=True)[1]
    return class_of, group.subscribed[first]


# ---- Current owners, from the members' claims.


def current_owners(group: EncodedGroup) -> IntArray:
    """Return the member that owns each partition, or UNASSIGNED.

    If several members claim a partition, the claim of the highest generation counts; if two
    claims share that generation, the partition has no owner. Nor has it if its owner does not
    subscribe to the topic. Claims on partitions that do not exist are ignored.
    """
    owner: IntArray = np.full(int(group.base[-1]), UNASSIGNED, np.int64)
    topic, claimant, number = _read_claims(group)
    exists = (topic >= 0) & (number >= 0)
    exists[exists] = number[exists] < group.sizes[topic[exists]]
    topic, claimant, number = topic[exists], claimant[exists], number[exists]
    partition = group.base[topic] + number
    if len(partition) and np.bincount(partition).max() > 1:
        valid = _resolve_claims(group.members, partition, claimant)
        topic, claimant, partition = topic[valid], claimant[valid], partition[valid]
    subscribed = group.subscribed[topic, group.subscription[claimant]]
    owner[partition[subscribed]] = claimant[subscribed]
    return owner


def encode_assignment(
    group: EncodedGroup, assigned: Mapping[str, Mapping[str, Sequence[int]]]
) -> IntArray:
    """Return the member that each partition is assigned to, or UNASSIGNED.

    ``assigned`` is member id to topic to partitions. What several members have, or a member that
    does not subscribe to it, counts as unassigned.
    """
    members = tuple(
        replace(member, owned=assigned.get(member.id, {}), generation=0) for member in group.members
    )
    return current_owners(replace(group, members=members))


def _resolve_claims(members: Sequence[Member], partition: IntArray, claimant: IntArray) -> IntArray:
    """Return the indexes of the valid claims: one, or none, per partition."""
    generation_of = np.array([_generation(member) for member in members], np.int64)
    order = np.lexsort((claimant, -generation_of[claimant], partition))
    repeated = np.zeros(len(order), bool)
    repeated[1:] = (np.diff(partition[order]) == 0) & (np.diff(claimant[order]) == 0)
    order = order[~repeated]
    same_partition = np.diff(partition[order]) == 0
    same_generation = np.diff(generation_of[claimant[order]]) == 0
    latest = np.append(True, ~same_partition)
    contested = np.append(same_partition & same_generation, False)
    valid: IntArray = order[latest & ~contested]
    return valid


def _read_claims(group: EncodedGroup) -> tuple[IntArray, IntArray, IntArray]:
    """Return every claim: its topic (-1 if unknown), its member, its partition number."""
    names: list[str] = []
    lists: list[Sequence[int]] = []
    counts = []
    for member in group.members:
        names.extend(member.owned)
        lists.extend(member.owned.values())
        counts.append(len(member.owned))
    try:
        numbers, lengths = _concatenate(lists)
    except (TypeError, ValueError, OverflowError):
        numbers, lengths = _concatenate([_partition_numbers(claims) for claims in lists])
    topic_index = {topic: t for t, topic in enumerate(group.topics)}
    try:
        topic_of_list = np.fromiter(map(topic_index.__getitem__, names), np.int64, len(names))
    except KeyError:
        topic_of_list = np.array([topic_index.get(name, -1) for name in names], np.int64)
    member_of_list = np.repeat(np.arange(len(group.members)), np.array(counts, np.int64))
    return np.repeat(topic_of_list, lengths), np.repeat(member_of_list, lengths), numbers


def _concatenate(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Return all claims in one array, and the length of each list.

    Raises TypeError, ValueError or OverflowError if one of them is not an integer.
    """
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    numbers = np.array(list(chain.from_iterable(lists)) or (), None if lengths.any() else np.int64)
    if numbers.dtype != np.int64:
        raise TypeError("claims that are not integers")
    return numbers, lengths


def _partition_numbers(claims: object) -> list[int]:
    """Return those of ``claims`` that can be partition numbers."""
    if not isinstance(claims, Iterable):
        return []
    return [int(n) for n in claims if isinstance(n, int | np.integer) and 0 <= n < 1 << 31]


def _generation(member: Member) -> int:
    """Return the member's generation, -1 if it cannot be one."""
    generation = member.generation
    if isinstance(generation, int) and 0 <= generation < 1 << 62:
        return generation
    return -1


# ---- Traffic weights as small integers.

WEIGHT_STEPS = 100
"""The heaviest partition weighs this many steps. A plan is exact for weights in steps."""


def weight_steps(group: EncodedGroup, weights: WeightSource | None) -> IntArray:
    """Return each partition's weight, 1 to WEIGHT_STEPS; 1 for all without weights.

    A weight that is missing, negative, infinite or not a number counts as the mean of the
    others. Even a partition without traffic weighs one step, so that it is local where that has
    no cost. Raises what ``weights`` raises if it is a function.
    """
    resolved = resolve_weights(weights, group.topics) or {}
    weight = np.full(int(group.base[-1]), np.nan)
    for t, topic in enumerate(group.topics):
        row = resolved.get(topic, weight[:0])[: group.sizes[t]]
        weight[group.base[t] : group.base[t] + len(row)] = row
    return quantize_weights(weight)


def quantize_weights(weight: NDArray[np.float64]) -> IntArray:
    """Return weights as steps from 1 to WEIGHT_STEPS; see `weight_steps`."""
    known = np.isfinite(weight) & (weight >= 0)
    heaviest = weight[known].max(initial=0.0)
    if heaviest <= 0:
        return np.ones(len(weight), np.int64)
    share = weight[known] / heaviest
    steps = np.full(len(weight), share.mean() * WEIGHT_STEPS)
    steps[known] = share * WEIGHT_STEPS
    whole: IntArray = np.maximum(np.rint(steps), 1).astype(np.int64)
    return whole


# ---- From an assignment in arrays to a plan.


def decode_plan(
    group: EncodedGroup, assigned: IntArray, owner: IntArray, unproved: int = 0
) -> Plan:
    """Return the plan of an assignment in which every partition has a member.

    ``owner`` is the result of :func:`current_owners`. ``unproved`` is the number of off-rack
    partitions by which the solver's lower bound falls short of the plan.
    """
    crossings = tuple(group.crossings(assigned).tolist())
    loads = np.bincount(assigned, minlength=len(group.members)).tolist()
    with _garbage_collection_paused():
        partitions = _partitions_by_member(group, assigned)
    return Plan(
        partitions=partitions,
        off_rack=crossings[-1],
        crossings=crossings,
        optimum=max(0, crossings[-1] - unproved),
        moved=int(((owner != UNASSIGNED) & (owner != assigned)).sum()),
        loads={member.id: load for member, load in zip(group.members, loads, strict=True)},
    )


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Pause the cycle collector while the many small lists of a plan are created.

    None of them can be garbage yet, and scanning them again and again would take up to a quarter
    of the time of the whole assignment.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _partitions_by_member(
    group: EncodedGroup, assigned: IntArray
) -> dict[str, dict[str, list[int]]]:
    """Return member id to topic to sorted partition numbers."""
    ids = [member.id for member in group.members]
    if not len(assigned):
        return {member_id: {} for member_id in ids}
    order = stable_order(assigned)
    member, topic = assigned[order], group.topic_of[order]
    changes = (np.diff(member) != 0) | (np.diff(topic) != 0)
    starts = np.flatnonzero(np.append(True, changes))
    lists = _split(order - group.base[topic], starts)
    topics = np.array(group.topics, object)[topic[starts]].tolist()
    bounds = np.searchsorted(member[starts], np.arange(len(ids) + 1)).tolist()
    return {
        # strict=True would take a third of the time; both slices have the same bounds.
        member_id: dict(zip(topics[start:end], lists[start:end], strict=False))
        for member_id, (start, end) in zip(ids, pairwise(bounds), strict=True)
    }


def _split(values: IntArray, starts: IntArray) -> list[list[int]]:
    """Return ``values`` cut at ``starts``.

    Lists of equal length are created together: ``tolist`` on a matrix of them is several times
    faster than as many slices, and topics that are spread over members make many short lists.
    """
    lengths = np.diff(np.append(starts, len(values)))
    distinct = np.flatnonzero(np.bincount(lengths))
    if len(distinct) > 16:
        flat, ends = values.tolist(), (starts + lengths).tolist()
        return [flat[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]
    lists = np.empty(len(starts), object)
    for length in distinct.tolist():
        of_length = np.flatnonzero(lengths == length)
        first = starts[of_length]
        if length == 1:
            rows = [[value] for value in values[first].tolist()]
        else:
            rows = values[first[:, None] + np.arange(length)].tolist()
        lists[of_length] = np.fromiter(rows, object, len(rows))
    cut: list[list[int]] = lists.tolist()
    return cut


def stable_order(keys: IntArray) -> IntArray:
    """Return the stable argsort of ``keys``, none negative.

    numpy sorts 16-bit keys by radix, in linear time.
    """
    if int(keys.max(initial=0)) < 1 << 16:
        keys = keys.astype(np.uint16)
    order: IntArray = np.argsort(keys, kind="stable")
    return order
