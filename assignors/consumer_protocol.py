"""The bytes in which members send their subscriptions and receive their assignments.

A member sends a ConsumerProtocolSubscription. All integers are big-endian::

    int16 version
    v0+   int32 count, each: string topic           the topics it subscribes to
    v0+   int32 length (-1: none), bytes            user data
    v1+   int32 count, each: string topic,
            int32 count, each: int32 partition      the partitions it owns
    v2+   int32                                     the generation of these
    v3+   string (nullable)                         its rack

A string is an int16 length (-1: null) and UTF-8. Later versions only append fields, so each of
them is read as version 3. A client that cannot send the later fields sends them in its user data,
in this layout::

    int8 version (1; later versions only append fields)
    string (nullable) rack
    int32 generation
    int32 count, each: string topic, int32 count, each: int32 partition

Members of one group run different releases while they are upgraded, and any of them may be elected
leader. So the layout of a protocol name never changes, and a release may

- append fields to the user data and count its version up: leaders of older releases read the
  fields that they know, and ignore the rest;
- change anything else (the order, type or meaning of a field, or what an assignment depends on)
  only under a new protocol name, that is, a new ``name`` of the assignor. A group is upgraded by
  listing the new assignor before the old one in all members, then removing the old one: brokers
  choose a protocol that all members support, so that no leader reads user data of another layout.

A version that this rule excludes, such as 0 or a negative one, is an error: the member counts as
one without rack and claims.

A field of the subscription takes precedence over the same field in the user data. Owned partitions
differ in meaning: a member owns those in the subscription while it joins (it is cooperative, and
reads on until it revokes them). It owned those in the user data until it joined, and has released
them (it is eager). Both count for stickiness; only the former must not be assigned to another
member before they are revoked.

What a peer sends is read as far as it can be decoded: no member can make a rebalance fail. A count
is only accepted if that many elements fit into the remaining bytes, so that memory is bounded by
what was received.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

USER_DATA_VERSION = 1
"""The version that is sent. It grows when a field is appended, and never for another change."""

NO_GENERATION = -1
"""The generation of a member that has not completed a join."""

EMPTY_SUBSCRIPTION = b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"
"""The subscription of a member that reads nothing: version 0, which every client reads, no topics
and no user data."""

NOTHING_ASSIGNED = EMPTY_SUBSCRIPTION
"""The assignment of a member without partitions, whose fields are the same."""

Owned = dict[str, Sequence[int]]
"""Topic to partitions."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT32_ARRAYS = tuple(struct.Struct(f">{count}i") for count in range(65))


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """The subscription of one member.

    topics, rack, owned, generation
        As sent; empty, None or -1 if not sent.
    errors
        The parts that could not be decoded, and why; their fields count as not sent.
    released
        Whether the member released ``owned`` before it joined.
    """

    topics: frozenset[str] = frozenset()
    rack: str | None = None
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation: int = NO_GENERATION
    errors: tuple[str, ...] = ()
    released: bool = False


class ConsumerProtocolError(ValueError):
    """Bytes that cannot be decoded."""


class SubscriptionReader:
    """Reads the subscriptions of one rebalance.

    Most members of a group send the same topics in the same bytes, so lists and names that were
    decoded once are looked up: a thousand members take milliseconds instead of half a second.
    Use one reader per rebalance; it retains no more than the size of the messages.
    """

    _MAX_TOPIC_LISTS = 16

    def __init__(self) -> None:
        self._topic_lists: list[tuple[bytes, frozenset[str]]] = []
        self._names: dict[bytes, str] = {}

    def read(self, data: bytes, *, user_data: bool = True) -> MemberSubscription:
        """Return the subscription, decoded as far as possible. Never raises.

        ``user_data`` False ignores the user data, which is that of another assignor.
        """
        errors: list[str] = []
        own_data: bytes | None = None
        owned: Owned = {}
        generation, rack, released = NO_GENERATION, None, False
        try:
            version, at = _integer(_INT16, data, 0)
            if version < 0:
                raise ConsumerProtocolError(f"version {version}")
            topics, at = self.read_topics(data, at)
        except ConsumerProtocolError as error:
            return MemberSubscription(errors=(f"subscription: {error}",))
        try:
            own_data, at = _bytes(data, at)
            if version in (1, 4) and at == len(data):
                # kafka-go sends version 1 with the fields of version 0, Faust version 4.
                version = 0
            if version >= 1:
                owned, at = self._partitions(data, at)
            if version >= 2:
                generation, at = _integer(_INT32, data, at)
            if version >= 3:
                rack, at = self.read_string(data, at)
        except ConsumerProtocolError as error:
            # No claim is better than half of one, which could be contradicted by the rest.
            owned, generation, rack = {}, NO_GENERATION, None
            errors.append(f"subscription: {error}")
        if own_data and user_data:
            try:
                more = self.read_user_data(own_data)
            except ConsumerProtocolError as error:
                errors.append(f"user data: {error}")
            else:
                released = not owned
                owned = owned or dict(more.owned)
                rack = rack or more.rack
                generation = generation if generation >= 0 else more.generation
        return MemberSubscription(topics, rack or None, owned, generation, tuple(errors), released)

    def read_user_data(self, data: bytes) -> MemberSubscription:
        """Return rack, owned partitions and generation from user data.

        Raises ConsumerProtocolError if it is not in the layout above.
        """
        if not data:
            raise ConsumerProtocolError("empty")
        if not USER_DATA_VERSION <= data[0] <= 127:
            raise ConsumerProtocolError(f"unknown version {data[0]}")
        rack, at = self.read_string(data, 1)
        generation, at = _integer(_INT32, data, at)
        owned, at = self._partitions(data, at)
        return MemberSubscription(
            rack=rack or None, owned=owned, generation=generation, released=True
        )

    def read_assignment(self, data: bytes) -> Owned:
        """Return topic to partitions from a ConsumerProtocolAssignment of any version.

        Raises ConsumerProtocolError if it cannot be decoded.
        """
        version, at = _integer(_INT16, data, 0)
        if version < 0:
            raise ConsumerProtocolError(f"version {version}")
        return self._partitions(data, at)[0]

    def read_topics(self, data: bytes, at: int) -> tuple[frozenset[str], int]:
        """Return the list of topics at position ``at``, and where it ends.

        Raises ConsumerProtocolError if it cannot be decoded.
        """
        # A section contains its own length, so one that is a prefix is the whole section.
        for section, topics in self._topic_lists:
            if data.startswith(section, at):
                return topics, at + len(section)
        start = at
        count, at = _count(data, at, smallest=2)
        names = []
        for _ in range(count):
            name, at = self.read_string(data, at)
            if name is None:
                raise ConsumerProtocolError("a topic without a name")
            names.append(name)
        topics = frozenset(names)
        if len(self._topic_lists) < self._MAX_TOPIC_LISTS:
            self._topic_lists.append((bytes(data[start:at]), topics))
        return topics, at

    def read_string(self, data: bytes, at: int) -> tuple[str | None, int]:
        """Return the string at position ``at``, None if it is null, and where it ends.

        Raises ConsumerProtocolError if it cannot be decoded.
        """
        length, at = _integer(_INT16, data, at)
        if length == -1:
            return None, at
        end = at + length
        if length < 0 or end > len(data):
            raise ConsumerProtocolError(
                f"a string of {length} bytes declared, {len(data) - at} left"
            )
        raw = bytes(data[at:end])
        name = self._names.get(raw)
        if name is None:
            try:
                name = self._names[raw] = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ConsumerProtocolError("a string that is not UTF-8") from error
        return name, end

    def _partitions(self, data: bytes, at: int) -> tuple[Owned, int]:
        owned: Owned = {}
        count, at = _count(data, at, smallest=6)
        names = self._names
        try:
            for _ in range(count):
                start = at + 2
                (length,) = _INT16.unpack_from(data, at)
                if length <= 0:
                    raise ConsumerProtocolError("a topic without a name")
                at = start + length
                topic = names.get(data[start:at])
                if topic is None:
                    topic, at = self.read_string(data, start - 2)
                    assert topic is not None
                (size,) = _INT32.unpack_from(data, at)
                at += 4
                if not 0 <= size <= (len(data) - at) // 4:
                    raise ConsumerProtocolError(
                        f"{size} partitions declared, {len(data) - at} bytes left"
                    )
                partitions = _int32_array(size).unpack_from(data, at)
                at += 4 * size
                owned[topic] = (*owned[topic], *partitions) if topic in owned else partitions
        except struct.error as error:
            raise ConsumerProtocolError("truncated") from error
        return owned, at


def split_user_data(metadata: bytes) -> tuple[bytes, bytes]:
    """Return the subscription with null user data, and its user data.

    A subscription that cannot be decoded up to the end of its user data is returned unchanged.
    """
    try:
        _, at = SubscriptionReader().read_topics(metadata, 2)
        user_data, end = _bytes(metadata, at)
    except ConsumerProtocolError:
        return metadata, b""
    if not user_data:
        return metadata, b""
    return metadata[:at] + b"\xff\xff\xff\xff" + metadata[end:], user_data


def write_user_data(rack: str | None, owned: Mapping[str, Sequence[int]], generation: int) -> bytes:
    """Return the user data of a client that cannot send version 3 of the subscription."""
    parts = [
        bytes((USER_DATA_VERSION,)),
        _INT16.pack(-1) if rack is None else _pack_string(rack),
        _INT32.pack(generation),
        _INT32.pack(len(owned)),
    ]
    for topic, partitions in owned.items():
        count = len(partitions)
        parts += _pack_string(topic), _int32_array(count + 1).pack(count, *partitions)
    return b"".join(parts)


def _int32_array(count: int) -> struct.Struct:
    # Most claims are short, and the cache of the struct module costs as much as packing one.
    if count < len(_INT32_ARRAYS):
        return _INT32_ARRAYS[count]
    return struct.Struct(f">{count}i")


def _pack_string(text: str) -> bytes:
    raw = text.encode("utf-8")
    return _INT16.pack(len(raw)) + raw


def _integer(layout: struct.Struct, data: bytes, at: int) -> tuple[int, int]:
    try:
        return layout.unpack_from(data, at)[0], at + layout.size
    except struct.error as error:
        raise ConsumerProtocolError("truncated") from error


def _count(data: bytes, at: int, smallest: int) -> tuple[int, int]:
    count, at = _integer(_INT32, data, at)
    if not 0 <= count <= (len(data) - at) // smallest:
        raise ConsumerProtocolError(f"{count} elements declared, {len(data) - at} bytes left")
    return count, at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _integer(_INT32, data, at)
    if length == -1:
        return None, at
    if not 0 <= length <= len(data) - at:
        raise ConsumerProtocolError(f"{length} bytes declared, {len(data) - at} left")
    return bytes(data[at : at + length]), at + length
