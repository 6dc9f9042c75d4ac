"""The balanced blocks of a group, by enumeration.

``max_imbalance`` is a share of the level of a member's block, so the tests need levels that are
computed independently. In each connected component of topics and members, h is the average load
rounded up. Either loads of h and h-1 alone are possible, and the component is one block of level h,
or some set of topics is too large for its subscribers. Then the smallest set with the maximum
excess is split off with its subscribers, and both parts are treated alike. Enumerating all sets of
topic classes is slow, and simple enough for an oracle.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.assignment_facts import Facts

Sizes = dict[frozenset[int], int]
"""Subscribers of a class of topics to the partitions of all topics of that class."""


def topic_classes(facts: Facts) -> Sizes:
    """Return the number of partitions by set of subscribers, without empty topics."""
    sizes: Sizes = {}
    for candidates in facts.candidates:
        key = frozenset(candidates)
        sizes[key] = sizes.get(key, 0) + 1
    return sizes


def components(sizes: Sizes, members: frozenset[int]) -> Iterator[tuple[Sizes, frozenset[int]]]:
    """Yield the parts of a group that share no member, by their lowest member."""
    left = set(members)
    while left:
        inside = {min(left)}
        grown = True
        while grown:
            touching = [subscribers for subscribers in sizes if subscribers & inside]
            wider = inside.union(*touching)
            grown = wider != inside
            inside = wider
        left -= inside
        part = {subscribers: size for subscribers, size in sizes.items() if subscribers & inside}
        yield part, frozenset(inside)


def too_large(sizes: Sizes, members: int, h: int) -> tuple[set[frozenset[int]], set[int]] | None:
    """Return the classes that do not fit into loads of h and h-1, and their subscribers, or None.

    ``members * h - partitions`` blanks, at most one per member, turn "h or h-1" into "exactly h". A
    set of classes is too large if it exceeds the capacity of its subscribers, with the blanks (then
    members outside can still take one each) or without. The sets of maximum excess are closed under
    intersection; the smallest is returned.
    """
    classes = list(sizes)
    blanks = members * h - sum(sizes.values())
    max_excess = 0
    smallest: set[frozenset[int]] = set()
    for bits in range(1, 1 << len(classes)):
        chosen = {key for position, key in enumerate(classes) if bits >> position & 1}
        subscribers = len(frozenset().union(*chosen))
        size = sum(sizes[key] for key in chosen)
        excess = max(size - h * subscribers, size + blanks - members - (h - 1) * subscribers)
        if excess > max_excess:
            max_excess, smallest = excess, chosen
        elif excess == max_excess and max_excess > 0:
            smallest = smallest & chosen
    if max_excess == 0:
        return None
    return smallest, set(frozenset().union(*smallest))


def levels(sizes: Sizes, members: frozenset[int]) -> dict[int, int]:
    """Return the level of each member's block: its average load, rounded up."""
    level_of: dict[int, int] = {}
    for part, inside in components(sizes, members):
        h = -(-sum(part.values()) // len(inside))
        split = too_large(part, len(inside), h)
        if split is None:
            level_of.update(dict.fromkeys(inside, h))
            continue
        heavy, crowded = split
        level_of.update(levels({key: part[key] for key in heavy}, frozenset(crowded)))
        rest: Sizes = {}
        for key, size in part.items():
            if key not in heavy:
                outside = key - crowded
                rest[outside] = rest.get(outside, 0) + size
        level_of.update(levels(rest, inside - crowded))
    return level_of
