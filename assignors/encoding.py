"""The bytes of a whole group: subscriptions to columns, and an assignment to bytes.

Subscriptions. :class:`~assignors.consumer_protocol.SubscriptionReader` reads one subscription,
field by field, and tolerates whatever a peer sends. In a large group nearly all subscriptions are
regular, and most of their bytes are the partitions that members own. Those are read here for all
members together: their k-th topics in one step of array operations, then their (k + 1)-th, and so
on (in lockstep). The result is columns, not objects.

Example: the subscription of a member, and the one of another that owns nothing (in hexadecimal)::

    0003 00000001 000174 ffffffff 00000001 000174 00000002 00000000 00000003 00000005 000161
    0003 00000001 000174 ffffffff 00000000                                   ffffffff ffff
    ver. topics (same bytes,      owned:   0th    count,   partitions        gene-    rack
         so decoded once)   none  topics   topic  then the                   ration

1. The list of topics is decoded once for all members that send the same bytes.
2. The cursor of each member stands at its 0th owned topic. The name's length is read there, the
   count behind the name, and the cursor moves behind the partitions, to the next topic. Nothing is
   looked up in this loop: a step takes the same few array operations for any number of members.
3. Afterwards every length and count is checked, and every name is looked up, all at once. Names are
   compared in windows of 8 bytes with those of the topics that members subscribe to.
4. Behind the last partition are generation and rack. Few racks are distinct, so each is decoded
   once.

A member is left to SubscriptionReader if anything about its subscription is not as above: an older
version, user data, a length or count that leads out of its bytes, an owned topic that nobody
subscribes to, or many more topics than the others own. So are all members of a small group, where
array operations cost more than they save. Both ways give the same columns, whatever the bytes.

Assignments. Each member is sent a ConsumerProtocolAssignment. All of them are written into one
buffer, which is then cut. Example: m1 has t-0 and t-2, m2 has u-5::

    position  bytes                    field
    0         00 00                    version
    2         00 00 00 01              number of topics
    6         00 01 74                 topic: length and UTF-8, "t"
    9         00 00 00 02              number of partitions
    13        00 00 00 00              partition 0
    17        00 00 00 02              partition 2
    21        ff ff ff ff              no user data
    25        00 00, 00 00 00 01, 00 01 75, 00 00 00 01, 00 00 00 05, ff ff ff ff    of m2

With the partitions sorted by member and topic, the position of each is a cumulative sum: 4 bytes
for the partition before, and what lies between (13 = 6 + 3 + 4 before the first of m1; 4 + 13 from
the one of t-2 to the one of u-5, because m1's user data comes between).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assignors.consumer_protocol import (
    NO_GENERATION,
    NOTHING_ASSIGNED,
    ConsumerProtocolError,
    MemberSubscription,
    SubscriptionReader,
)
from assignors.group import AssignedPartitions, Claims, Members
from placement_core.flow import IntArray, Segments

MIN_LOCKSTEP_MEMBERS = 24
"""In smaller groups SubscriptionReader is as fast."""

VERSION_WITH_RACK = 3
"""Subscriptions of this version and later ones have every field."""


def read_members(
    members: Iterable[tuple[str, str | None, MemberSubscription | bytes]],
    min_lockstep_members: int = MIN_LOCKSTEP_MEMBERS,
) -> Members:
    """Return the members of a JoinGroup response, given as (member id, instance id, subscription).

    A subscription that does not decode is read as far as possible. Of members with the same id,
    the last counts.
    """
    by_id = {row[0]: row for row in members}
    rows = [by_id[member_id] for member_id in sorted(by_id)]
    subscriptions = [row[2] for row in rows]
    count = len(subscriptions)
    reader = SubscriptionReader()
    sets: dict[frozenset[str], int] = {}
    topic_set = np.zeros(count, np.int64)
    racks: list[str | None] = [None] * count
    generations = np.full(count, NO_GENERATION, np.int64)
    claims = Claims.of([])
    others: Iterable[int] = range(count)
    if count >= min_lockstep_members:
        regular = _Lockstep(subscriptions, reader, sets)
        topic_set, racks, generations = regular.topic_set, regular.racks, regular.generations
        claims, others = regular.claims(), (~regular.is_regular).nonzero()[0].tolist()

    released = np.zeros(count, bool)
    errors: list[tuple[int, str]] = []
    owned: list[Mapping[str, Sequence[int]]] = [{}] * count
    for m in others:
        subscription = subscriptions[m]
        if not isinstance(subscription, MemberSubscription):
            subscription = reader.read(subscription)
        topic_set[m] = sets.setdefault(subscription.topics, len(sets))
        racks[m] = subscription.rack
        generations[m] = subscription.generation
        released[m] = subscription.released
        errors += [(m, error) for error in subscription.errors]
        owned[m] = subscription.owned
    if others:
        claims = claims.joined_with(Claims.of(owned))
    return Members(
        ids=[row[0] for row in rows],
        instance_ids=[row[1] for row in rows],
        topic_sets=list(sets),
        topic_set=topic_set,
        racks=racks,
        generations=np.maximum(generations, NO_GENERATION),
        released=released,
        claims=claims,
        errors=errors,
    )


# ---- Regular subscriptions, in lockstep.

_MAX_NAME = 249
"""The longest name that a topic can have, in bytes."""

_PADDING = bytes(8 + _MAX_NAME + 8)
"""Behind the bytes of all members, so that any read that begins within them ends within these."""

_LOW_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""By number: a mask of as many bytes."""

_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class _Lockstep:
    """The columns of members with regular subscriptions. Undefined for other members."""

    def __init__(
        self,
        subscriptions: Sequence[MemberSubscription | bytes],
        reader: SubscriptionReader,
        sets: dict[frozenset[str], int],
    ) -> None:
        """Read ``subscriptions``; number their topics in ``sets``."""
        messages = [sent if isinstance(sent, bytes) else b"" for sent in subscriptions]
        topics_end = self._read_topics(messages, reader, sets)
        lengths = np.fromiter(map(len, messages), np.int64, len(messages))
        self._ends = lengths.cumsum()
        self._starts = self._ends - lengths
        self._data = b"".join((*messages, _PADDING))
        self._int32 = overlapping(self._data, ">i4")
        self._last = int(self._ends[-1])
        # The positions of the length of the user data, and of the number of owned topics.
        at = np.minimum(self._starts + topics_end, self._last)
        version = overlapping(self._data, ">i2")[self._starts]
        user_data, owned = self._int32[at], self._int32[at + 4].astype(np.int64)
        self.is_regular = (version >= VERSION_WITH_RACK) & (at + 8 <= self._ends)
        self.is_regular &= ((user_data == -1) | (user_data == 0)) & (owned >= 0)
        self.is_regular &= owned <= (self._ends - at) // 6
        # A step costs the same for one member as for many.
        owned[~self.is_regular] = 0
        self.is_regular &= owned <= 64 + 4 * int(owned.mean())
        self._read_owned(self.is_regular.nonzero()[0], at + 8, owned)
        self._look_up_names(list(sets))
        self._read_racks(messages, reader)

    def claims(self) -> Claims:
        """Return the claims of the members that are regular."""
        kept = self.is_regular[self._member].nonzero()[0]
        sizes = self._sizes[kept]
        first = self._name_ends[kept] + 4
        # The position of each partition: 4 bytes behind the one before.
        before = sizes.cumsum() - sizes
        position = np.repeat(first - 4 * before, sizes) + 4 * np.arange(int(sizes.sum()))
        return Claims(
            self._names,
            np.repeat(self._topic[kept], sizes),
            np.repeat(self._member[kept], sizes),
            self._int32[position].astype(np.int64),
        )

    def _read_topics(
        self, messages: list[bytes], reader: SubscriptionReader, sets: dict[frozenset[str], int]
    ) -> IntArray:
        """Return where each member's list of topics ends; the end of the message if it has none."""
        ends, numbers = [], []
        section, number = None, 0
        for message in messages:
            if section is None or not message.startswith(section, 2):
                try:
                    topics, end = reader.read_topics(message, 2)
                except ConsumerProtocolError:
                    section = None
                    ends.append(len(message))
                    numbers.append(0)
                    continue
                section, number = message[2:end], sets.setdefault(topics, len(sets))
            ends.append(2 + len(section))
            numbers.append(number)
        self.topic_set = np.array(numbers, np.int64)
        return np.array(ends, np.int64)

    def _read_owned(self, members: IntArray, first: IntArray, owned: IntArray) -> None:
        """Find the ``owned`` topics of ``members``; the 0th of each is at ``first``."""
        members = members[(-owned[members]).argsort(kind="stable")]
        owned, cursor = owned[members], first[members]
        # Members are sorted, so that those who own a k-th topic are the first ones.
        steps = np.arange(int(owned.max(initial=0)))
        active = len(members) - owned[::-1].searchsorted(steps, side="right")
        names, name_ends, sizes = [first[:0]], [first[:0]], [first[:0]]
        # A negative count is read as one that leads out of any message.
        uint16, uint32 = overlapping(self._data, ">u2"), overlapping(self._data, ">u4")
        last = self._last
        for count in active.tolist():
            here = cursor[:count].copy()
            name_end = here + uint16[here]
            name_end += 2
            np.minimum(name_end, last, out=name_end)
            size = uint32[name_end].astype(np.int64)
            behind = name_end + 4 * size
            behind += 4
            np.minimum(behind, last, out=cursor[:count])
            names.append(here)
            name_ends.append(name_end)
            sizes.append(size)
        self._name_ends, self._sizes = np.concatenate(name_ends), np.concatenate(sizes)
        nth = np.arange(len(self._sizes)) - np.repeat(active.cumsum() - active, active)
        self._member = members[nth]
        self._lengths = self._name_ends - np.concatenate(names) - 2
        wrong = (self._lengths < 1) | (self._lengths > _MAX_NAME)
        wrong |= self._name_ends + 4 * self._sizes + 4 > self._ends[self._member]
        self.is_regular[self._member[wrong]] = False
        self._tails = np.zeros(len(self.is_regular), np.int64)
        self._tails[members] = cursor
        self.is_regular &= self._tails + 4 <= self._ends

    def _look_up_names(self, sets: Sequence[frozenset[str]]) -> None:
        """Find each owned topic among those that members subscribe to."""
        subscribed = {name: name.encode() for name in frozenset().union(*sets)}
        self._names = [name for name, raw in subscribed.items() if 0 < len(raw) <= _MAX_NAME]
        self._topic = np.full(len(self._member), -1, np.int64)
        if not len(self._member):
            return
        known = _Names.of([subscribed[name] for name in self._names])
        kept = self.is_regular[self._member]
        self._topic[kept] = known.find(
            _Names(self._data, (self._name_ends - self._lengths)[kept], self._lengths[kept])
        )
        self.is_regular[self._member[self._topic < 0]] = False

    def _read_racks(self, messages: list[bytes], reader: SubscriptionReader) -> None:
        """Read generation and rack, which follow the owned topics."""
        self.generations = self._int32[np.minimum(self._tails, self._last)].astype(np.int64)
        self.racks: list[str | None] = [None] * len(messages)
        racks: dict[bytes, str | None] = {}
        members = self.is_regular.nonzero()[0]
        tails = (self._tails + 4 - self._starts)[members]
        for m, tail in zip(members.tolist(), tails.tolist(), strict=True):
            field = messages[m][tail:]
            if field not in racks:
                try:
                    racks[field] = reader.read_string(field, 0)[0] or None
                except ConsumerProtocolError:
                    self.is_regular[m] = False
                    continue
            self.racks[m] = racks[field]


@dataclass(frozen=True, slots=True)
class _Names:
    """Names in a buffer: where each begins, and its length in bytes, at least 1."""

    data: bytes
    at: IntArray
    lengths: IntArray

    @classmethod
    def of(cls, names: Sequence[bytes]) -> _Names:
        """Return ``names`` in a buffer of their own."""
        lengths = np.fromiter(map(len, names), np.int64, len(names))
        return cls(b"".join((*names, _PADDING)), np.cumsum(lengths) - lengths, lengths)

    def find(self, sought: _Names) -> IntArray:
        """Return the index of each of the ``sought`` names among these; -1 if it is not there."""
        if not len(self.at):
            return np.full(len(sought.at), -1, np.int64)
        starts = range(0, int(self.lengths.max()), 8)
        own, other = ([names._window(start) for start in starts] for names in (self, sought))
        hashes = _hash(own)
        order = hashes.argsort()
        place = hashes[order].searchsorted(_hash(other))
        found: IntArray = order[np.minimum(place, len(order) - 1)]
        same = self.lengths[found] == sought.lengths
        for of_own, of_other in zip(own, other, strict=True):
            same &= of_own[found] == of_other
        return np.where(same, found, -1)

    def _window(self, start: int) -> NDArray[np.uint64]:
        """Return 8 bytes of each name, from ``start``; zeros behind its end."""
        mask = _LOW_BYTES[np.minimum(np.maximum(self.lengths - start, 0), 8)]
        windows: NDArray[np.uint64] = overlapping(self.data, "<u8")[self.at + start] & mask
        return windows


def _hash(windows: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return a number for each name; equal names have equal numbers."""
    hashes = windows[0]
    for window in windows[1:]:
        hashes = hashes * _HASH_FACTOR ^ window
    return hashes


# ---- Assignments.


def encode_assignment(assignment: AssignedPartitions) -> dict[str, bytes]:
    """Return the ConsumerProtocolAssignment of each member.

    Version 0, with null user data: later versions have the same fields, and every client reads
    this one. Sarama sends back user data that is not null when it joins again, and its sticky
    leaders fail to decode empty data.
    """
    encoded = dict.fromkeys(assignment.ids, NOTHING_ASSIGNED)
    number, runs = assignment.sorted_partitions()
    if not len(runs.starts):
        return encoded
    names = [name.encode() for name in assignment.topics]
    fields = [struct.pack(">h", len(name)) + name for name in names]
    field_length = np.fromiter(map(len, fields), np.int64, len(fields))
    field_at = field_length.cumsum() - field_length
    # Of each run of one member and one topic: what comes before its first partition.
    run_member, run_topic = np.divmod(runs.keys, len(fields))
    of_member = Segments.of(run_member)
    length = field_length[run_topic]
    between = length + 4
    between[of_member.starts] += 4 + 2 + 4
    between[0] -= 4
    position = np.full(len(number), 4)
    position[0] = 0
    position[runs.starts] += between
    position = position.cumsum()
    count_at = position[runs.starts] - 4
    name_at = count_at - length
    member_at = name_at[of_member.starts] - 4 - 2
    end = int(position[-1]) + 4 + 4

    buffer, text = np.zeros(end, np.uint8), b"".join(fields)
    int32 = overlapping(buffer, ">i4")
    int32[position] = number
    int32[count_at] = runs.lengths(len(number))
    int32[member_at + 2] = of_member.lengths(len(run_member))
    int32[np.append(member_at[1:], end) - 4] = -1
    for size in set(map(len, fields)):
        of_size = (length == size).nonzero()[0]
        field = overlapping(text, f"V{size}")[field_at[run_topic[of_size]]]
        overlapping(buffer, f"V{size}")[name_at[of_size]] = field
    data = buffer.tobytes()
    bounds = pairwise([*member_at.tolist(), end])
    ids = assignment.ids
    for m, (start, stop) in zip(of_member.keys.tolist(), bounds, strict=True):
        encoded[ids[m]] = data[start:stop]
    return encoded


def overlapping(buffer: NDArray[np.uint8] | bytes, dtype: str) -> NDArray[Any]:
    """Return a view of ``buffer`` that has, at every position, the value that begins there."""
    size = np.dtype(dtype).itemsize
    return np.ndarray(max(len(buffer) - size + 1, 0), dtype, buffer, strides=(1,))
