"""The rack rules, by their definition: which sets of brokers a partition may be on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import combinations

from placement_core import RackPath, parse_rack

Paths = Mapping[int, RackPath]


def paths_of(racks: Mapping[int, str | None]) -> dict[int, RackPath]:
    """Broker id to its rack's levels, all of one depth; one rack for all where none is known."""
    found = {broker: parse_rack(rack) or ("",) for broker, rack in racks.items()}
    depth = max(map(len, found.values()))
    return {broker: path + ("",) * (depth - len(path)) for broker, path in found.items()}


def is_lawful(brokers: Iterable[int], paths: Paths) -> bool:
    """Are they as even over the racks as can be: the widest level first, then below each node?"""
    return _even(frozenset(brokers), frozenset(paths.items()), 0)


def _even(chosen: frozenset[int], paths: frozenset[tuple[int, RackPath]], level: int) -> bool:
    below: dict[str, set[tuple[int, RackPath]]] = {}
    for broker, path in paths:
        below.setdefault(path[level], set()).add((broker, path))
    found = [len(chosen & {broker for broker, _ in group}) for group in below.values()]
    if sum(n * n for n in found) > _least(tuple(map(len, below.values())), len(chosen)):
        return False
    if level + 1 == len(next(iter(paths))[1]):
        return True
    return all(
        _even(chosen & {broker for broker, _ in group}, frozenset(group), level + 1)
        for group in below.values()
    )


@cache
def _least(sizes: tuple[int, ...], count: int) -> int:
    """The least sum of squares of ``count`` things in vessels of these sizes."""
    if not sizes:
        return 0 if count == 0 else 1 << 30
    return min(n * n + _least(sizes[1:], count - n) for n in range(min(sizes[0], count) + 1))


def lawful_sets(paths: Paths, replicas: int) -> list[frozenset[int]]:
    """All sets of ``replicas`` brokers that keep the rules."""
    return [
        frozenset(chosen)
        for chosen in combinations(sorted(paths), replicas)
        if is_lawful(chosen, paths)
    ]
