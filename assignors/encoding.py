"""From members and leader racks, as plain Python values, to arrays.

Members are numbered in order of their ids and topics in order of their names, so that
nothing below depends on the order of the input. The partitions of all topics form one row:
topic t has the numbers ``base[t]`` to ``base[t + 1]``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from assignors.model import LeaderRacks, Member
from placement_core.errors import InvalidGroupError
from placement_core.flow import IntArray
from placement_core.racks import RackPath, levels_crossed, parse_rack


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group and the partitions that it consumes.

    subscription
        Per member, the number of its set of topics; members of equal sets share one.
    subscribed
        ``[topic, subscription]``: is the topic in the set?
    leader_rack, member_rack
        Per partition and per member, a row and a column of ``crossed``.
    crossed
        How many of the ``depth`` levels lie between two racks. Row 0: the leader's rack is
        not known, which costs nothing anywhere.
    """

    members: tuple[Member, ...]
    topics: tuple[str, ...]
    base: IntArray
    subscription: IntArray
    subscribed: NDArray[np.bool_]
    leader_rack: IntArray
    member_rack: IntArray
    crossed: IntArray
    depth: int

    @property
    def sizes(self) -> IntArray:
        """Partitions per topic."""
        return np.diff(self.base)

    @property
    def topic_of(self) -> IntArray:
        """The topic of each partition."""
        return np.repeat(np.arange(len(self.topics)), self.sizes)

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """``[topic, member]``: does the member subscribe?"""
        return self.subscribed[:, self.subscription]


def read_group(members: Iterable[Member], leader_racks: LeaderRacks) -> Group:
    """Number everything. Raises InvalidGroupError where two members have one id.

    Topics without a subscriber, and subscriptions to topics that ``leader_racks`` does not
    have, are left out.
    """
    ordered = tuple(sorted(members, key=lambda member: member.id))
    for one, other in pairwise(ordered):
        if one.id == other.id:
            raise InvalidGroupError(
                f"two members have the id {one.id!r}: give each member an id of its own"
            )
    sets, subscription = _subscriptions(ordered, frozenset(leader_racks))
    topics = tuple(sorted(frozenset().union(*sets)))
    topic_index = {topic: t for t, topic in enumerate(topics)}
    lengths = list(map(len, sets))
    subscribed = np.zeros((len(topics), len(sets)), bool)
    named = np.fromiter(map(topic_index.__getitem__, chain.from_iterable(sets)), np.int64)
    subscribed[named, np.repeat(np.arange(len(sets)), lengths)] = True
    rows = [leader_racks[topic] for topic in topics]
    base = np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64)))
    leader_paths, leader_rack = _number_racks(rows)
    member_paths, member_rack = _number_racks([[m.rack for m in ordered]])
    depth = max((len(p) for p in (*leader_paths, *member_paths) if p), default=1)
    crossed = [
        [levels_crossed(leader, member, depth) if leader else 0 for member in member_paths]
        for leader in leader_paths
    ]
    return Group(
        members=ordered,
        topics=topics,
        base=base,
        subscription=subscription,
        subscribed=subscribed,
        leader_rack=leader_rack,
        member_rack=member_rack,
        crossed=np.array(crossed, np.int64).reshape(len(leader_paths), len(member_paths)),
        depth=depth,
    )


def _subscriptions(
    members: Sequence[Member], existing: frozenset[str]
) -> tuple[list[frozenset[str]], IntArray]:
    """The distinct sets of topics, less those that do not exist, and each member's."""
    sets: dict[frozenset[str], int] = {}
    number_of: dict[frozenset[str], int] = {}
    numbers = []
    for member in members:
        names = member.topics if isinstance(member.topics, frozenset) else frozenset(member.topics)
        number = number_of.get(names)
        if number is None:
            number = number_of[names] = sets.setdefault(names & existing, len(sets))
        numbers.append(number)
    return list(sets), np.array(numbers, np.int64)


class _Numbers(dict[Hashable, int]):
    """Rack id to number, in order of appearance; ids of one path share a number."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: dict[RackPath | None, int] = {None: 0}

    def __missing__(self, rack: Hashable) -> int:
        number = self.paths.setdefault(parse_rack(rack), len(self.paths))
        self[rack] = number
        return number


def _number_racks(
    rows: Sequence[Sequence[str | None]],
) -> tuple[list[RackPath | None], IntArray]:
    """The racks' paths (first None, which stands for "not known") and each one's number.

    Numbers follow the order of the paths.
    """
    numbers = _Numbers()
    try:
        found = _look_up(rows, numbers)
    except TypeError:
        sound = [[rack if isinstance(rack, str) else None for rack in row] for row in rows]
        found = _look_up(sound, numbers)
    known = sorted(path for path in numbers.paths if path is not None)
    place = np.zeros(len(numbers.paths), np.int64)
    for at, path in enumerate(known, start=1):
        place[numbers.paths[path]] = at
    return [None, *known], place[found]


def _look_up(rows: Sequence[Sequence[str | None]], numbers: _Numbers) -> IntArray:
    """The number of each rack; raises TypeError where one is no rack at all (a list, say).

    Numbers up to 255 go through bytes, which takes half the time of an array of integers.
    """
    number = numbers.__getitem__
    try:
        few = b"".join([bytes(map(number, row)) for row in rows])
    except ValueError:
        count = sum(map(len, rows))
        return np.fromiter(map(number, chain.from_iterable(rows)), np.int64, count)
    return np.frombuffer(few, np.uint8).astype(np.int64)


def same_subscribers(group: Group) -> tuple[IntArray, NDArray[np.bool_]]:
    """Each topic's class, and ``[class, subscription]``: classes have the same subscribers."""
    classes: dict[bytes, int] = {}
    packed = (row.tobytes() for row in np.packbits(group.subscribed, axis=1))
    of_topic = [classes.setdefault(row, len(classes)) for row in packed]
    class_of = np.array(of_topic, np.int64)
    first = np.unique(class_of, return_index=True)[1]
    return class_of, group.subscribed[first]


# ---- Who owns each partition now, by what the members claim.

NOBODY = -1


def read_owners(group: Group) -> IntArray:
    """Each partition's owner, as the number of a member of ``group``, or :data:`NOBODY`.

    A partition that several members claim belongs to the claim of the highest generation, and to
    nobody if that is claimed twice. Then a claim only counts if its member subscribes to
    the topic. Claims on what does not exist are passed over.
    """
    members, base = group.members, group.base
    topic_index = {topic: t for t, topic in enumerate(group.topics)}
    owner: IntArray = np.full(int(base[-1]), NOBODY, np.int64)
    topics, claimants, numbers = _read_claims(members, topic_index)
    known = (topics >= 0) & (numbers >= 0)
    known[known] = numbers[known] < np.diff(base)[topics[known]]
    topics, claimants, numbers = topics[known], claimants[known], numbers[known]
    parts = base[topics] + numbers
    if len(parts) and np.bincount(parts).max() > 1:
        generations = np.array([_generation(member) for member in members], np.int64)
        chosen = _settle_claims(parts, claimants, generations)
        topics, claimants, parts = topics[chosen], claimants[chosen], parts[chosen]
    valid = group.subscribed[topics, group.subscription[claimants]]
    owner[parts[valid]] = claimants[valid]
    return owner


def _settle_claims(parts: IntArray, claimants: IntArray, generations: IntArray) -> IntArray:
    """The indexes of the claims that hold, where partitions are claimed more than once."""
    order = np.lexsort((claimants, -generations[claimants], parts))
    part, claimant = parts[order], claimants[order]
    repeated = np.zeros(len(order), bool)
    repeated[1:] = (part[1:] == part[:-1]) & (claimant[1:] == claimant[:-1])
    order = order[~repeated]
    part, generation = parts[order], generations[claimants[order]]
    first = np.ones(len(order), bool)
    first[1:] = part[1:] != part[:-1]
    rivalled = np.zeros(len(order), bool)
    rivalled[:-1] = (part[1:] == part[:-1]) & (generation[1:] == generation[:-1])
    holding: IntArray = order[first & ~rivalled]
    return holding


def _read_claims(
    members: Sequence[Member], topic_index: Mapping[str, int]
) -> tuple[IntArray, IntArray, IntArray]:
    """Every claim as (topic or -1, member, partition number)."""
    names: list[str] = []
    lists: list[Sequence[int]] = []
    counts = []
    for member in members:
        names.extend(member.owned)
        lists.extend(member.owned.values())
        counts.append(len(member.owned))
    try:
        numbers, lengths = _flatten(lists)
    except (TypeError, ValueError, OverflowError):
        numbers, lengths = _flatten([_whole_numbers(claims) for claims in lists])
    try:
        topic_of_list = np.fromiter(map(topic_index.__getitem__, names), np.int64, len(names))
    except KeyError:
        topic_of_list = np.array([topic_index.get(name, -1) for name in names], np.int64)
    member_of_list = np.repeat(np.arange(len(members)), np.array(counts, np.int64))
    return np.repeat(topic_of_list, lengths), np.repeat(member_of_list, lengths), numbers


def _flatten(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """All claims in one row, and how many there are in each list.

    Raises TypeError, ValueError or OverflowError where one of them is no whole number.
    """
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    numbers = np.array(list(chain.from_iterable(lists)) or (), None if lengths.any() else np.int64)
    if numbers.dtype != np.int64:
        raise TypeError("claims that are no whole numbers")
    return numbers, lengths


def _whole_numbers(claims: object) -> list[int]:
    """What of ``claims`` can be partition numbers."""
    if not isinstance(claims, Iterable):
        return []
    return [int(n) for n in claims if isinstance(n, int | np.integer) and 0 <= n < 1 << 31]


def _generation(member: Member) -> int:
    """The member's generation; -1 where it is not one."""
    generation = member.generation
    if isinstance(generation, int) and 0 <= generation < 1 << 62:
        return generation
    return -1
