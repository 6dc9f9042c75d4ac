"""Rack ids, their levels, the distance between racks, and the replica that a client reads.

A rack id is an opaque string (``use1-az1``) or, if it begins with a slash, a path whose levels run
from the widest to the narrowest: ``/dc1/room2/r7`` (KIP-879). An absent or empty id means that the
rack is unknown.

Distance is the number of levels crossed between two racks. With ids of up to two levels::

    from      to        levels crossed
    /dc1/r1   /dc1/r1   0
    /dc1/r1   /dc1/r2   1
    /dc1/r1   /dc2/r1   2
    /dc1      /dc1/r1   1    (a level that one of them lacks counts as different)
    unknown   any       2
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from zlib import crc32

RackPath = tuple[str, ...]
"""The levels of a rack id, widest first; never empty."""


def parse_rack(rack: object) -> RackPath | None:
    """Return the levels of ``rack``, or None if the rack is unknown.

    None, values that are not strings, the empty string and a path without any level (``/``) are
    all "unknown", never an error: a group must not fail over the rack id of one broker or member.

    >>> parse_rack("use1-az1"), parse_rack("/dc1//r7/"), parse_rack("")
    (('use1-az1',), ('dc1', 'r7'), None)
    """
    if not isinstance(rack, str):
        return None
    if not rack.startswith("/"):
        return (rack,) if rack else None
    return tuple(level for level in rack.split("/") if level) or None


def is_off_rack(source: object, reader: object) -> bool | None:
    """Return whether a partition is read from another rack than the reader's.

    None, which is neither across racks nor local, if one of the two racks is unknown.

    >>> is_off_rack("a", "b"), is_off_rack("/a", "a"), is_off_rack("a", None)
    (True, False, None)
    """
    one, other = parse_rack(source), parse_rack(reader)
    return None if one is None or other is None else one != other


def common_levels(one: RackPath, other: RackPath) -> int:
    """Return how many levels two racks share, counted from the widest."""
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        shared += 1
    return shared


def levels_crossed(one: RackPath | None, other: RackPath | None, depth: int) -> int:
    """Return how many of ``depth`` levels lie between two racks: 0 (same rack) to ``depth``.

    ``depth`` is the number of levels of the deepest rack involved. Racks that share their ``c``
    widest levels without being equal cross the ``depth - c`` levels below. An unknown rack (None)
    is at the maximum distance from every rack.
    """
    if one is None or other is None:
        return depth
    if one == other:
        return 0
    return depth - common_levels(one, other)


DEFAULT_MAX_SHARE = 3.0
"""How much of a topic rack-aware producers write to one partition, in even shares, at most."""


def nearest_groups(
    rack: RackPath, leader_racks: Mapping[int, str | None], max_share: float
) -> list[tuple[list[int], float]]:
    """Return groups of partitions, nearest first, and the share of the records that each gets.

    ``leader_racks`` maps each writable partition to its leader's rack; None: unknown, and so
    farthest. Shares are more than 0 and sum to 1. This is the rule of :mod:`partitioners.choice`.
    """
    paths = {path for path in map(parse_rack, leader_racks.values()) if path is not None}
    max_of_partition = max_share * len(paths | {rack}) / max(1, len(leader_racks))
    by_levels: dict[int, list[int]] = {}
    for partition, leader_rack in sorted(leader_racks.items()):
        path = parse_rack(leader_rack)
        # A rack that equals the producer's is nearer than one that has further levels.
        levels = 0 if path is None else common_levels(rack, path) + (path == rack)
        by_levels.setdefault(levels, []).append(partition)
    groups = []
    rest = 1.0
    for levels in sorted(by_levels, reverse=True):
        share = min(rest, max_of_partition * len(by_levels[levels]))
        groups.append((by_levels[levels], share))
        rest -= share
        if rest < 1e-9:
            break
    return groups


def nearest_replica(
    client_rack: object, in_sync: Mapping[int, object], leader: int, tie_break: int = 0
) -> int:
    """Return the broker that a client should read from: the leader, or a nearer in-sync follower.

    Fewer levels between the client's rack and the broker's mean nearer. The leader is read unless
    a follower is nearer than the leader. Of several such followers at one distance, sorted by id,
    the one at ``tie_break`` modulo their number is returned; otherwise the lowest id would serve
    every client of a data centre.

    ``in_sync`` has the rack of each broker with an in-sync replica. Racks are read as by
    :func:`parse_rack`. A follower with an unknown rack is never nearest; a leader with an unknown
    rack, or that ``in_sync`` lacks, is at the maximum distance; a client with an unknown rack reads
    from the leader.

    >>> racks = {1: "/dc1/r1", 2: "/dc2/r1", 3: "/dc2/r2"}
    >>> [nearest_replica(rack, racks, leader=1) for rack in ("/dc1/r9", "/dc2/r2", "/dc3/r1")]
    [1, 3, 1]
    >>> [nearest_replica("/dc2/r9", racks, leader=1, tie_break=number) for number in range(3)]
    [2, 3, 2]
    """
    here = parse_rack(client_rack)
    if here is None:
        return leader
    paths = {broker: parse_rack(rack) for broker, rack in in_sync.items()}
    depth = max([len(here), *(len(path) for path in paths.values() if path is not None)])
    crossed = {broker: levels_crossed(here, path, depth) for broker, path in paths.items()}
    minimum = min(crossed.values(), default=depth)
    if crossed.get(leader, depth) == minimum:
        return leader
    equals = sorted(broker for broker, levels in crossed.items() if levels == minimum)
    return equals[tie_break % len(equals)]


RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The ``replica.selector.class`` of brokers that select replicas by rack (KIP-392)."""

LEADER_READING_PROTOCOLS = (
    "leader-rack-aware-range",
    "leader-rack-aware-cooperative-sticky",
    "rack-affinity",
)
"""Protocols whose members join with a rack and fetch without: rackward's, and that of kafka-go,
which requests Fetch up to version 10, the last one without a rack."""


def source_rack(
    client: str | None, leader: str | None, in_sync: Collection[str], sends_rack: bool | None
) -> str | None:
    """Return the rack that a client reads a partition from; None if it is unknown.

    ``client`` and ``leader`` are the racks of the client and the leader. ``in_sync`` are the racks
    of the in-sync replicas if the leader's broker has the RACK_AWARE_SELECTOR; else it is empty.
    That selector compares racks as a whole: a client whose rack has an in-sync replica reads there,
    any other client from the leader, however near another replica is (see `nearest_replica`).
    ``sends_rack`` is whether the client fetches with its rack; None: unknown.

    >>> [source_rack(rack, "a", {"a", "b"}, True) for rack in ("a", "b", "c")]
    ['a', 'b', 'a']
    >>> [source_rack("b", "a", {"a", "b"}, sends) for sends in (False, None)]
    ['a', None]
    """
    if sends_rack is False or not client or client == leader or client not in in_sync:
        return leader
    return client if sends_rack else None


def tie_break(topic: str, partition: int) -> int:
    """Return a partition's number for choosing among equally near replicas.

    It is the same in every process and increases by one from partition to partition, so that the
    partitions of a topic with the same choice are spread exactly. Topics begin at different
    numbers, so that topics with one partition each are spread as well.
    """
    return crc32(topic.encode()) + partition
