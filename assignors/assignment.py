"""What the members of a group are assigned: an array, which becomes bytes or lists.

A group of a thousand members with fifty thousand partitions would be as many small lists of
integers, and most of them are never read: the leader of a group only needs the bytes that it sends.
So an assignment stays an array, a member's number per partition, until a caller reads lists.

Each member is sent a ConsumerProtocolAssignment. All of them are written into one buffer, which is
then cut. Example: m1 has t-0 and t-2, m2 has u-5::

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

import gc
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_core.flow import IntArray, Segments, stable_order

UNASSIGNED = -1
"""In an assignment: the partition has no member."""

NOTHING_ASSIGNED = bytes(2 + 4) + b"\xff" * 4
"""The assignment of a member without partitions: version 0, no topics, no user data."""


class AssignedPartitions(Mapping[str, Mapping[str, list[int]]]):
    """Member id to topic to sorted partitions, made of an array when it is first read.

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

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._read()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return self._read() == (other._read() if isinstance(other, AssignedPartitions) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._read())

    def __reduce__(self) -> tuple[object, ...]:
        return AssignedPartitions, (self.ids, self.topics, self.base, self.assigned)

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

    def encode(self) -> dict[str, bytes]:
        """Return the ConsumerProtocolAssignment of each member; the layout is described above.

        Version 0, with null user data: later versions have the same fields, and every client reads
        this one. Sarama sends back user data that is not null when it joins again, and its sticky
        leaders fail to decode empty data.
        """
        encoded = dict.fromkeys(self.ids, NOTHING_ASSIGNED)
        number, runs = self._sorted_partitions()
        if not len(runs.starts):
            return encoded
        names = [name.encode() for name in self.topics]
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
        ids = self.ids
        for m, (start, stop) in zip(of_member.keys.tolist(), bounds, strict=True):
            encoded[ids[m]] = data[start:stop]
        return encoded

    def _sorted_partitions(self) -> tuple[IntArray, Segments]:
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
        number, runs = self._sorted_partitions()
        lists = _split(number, runs.starts)
        run_member, run_topic = np.divmod(runs.keys, max(len(self.topics), 1))
        topics = np.array(self.topics, object)[run_topic].tolist()
        bounds = np.searchsorted(run_member, np.arange(len(self.ids) + 1)).tolist()
        return {
            # strict=True would take a third of the time; both slices have the same bounds.
            member_id: dict(zip(topics[start:end], lists[start:end], strict=False))
            for member_id, (start, end) in zip(self.ids, pairwise(bounds), strict=True)
        }


def overlapping(buffer: NDArray[np.uint8] | bytes, dtype: str) -> NDArray[Any]:
    """Return a view of ``buffer`` that has, at every position, the value that begins there."""
    size = np.dtype(dtype).itemsize
    return np.ndarray(max(len(buffer) - size + 1, 0), dtype, buffer, strides=(1,))


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
