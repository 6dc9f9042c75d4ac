"""Rack ids, their levels, and what it crosses to go from one rack to another.

A rack id is an opaque string (``use1-az1``) or, where it begins with a slash, a path
whose levels run from the widest to the narrowest: ``/dc1/room2/r7`` (KIP-879).
An absent or empty id means that the rack is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

RackPath = tuple[str, ...]
"""The levels of a rack id, widest first; never empty."""


def parse_rack(rack: object) -> RackPath | None:
    """The levels of ``rack``, or None where the rack is not known.

    None, anything that is not a string, the empty string and a path without a single
    level (``/``) are all "not known": rack ids come from other people's brokers and
    members, and a group must not fail over one of them.

    >>> parse_rack("use1-az1"), parse_rack("/dc1//r7/"), parse_rack("")
    (('use1-az1',), ('dc1', 'r7'), None)
    """
    if not isinstance(rack, str):
        return None
    if not rack.startswith("/"):
        return (rack,) if rack else None
    return tuple(level for level in rack.split("/") if level) or None


def common_levels(one: RackPath, other: RackPath) -> int:
    """How many levels two racks share, counted from the widest."""
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        shared += 1
    return shared


def levels_crossed(one: RackPath | None, other: RackPath | None, depth: int) -> int:
    """How many of ``depth`` levels are crossed between two racks: 0 (same rack) to ``depth``.

    ``depth`` is the number of levels of the deepest rack in sight. Racks that share
    their ``c`` widest levels but are not the same cross the ``depth - c`` levels below.
    A rack that is not known is as far from every rack as can be.
    """
    if one is None or other is None:
        return depth
    if one == other:
        return 0
    return depth - common_levels(one, other)


# ---- Which replica of a partition a client reads: of those in sync, the nearest by levels
# (KIP-879).
#
# A replica is nearer the fewer levels are crossed between the client's rack and its broker's
# (:func:`placement_core.racks.levels_crossed`): the client's own rack, then another one of the
# room, then of the data centre. The leader is read wherever no other replica is nearer than it.
# Several followers that are nearer than the leader, and equally near, take turns by ``turn``:
# the lowest id of them would otherwise serve every client of a data centre.


def nearest_replica(
    client_rack: object, in_sync: Mapping[int, object], leader: int, turn: int = 0
) -> int:
    """The broker to read from: the leader, or a follower in sync that is nearer than it.

    ``in_sync`` has the rack of each broker that holds a replica in sync, in any order. Racks are
    taken as :func:`placement_core.racks.parse_rack` takes them: a follower whose rack is not
    known is nobody's nearest, a leader whose rack is not known (or that ``in_sync`` lacks) is as
    far as can be, and a client whose rack is not known reads from the leader. Of equals, sorted
    by id, the one at ``turn`` modulo their number.

    >>> racks = {1: "/dc1/r1", 2: "/dc2/r1", 3: "/dc2/r2"}
    >>> [nearest_replica(rack, racks, leader=1) for rack in ("/dc1/r9", "/dc2/r2", "/dc3/r1")]
    [1, 3, 1]
    >>> [nearest_replica("/dc2/r9", racks, leader=1, turn=turn) for turn in range(3)]
    [2, 3, 2]
    """
    here = parse_rack(client_rack)
    if here is None:
        return leader
    paths = {broker: parse_rack(rack) for broker, rack in in_sync.items()}
    depth = max([len(here), *(len(path) for path in paths.values() if path is not None)])
    crossed = {broker: levels_crossed(here, path, depth) for broker, path in paths.items()}
    least = min(crossed.values(), default=depth)
    if crossed.get(leader, depth) == least:
        return leader
    equals = sorted(broker for broker, levels in crossed.items() if levels == least)
    return equals[turn % len(equals)]


def turn_of(topic: str, partition: int) -> int:
    """A partition's turn among equals: the same in every process, next partition, next turn.

    So the partitions of a topic that have the same choice are spread exactly, and topics begin
    at different replicas: of topics with one partition each, about as many read each of them.
    """
    return crc32(topic.encode()) + partition
