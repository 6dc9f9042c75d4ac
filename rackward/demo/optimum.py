"""The fewest off-rack partitions that a balanced group can have, by a formula of its own.

The demo holds our group against this number, so it must not come from the solver that
made the plan. It needs what the demo's groups have: every member subscribes to the same
partitions, and racks are near or far, nothing between.

Of P partitions and N members, every load is b = P // N or b + 1, and exactly e = P % N
members have the latter. Say rack r has n members and leads L partitions. If x of its
members are among the e, it has room for n·b + x and so reads at most min(L, n·b + x) in
its own rack. Each unit of x adds one local partition while L - n·b is not used up, then
nothing: at most min(n, max(0, L - n·b)) units are worth having. Units are alike and there
are e in all, hence

    local = Σ min(L, n·b) + min(e, Σ min(n, max(0, L - n·b)))

and the bound is met: give each rack that much of its own, and what is left (partitions
led elsewhere, or nowhere) fills the room that is left, which is the same number. What is
led from a known rack and not local is off-rack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


def fewest_off_rack(member_racks: Iterable[str | None], leader_racks: Sequence[str | None]) -> int:
    """The optimum for members in ``member_racks`` that all read every partition.

    ``leader_racks`` holds the rack of each partition's leader; None (not known) costs
    nothing anywhere. Raises ValueError for a group without members.
    """
    members = Counter(member_racks)
    if not members:
        raise ValueError("a group without members has no optimum")
    leaders = Counter(rack for rack in leader_racks if rack is not None)
    floor, extra = divmod(len(leader_racks), members.total())
    local = worth_more = 0
    for rack, led in leaders.items():
        room = members[rack] * floor
        local += min(led, room)
        worth_more += min(members[rack], max(0, led - room))
    return leaders.total() - local - min(extra, worth_more)
