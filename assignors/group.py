"""A consumer group in numpy arrays: its members, its partitions, and who has which.

Members come as objects or as bytes, and an assignment becomes lists or bytes (for the bytes see
:mod:`assignors.encoding`); between them, all is arrays.

Members are numbered in order of their ids and topics in order of their names, so that nothing
that is computed from the arrays depends on the order of the input. The partitions of all topics
form one row: the partitions of topic t are the numbers ``base[t]`` to ``base[t + 1] - 1``. An
assignment is an array with a member's number per partition.

Example. m1 (rack a) and m2 (rack b) subscribe to t and u; t has three partitions, led in racks a, b
and a, and u has two, led in b and in no known rack. m2 claims t-1 and t-7::

    topics       t        u            base         0 3 5
    row          0  1  2  3  4         leader_rack  1 2 1 2 0      (1: a, 2: b, 0: unknown)
    partition    0  1  2  0  1         member_rack  1 2
    owners      -1  1 -1 -1 -1         (t-7 does not exist: that claim is ignored)
    assigned     0  1  0  1  0         m1: t-0, t-2, u-1; m2: t-1, u-0

Whatever members claim, and whatever racks are called, is encoded as far as it makes sense and
ignored otherwise: a group must not fail to rebalance because of one member.
"""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, pairwise

import numpy as np
from numpy.typing import NDArray

from assignors.consumer_protocol import NO_GENERATION
from assignors.model import LeaderRacks, Member, Plan
from placement_core.errors import InvalidGroupError
from placement_core.flow import CostArray, IntArray, Segments, stable_order
from placement_core.racks import RackPath, levels_crossed, parse_rack

Assigned = Mapping[str, Mapping[str, Sequence[int]]]
"""Member id to topic to partitions."""

UNASSIGNED = -1
"""In an assignment: the partition has no member."""


# ---- Members, and what they claim to own.


@dataclass(frozen=True, slots=True)
class Claims:
    """The partitions that members claim to own, an entry per claim.

    ``names`` are topics; ``topic``, ``member`` and ``number`` are, per claim, the index of its
    topic among them, the number of its member, and the partition.
    """

    names: Sequence[str]
    topic: IntArray
    member: IntArray
    number: IntArray

    @classmethod
    def of(cls, owned: Sequence[Mapping[str, Sequence[int]]]) -> Claims:
        """Return the claims of members, given as topic to partitions.

        Claims that cannot be partitions are left out.
        """
        names = list(chain.from_iterable(owned))
        lists = [claims for topics in owned for claims in topics.values()]
        try:
            number, lengths = _concatenate(lists)
        except (TypeError, ValueError, OverflowError):
            number, lengths = _concatenate([_partition_numbers(claims) for claims in lists])
        index = {name: at for at, name in enumerate(dict.fromkeys(names))}
        topic = np.fromiter(map(index.__getitem__, names), np.int64, len(names))
        counts = np.fromiter(map(len, owned), np.int64, len(owned))
        member = np.repeat(np.arange(len(owned)), counts)
        return cls(list(index), np.repeat(topic, lengths), np.repeat(member, lengths), number)

    def where(self, kept: NDArray[np.bool_]) -> Claims:
        """Return the claims that are ``kept``."""
        if kept.all():
            return self
        return Claims(self.names, self.topic[kept], self.member[kept], self.number[kept])

    def joined_with(self, other: Claims) -> Claims:
        """Return the claims of both, whose members are numbered alike."""
        return Claims(
            [*self.names, *other.names],
            np.concatenate((self.topic, other.topic + len(self.names))),
            np.concatenate((self.member, other.member)),
            np.concatenate((self.number, other.number)),
        )

    def rows(self, topics: Sequence[str], base: IntArray) -> IntArray:
        """Return the number in the row of ``topics`` of each claim's partition; -1 if none is."""
        index = {topic: t for t, topic in enumerate(topics)}
        topic = np.array([index.get(name, -1) for name in self.names], np.int64)[self.topic]
        sizes = np.zeros(len(base), np.int64)  # the last one is that of unknown topics
        np.subtract(base[1:], base[:-1], out=sizes[:-1])
        exists = (self.number >= 0) & (self.number < sizes[topic])
        return np.where(exists, base[topic] + self.number, -1)

    def keys(self, members: Sequence[Hashable]) -> list[tuple[Hashable, str, int]]:
        """Return the member, the topic and the partition of each claim."""
        columns = (self.member.tolist(), self.topic.tolist(), self.number.tolist())
        return [(members[m], self.names[t], number) for m, t, number in zip(*columns, strict=True)]


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


@dataclass(frozen=True, eq=False, slots=True)
class Members(Iterable[Member]):
    """The members of a group as columns, sorted by id.

    ids, instance_ids, racks
        Per member, as in :class:`~assignors.Member`. Ids are distinct.
    topic_sets, topic_set
        Distinct subscriptions, and the index of each member's among them.
    generations
        Of what each member claims; -1 if unknown or impossible.
    claims
        The partitions that members claim to own.
    released
        Per member, whether it released what it claims before it joined.
    errors
        Members and what could not be decoded of their subscriptions.
    """

    ids: Sequence[str]
    instance_ids: Sequence[str | None]
    racks: Sequence[str | None]
    topic_sets: Sequence[frozenset[str]]
    topic_set: IntArray
    generations: IntArray
    claims: Claims
    released: NDArray[np.bool_]
    errors: Sequence[tuple[int, str]] = field(default=())

    @classmethod
    def of(cls, members: Iterable[Member]) -> Members:
        """Return ``members`` as columns. Raises InvalidGroupError if two have the same id."""
        if isinstance(members, Members):
            return members
        rows = sorted(members, key=lambda member: member.id)
        for one, other in pairwise(rows):
            if one.id == other.id:
                raise InvalidGroupError(
                    f"two members have the id {one.id!r}: give each member a distinct id"
                )
        sets: dict[frozenset[str], int] = {}
        numbers = [sets.setdefault(frozenset(row.topics), len(sets)) for row in rows]
        return cls(
            ids=[row.id for row in rows],
            instance_ids=[row.instance_id for row in rows],
            racks=[row.rack for row in rows],
            topic_sets=list(sets),
            topic_set=np.array(numbers, np.int64),
            generations=np.array([_generation(row) for row in rows], np.int64),
            claims=Claims.of([row.owned for row in rows]),
            released=np.zeros(len(rows), bool),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Member]:
        """Yield the members as objects, for an assignor that does not read the columns."""
        owned: dict[Hashable, dict[str, list[int]]] = {member_id: {} for member_id in self.ids}
        for member_id, topic, number in self.claims.keys(self.ids):
            owned[member_id].setdefault(topic, []).append(number)
        topics = map(self.topic_sets.__getitem__, self.topic_set.tolist())
        generations = self.generations.tolist()
        return map(
            Member, self.ids, topics, self.racks, self.instance_ids, owned.values(), generations
        )

    @property
    def topics(self) -> set[str]:
        """The topics that members subscribe to."""
        return set().union(*(self.topic_sets[at] for at in set(self.topic_set.tolist())))

    @property
    def claims_while_joining(self) -> Claims:
        """The partitions that members still own."""
        if not self.released.any():
            return self.claims
        return self.claims.where(~self.released[self.claims.member])

    def owning(self, assigned: AssignedPartitions) -> Members:
        """Return the members with claims on what each is assigned, all of one generation."""
        row = (assigned.assigned != UNASSIGNED).nonzero()[0]
        topic = assigned.topic_of[row]
        claims = Claims(assigned.topics, topic, assigned.assigned[row], row - assigned.base[topic])
        return replace(self, claims=claims, generations=np.zeros(len(self.ids), np.int64))


def _generation(member: Member) -> int:
    """Return the member's generation, -1 if it cannot be one."""
    generation = member.generation
    if isinstance(generation, int) and 0 <= generation < 1 << 62:
        return generation
    return NO_GENERATION


# ---- What members are assigned.


class AssignedPartitions(Mapping[str, Mapping[str, list[int]]]):
    """Member id to topic to sorted partitions, made of an array when it is first read.

    A group of a thousand members with fifty thousand partitions would be as many small lists of
    integers, and most of them are never read: the leader of a group only needs the bytes that it
    sends. So an assignment stays an array, a member's number per partition, until lists are read.

    It equals the dictionary of the same contents. Every member is present; one without partitions
    has an empty dictionary.
    """

    __slots__ = ("_lists", "assigned", "base", "ids", "topics")

    def __init__(
        self, ids: Sequence[str], topics: Sequence[str], base: IntArray, assigned: IntArray
    ) -> None:
        """Take the members' ids, the topics, ``base`` and each partition's member or UNASSIGNED."""
        self.ids = ids
        self.topics = topics
        self.base = base
        self.assigned = assigned
        self._lists: dict[str, dict[str, list[int]]] | None = None

    def __getitem__(self, member_id: str) -> dict[str, list[int]]:
        return self._read()[member_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return repr(self._read())

    @property
    def topic_of(self) -> IntArray:
        """The topic of each partition."""
        return np.repeat(np.arange(len(self.topics)), self.base[1:] - self.base[:-1])

    def followed_by(self, other: AssignedPartitions) -> AssignedPartitions:
        """Return the partitions of both, which have the same members and no topic in common."""
        return AssignedPartitions(
            self.ids,
            [*self.topics, *other.topics],
            np.concatenate((self.base, other.base[1:] + self.base[-1])),
            np.concatenate((self.assigned, other.assigned)),
        )

    def owner_of_rows(self, row: IntArray) -> IntArray:
        """Return the member of each partition, given by its number in the row, or UNASSIGNED."""
        if not len(self.assigned):
            return np.full(len(row), UNASSIGNED, np.int64)
        return np.where(row < 0, UNASSIGNED, self.assigned[row])

    def without(self, left_out: NDArray[np.bool_]) -> AssignedPartitions:
        """Return the assignment without the partitions that are ``left_out``, in the row."""
        assigned = np.where(left_out, UNASSIGNED, self.assigned)
        return AssignedPartitions(self.ids, self.topics, self.base, assigned)

    def sorted_partitions(self) -> tuple[IntArray, Segments]:
        """Return the assigned partitions sorted by member and topic, and the runs among them.

        A run has one member and one topic; its key is ``member x number of topics + topic``.
        """
        order = stable_order(self.assigned + 1)
        order = order[np.count_nonzero(self.assigned == UNASSIGNED) :]
        topic = self.topic_of[order]
        runs = Segments.of(self.assigned[order] * len(self.topics) + topic)
        return order - self.base[topic], runs

    def _read(self) -> dict[str, dict[str, list[int]]]:
        if self._lists is None:
            with _garbage_collection_paused():
                self._lists = self._to_lists()
        return self._lists

    def _to_lists(self) -> dict[str, dict[str, list[int]]]:
        number, runs = self.sorted_partitions()
        lists = _split(number, runs.starts)
        run_member, run_topic = np.divmod(runs.keys, max(len(self.topics), 1))
        topics = np.array(self.topics, object)[run_topic].tolist()
        bounds = np.searchsorted(run_member, np.arange(len(self.ids) + 1)).tolist()
        return {
            # strict=True would take a third of the time; both slices have the same bounds.
            member_id: dict(zip(topics[start:end], lists[start:end], strict=False))
            for member_id, (start, end) in zip(self.ids, pairwise(bounds), strict=True)
        }


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


# ---- Members and partitions: the input of an assignor.


@dataclass(frozen=True, slots=True)
class Group:
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

    members: Members
    topics: tuple[str, ...]
    base: IntArray
    subscription: IntArray
    subscribed: NDArray[np.bool_]
    leader_rack: IntArray
    member_rack: IntArray
    crossed: IntArray
    crossing_rank: IntArray
    depth: int

    @classmethod
    def of(cls, members: Iterable[Member], leader_racks: LeaderRacks) -> Group:
        """Number members, topics, partitions, subscriptions and racks.

        Racks are compared at the depth of the leaders' racks: the levels of a member's rack below
        that are ignored, as no leader can match them.

        Raises InvalidGroupError if two members have the same id.
        """
        columns = Members.of(members)
        existing = frozenset(leader_racks)
        numbers: dict[frozenset[str], int] = {}
        number_of = np.zeros(len(columns.topic_sets), np.int64)
        for at in dict.fromkeys(columns.topic_set.tolist()):
            number_of[at] = numbers.setdefault(columns.topic_sets[at] & existing, len(numbers))
        sets = list(numbers)
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
        return cls(
            members=columns,
            topics=topics,
            base=np.array([0, *accumulate(map(len, leaders))]),
            subscription=number_of[columns.topic_set],
            subscribed=subscribed,
            leader_rack=leader_rack,
            member_rack=member_rack,
            crossed=crossed,
            crossing_rank=np.unique(crossed).searchsorted(crossed),
            depth=depth,
        )

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

    def topic_classes(self) -> tuple[IntArray, NDArray[np.bool_]]:
        """Return the class of each topic, and ``subscribed`` as ``[class, subscription]``.

        Topics with the same subscribers are one class.
        """
        classes: dict[bytes, int] = {}
        packed = (row.tobytes() for row in np.packbits(self.subscribed, axis=1))
        class_of = np.array([classes.setdefault(row, len(classes)) for row in packed], np.int64)
        first = np.empty(len(classes), np.int64)
        first[class_of[::-1]] = np.arange(len(class_of))[::-1]
        return class_of, self.subscribed[first]

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

    def owners(self) -> IntArray:
        """Return the member that owns each partition, or UNASSIGNED.

        If several members claim a partition, the claim of the highest generation counts; if two
        claims share that generation, the partition has no owner. Nor has it if its owner does not
        subscribe to the topic. Claims on partitions that do not exist are ignored.
        """
        return self._owners(self.members.claims, self.members.generations)

    def members_of(self, assigned: Assigned) -> IntArray:
        """Return the member that each partition is assigned to, or UNASSIGNED.

        What several members have, or a member that does not subscribe to it, counts as unassigned.
        """
        if isinstance(assigned, AssignedPartitions) and (
            list(assigned.ids) == list(self.members.ids)
            and tuple(assigned.topics) == self.topics
            and np.array_equal(assigned.base, self.base)
        ):
            return assigned.assigned
        ids = self.members.ids
        claims = Claims.of([assigned.get(member_id, {}) for member_id in ids])
        return self._owners(claims, np.zeros(len(ids), np.int64))

    def _owners(self, claims: Claims, generations: IntArray) -> IntArray:
        owner: IntArray = np.full(int(self.base[-1]), UNASSIGNED, np.int64)
        row, claimant = claims.rows(self.topics, self.base), claims.member
        exists = row >= 0
        if not exists.all():
            row, claimant = row[exists], claimant[exists]
        if len(row) and np.bincount(row).max() > 1:
            valid = _resolve_claims(generations[claimant], row, claimant)
            row, claimant = row[valid], claimant[valid]
        subscribed = self.subscribed[self.topic_of[row], self.subscription[claimant]]
        owner[row[subscribed]] = claimant[subscribed]
        return owner

    def assignment(self, assigned: IntArray) -> AssignedPartitions:
        """Return an assignment, given in arrays, as what each member is assigned."""
        return AssignedPartitions(self.members.ids, self.topics, self.base, assigned)

    def plan(self, assigned: IntArray, owner: IntArray, optimality_gap: int = 0) -> Plan:
        """Return the plan of an assignment in which every partition has a member.

        ``owner`` is that of :meth:`owners`. ``optimality_gap`` is the number of off-rack
        partitions by which the solver's lower bound falls short of the plan.
        """
        crossings = tuple(self.crossings(assigned).tolist())
        ids = self.members.ids
        loads = np.bincount(assigned, minlength=len(ids)).tolist()
        return Plan(
            partitions=self.assignment(assigned),
            off_rack=crossings[-1],
            crossings=crossings,
            optimum=max(0, crossings[-1] - optimality_gap),
            moved=int(np.count_nonzero((owner != UNASSIGNED) & (owner != assigned))),
            loads=dict(zip(ids, loads, strict=True)),
        )


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


def distinct_rows(matrix: CostArray) -> tuple[CostArray, IntArray]:
    """Return the sorted distinct rows of ``matrix``, and the index of each row among them.

    numpy.unique does not sort rows of Python integers.
    """
    rows = list(map(tuple, matrix.tolist()))
    distinct = sorted(set(rows))
    index = {row: at for at, row in enumerate(distinct)}
    unique = np.array(distinct, matrix.dtype).reshape(len(distinct), -1)
    return unique, np.fromiter(map(index.__getitem__, rows), np.int64, len(rows))
