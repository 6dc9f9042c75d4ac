"""The bytes in which members tell a group's leader who they are, and the leader answers.

A member's side is Kafka's ConsumerProtocolSubscription, big-endian throughout::

    int16 version
    v0+   int32 count, each: string topic           what it subscribes to
    v0+   int32 length (-1: none), bytes            user data
    v1+   int32 count, each: string topic,
            int32 count, each: int32 partition      what it owns
    v2+   int32                                     the generation it owned that in
    v3+   string (nullable)                         its rack

where a string is an int16 length (-1: null) and UTF-8. Later versions only append, so any
of them is read as version 3. A client that cannot send the later fields puts what it can into
its user data instead, in this layout::

    int8 version (1; later versions only append)
    string (nullable) rack
    int32 generation
    int32 count, each: string topic, int32 count, each: int32 partition

A field of the subscription itself wins over the same one in the user data. One difference of
meaning there is: partitions in the subscription are owned while the member joins (it is
cooperative, and reads on until it is told otherwise); partitions in the user data were owned, and
given up before the member joined (it is eager). Both count for stickiness; only the former
must not be given to another member before they are given up.

Whatever a peer sends is read for as much as can be understood: a member is never a reason
to fail a group. A count is believed only if that many of its elements fit into the bytes
that are there, so reading takes memory in proportion to what was received.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_MANY = tuple(struct.Struct(f">{count}i") for count in range(65))
USER_DATA_VERSION = 1
NO_GENERATION = -1

Owned = dict[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member said as it joined; ``faults`` names the parts that made no sense.

    Where it ``released`` what it owned, it does so no longer, and would like to again.
    """

    topics: frozenset[str] = frozenset()
    rack: str | None = None
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation: int = NO_GENERATION
    faults: tuple[str, ...] = ()
    released: bool = False

    @property
    def held(self) -> Mapping[str, Sequence[int]]:
        """What it owns while it joins: all that it says it owned, or nothing."""
        return {} if self.released else self.owned


class WireError(ValueError):
    """Bytes that are not what they should be."""


class SubscriptionReader:
    """Reads the subscriptions of one rebalance.

    Most members of a group send the same topics in the same bytes, so lists once read are
    recognised, and names are kept: a thousand members take milliseconds instead of half a
    second. Make one per rebalance; it holds no more than the messages themselves.
    """

    _LISTS_KEPT = 16

    def __init__(self) -> None:
        self._lists: list[tuple[bytes, frozenset[str]]] = []
        self._names: dict[bytes, str] = {}

    def read(self, data: bytes) -> Subscription:
        """What ``data`` says, as far as it can be understood; never raises."""
        try:
            version, at = _int16(data, 0)
            if version < 0:
                raise WireError(f"version {version}")
            topics, at = self._topics(data, at)
        except WireError as error:
            return Subscription(faults=(f"subscription: {error}",))
        faults: list[str] = []
        user_data: bytes | None = None
        owned: Owned = {}
        generation, rack = NO_GENERATION, None
        try:
            user_data, at = _bytes(data, at)
            if version >= 1:
                owned, at = self._partitions(data, at)
            if version >= 2:
                generation, at = _int32(data, at)
            if version >= 3:
                rack, at = self._string(data, at)
        except WireError as error:
            # Half a claim is none: what follows the fault may contradict what precedes it.
            owned, generation, rack = {}, NO_GENERATION, None
            faults.append(f"subscription: {error}")
        return self.complete(topics, user_data, owned, generation, rack, faults)

    def complete(
        self,
        topics: frozenset[str],
        user_data: bytes | None,
        owned: Mapping[str, Sequence[int]],
        generation: int,
        rack: str | None,
        faults: Sequence[str] = (),
    ) -> Subscription:
        """The subscription of these fields, what they lack taken from the user data."""
        released = False
        if user_data:
            try:
                more = self.read_user_data(user_data)
            except WireError as error:
                faults = (*faults, f"user data: {error}")
            else:
                rack = rack or more.rack
                released = not owned
                owned = owned or more.owned
                generation = generation if generation >= 0 else more.generation
        return Subscription(topics, rack or None, owned, generation, tuple(faults), released)

    def read_user_data(self, data: bytes) -> Subscription:
        """Rack, owned partitions and generation from ``data``.

        Raises WireError where it is not in the layout above.
        """
        if not data or not USER_DATA_VERSION <= data[0] <= 127:
            raise WireError(f"not of a known version: {bytes(data[:1])!r}")
        rack, at = self._string(data, 1)
        generation, at = _int32(data, at)
        owned, at = self._partitions(data, at)
        return Subscription(rack=rack or None, owned=owned, generation=generation, released=True)

    def read_assignment(self, data: bytes) -> Owned:
        """What a member was given, from a ConsumerProtocolAssignment of any version.

        Raises WireError where it makes no sense.
        """
        version, at = _int16(data, 0)
        if version < 0:
            raise WireError(f"version {version}")
        return self._partitions(data, at)[0]

    def _topics(self, data: bytes, at: int) -> tuple[frozenset[str], int]:
        # The section is of known length by its own counts, so a prefix is the whole of it.
        for section, topics in self._lists:
            if data.startswith(section, at):
                return topics, at + len(section)
        start = at
        count, at = _count(data, at, smallest=2)
        names = []
        for _ in range(count):
            name, at = self._string(data, at)
            if name is None:
                raise WireError("a topic without a name")
            names.append(name)
        read = frozenset(names)
        if len(self._lists) < self._LISTS_KEPT:
            self._lists.append((bytes(data[start:at]), read))
        return read, at

    def _partitions(self, data: bytes, at: int) -> tuple[Owned, int]:
        owned: Owned = {}
        count, at = _count(data, at, smallest=6)
        names = self._names
        try:
            for _ in range(count):
                start = at + 2
                (length,) = _INT16.unpack_from(data, at)
                if length <= 0:
                    raise WireError("a topic without a name")
                at = start + length
                topic = names.get(data[start:at])
                if topic is None:
                    topic, at = self._string(data, start - 2)
                    assert topic is not None
                (held,) = _INT32.unpack_from(data, at)
                at += 4
                if not 0 <= held <= (len(data) - at) // 4:
                    raise WireError(f"{held} partitions declared, {len(data) - at} bytes left")
                partitions = _ints(held).unpack_from(data, at)
                at += 4 * held
                owned[topic] = (*owned[topic], *partitions) if topic in owned else partitions
        except struct.error as error:
            raise WireError("cut short") from error
        return owned, at

    def _string(self, data: bytes, at: int) -> tuple[str | None, int]:
        length, at = _int16(data, at)
        if length == -1:
            return None, at
        end = at + length
        if length < 0 or end > len(data):
            raise WireError(f"a string of {length} bytes declared, {len(data) - at} left")
        raw = bytes(data[at:end])
        name = self._names.get(raw)
        if name is None:
            try:
                name = self._names[raw] = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise WireError("a string that is not UTF-8") from error
        return name, end


def write_user_data(rack: str | None, owned: Mapping[str, Sequence[int]], generation: int) -> bytes:
    """User data for a client that cannot send version 3 of the subscription."""
    parts = [
        bytes((USER_DATA_VERSION,)),
        _INT16.pack(-1) if rack is None else _packed(rack),
        _INT32.pack(generation),
    ]
    return b"".join(parts) + _packed_partitions(owned, {})


def write_assignments(
    plan: Mapping[str, Mapping[str, Sequence[int]]],
) -> dict[str, bytes]:
    """The ConsumerProtocolAssignment of every member of ``plan``.

    Version 0, with empty user data: the later versions have the same fields, and every
    client reads this one.
    """
    names: dict[str, bytes] = {}
    return {
        member: b"\0\0" + _packed_partitions(topics, names) + b"\0\0\0\0"
        for member, topics in plan.items()
    }


def _packed_partitions(owned: Mapping[str, Sequence[int]], names: dict[str, bytes]) -> bytes:
    parts = [_INT32.pack(len(owned))]
    for topic, partitions in owned.items():
        name = names.get(topic)
        if name is None:
            name = names[topic] = _packed(topic)
        held = len(partitions)
        parts.append(name)
        parts.append(_ints(held + 1).pack(held, *partitions))
    return b"".join(parts)


def _ints(count: int) -> struct.Struct:
    # Most claims are short, and looking a layout up costs as much as packing it.
    return _MANY[count] if count < len(_MANY) else struct.Struct(f">{count}i")


def _packed(text: str) -> bytes:
    raw = text.encode("utf-8")
    return _INT16.pack(len(raw)) + raw


def _int16(data: bytes, at: int) -> tuple[int, int]:
    try:
        return _INT16.unpack_from(data, at)[0], at + 2
    except struct.error as error:
        raise WireError("cut short") from error


def _int32(data: bytes, at: int) -> tuple[int, int]:
    try:
        return _INT32.unpack_from(data, at)[0], at + 4
    except struct.error as error:
        raise WireError("cut short") from error


def _count(data: bytes, at: int, smallest: int) -> tuple[int, int]:
    count, at = _int32(data, at)
    if not 0 <= count <= (len(data) - at) // smallest:
        raise WireError(f"{count} elements declared, {len(data) - at} bytes left")
    return count, at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _int32(data, at)
    if length == -1:
        return None, at
    if not 0 <= length <= len(data) - at:
        raise WireError(f"{length} bytes declared, {len(data) - at} left")
    return bytes(data[at : at + length]), at + length
