"""Rack ids, their levels, and what it crosses to go from one rack to another.

A rack id is an opaque string (``use1-az1``) or, where it begins with a slash, a path
whose levels run from the widest to the narrowest: ``/dc1/room2/r7`` (KIP-879).
An absent or empty id means that the rack is not known.
"""

from __future__ import annotations

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
