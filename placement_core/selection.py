"""Which replica of a partition a client reads: of those in sync, the nearest by levels (KIP-879).

A replica is nearer the fewer levels are crossed between the client's rack and its broker's
(:func:`placement_core.racks.levels_crossed`): the client's own rack, then another one of the
room, then of the data centre. The leader is read wherever no other replica is nearer than it.
Several followers that are nearer than the leader, and equally near, take turns by ``turn``:
the lowest id of them would otherwise serve every client of a data centre.
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

from placement_core.racks import levels_crossed, parse_rack


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
