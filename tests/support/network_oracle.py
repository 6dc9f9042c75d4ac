"""Which members must be as loaded as which: the balanced blocks of a group, by enumeration.

``max_imbalance`` is a share of the level of a member's block, so the tests need levels of
their own making. In each connected component of topics and members, h is the average load
rounded up. Either loads of h and h-1 alone are possible, and the component is one block of
level h, or some set of topics is too large for its subscribers; the least set that is too
large by the most goes apart with its subscribers, and both parts are looked at again.
Enumerating all sets of topic classes is slow and obvious, which is what a test wants.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.assignment_facts import Facts

Sizes = dict[frozenset[int], int]
"""Subscribers of a class of topics to the partitions of all topics of that class."""


def topic_classes(facts: Facts) -> Sizes:
    """Partitions by their set of subscribers; topics without partitions leave no trace."""
    sizes: Sizes = {}
    for takers in facts.takers:
        key = frozenset(takers)
        sizes[key] = sizes.get(key, 0) + 1
    return sizes


def components(sizes: Sizes, members: frozenset[int]) -> Iterator[tuple[Sizes, frozenset[int]]]:
    """The parts of a group that share no member, by their lowest member."""
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
    """The classes that cannot be served at loads h and h-1, with their subscribers, or None.

    ``members * h - partitions`` blanks, one a member at most, turn "h or h-1" into "exactly
    h". A set of classes is too large where it, with the blanks (then members outside can
    still take one each) or without, exceeds what its subscribers can hold. The sets that
    exceed it by the most are closed under intersection: the least one is the answer.
    """
    classes = list(sizes)
    blanks = members * h - sum(sizes.values())
    worst = 0
    least: set[frozenset[int]] = set()
    for bits in range(1, 1 << len(classes)):
        chosen = {key for position, key in enumerate(classes) if bits >> position & 1}
        subscribers = len(frozenset().union(*chosen))
        size = sum(sizes[key] for key in chosen)
        excess = max(size - h * subscribers, size + blanks - members - (h - 1) * subscribers)
        if excess > worst:
            worst, least = excess, chosen
        elif excess == worst and worst > 0:
            least = least & chosen
    if worst == 0:
        return None
    return least, set(frozenset().union(*least))


def levels(sizes: Sizes, members: frozenset[int]) -> dict[int, int]:
    """Per member, the level of its block: the average load of the block, rounded up."""
    found: dict[int, int] = {}
    for part, inside in components(sizes, members):
        h = -(-sum(part.values()) // len(inside))
        split = too_large(part, len(inside), h)
        if split is None:
            found.update(dict.fromkeys(inside, h))
            continue
        heavy, crowded = split
        found.update(levels({key: part[key] for key in heavy}, frozenset(crowded)))
        rest: Sizes = {}
        for key, size in part.items():
            if key not in heavy:
                outside = key - crowded
                rest[outside] = rest.get(outside, 0) + size
        found.update(levels(rest, inside - crowded))
    return found
