"""Who owns each partition now, by what the members claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from assignors.intake import Group
from assignors.model import Member
from placement_core.matching import IntArray

NOBODY = -1


def read_owners(group: Group) -> IntArray:
    """Each partition's owner, as the number of a member of ``group``, or :data:`NOBODY`.

    A partition that several members claim belongs to the claim of the highest generation, and to
    nobody if that is claimed twice. Then a claim only counts if its member subscribes to
    the topic. Claims on what does not exist are passed over.
    """
    members, base = group.members, group.base
    topic_index = {topic: t for t, topic in enumerate(group.topics)}
    owner: IntArray = np.full(int(base[-1]), NOBODY, np.int64)
    topics, claimants, numbers = _read_claims(members, topic_index)
    known = (topics >= 0) & (numbers >= 0)
    known[known] = numbers[known] < np.diff(base)[topics[known]]
    topics, claimants, numbers = topics[known], claimants[known], numbers[known]
    parts = base[topics] + numbers
    if len(parts) and np.bincount(parts).max() > 1:
        generations = np.array([_generation(member) for member in members], np.int64)
        chosen = _settle_claims(parts, claimants, generations)
        topics, claimants, parts = topics[chosen], claimants[chosen], parts[chosen]
    valid = group.subscribed[topics, group.subscription[claimants]]
    owner[parts[valid]] = claimants[valid]
    return owner


def _settle_claims(parts: IntArray, claimants: IntArray, generations: IntArray) -> IntArray:
    """The indexes of the claims that hold, where partitions are claimed more than once."""
    order = np.lexsort((claimants, -generations[claimants], parts))
    part, claimant = parts[order], claimants[order]
    repeated = np.zeros(len(order), bool)
    repeated[1:] = (part[1:] == part[:-1]) & (claimant[1:] == claimant[:-1])
    order = order[~repeated]
    part, generation = parts[order], generations[claimants[order]]
    first = np.ones(len(order), bool)
    first[1:] = part[1:] != part[:-1]
    rivalled = np.zeros(len(order), bool)
    rivalled[:-1] = (part[1:] == part[:-1]) & (generation[1:] == generation[:-1])
    holding: IntArray = order[first & ~rivalled]
    return holding


def _read_claims(
    members: Sequence[Member], topic_index: Mapping[str, int]
) -> tuple[IntArray, IntArray, IntArray]:
    """Every claim as (topic or -1, member, partition number)."""
    names: list[str] = []
    lists: list[Sequence[int]] = []
    counts = []
    for member in members:
        names.extend(member.owned)
        lists.extend(member.owned.values())
        counts.append(len(member.owned))
    try:
        numbers, lengths = _flatten(lists)
    except (TypeError, ValueError, OverflowError):
        numbers, lengths = _flatten([_whole_numbers(claims) for claims in lists])
    try:
        topic_of_list = np.fromiter(map(topic_index.__getitem__, names), np.int64, len(names))
    except KeyError:
        topic_of_list = np.array([topic_index.get(name, -1) for name in names], np.int64)
    member_of_list = np.repeat(np.arange(len(members)), np.array(counts, np.int64))
    return np.repeat(topic_of_list, lengths), np.repeat(member_of_list, lengths), numbers


def _flatten(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """All claims in one row, and how many there are in each list.

    Raises TypeError, ValueError or OverflowError where one of them is no whole number.
    """
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    numbers = np.array(list(chain.from_iterable(lists)) or (), None if lengths.any() else np.int64)
    if numbers.dtype != np.int64:
        raise TypeError("claims that are no whole numbers")
    return numbers, lengths


def _whole_numbers(claims: object) -> list[int]:
    """What of ``claims`` can be partition numbers."""
    if not isinstance(claims, Iterable):
        return []
    return [int(n) for n in claims if isinstance(n, int | np.integer) and 0 <= n < 1 << 31]


def _generation(member: Member) -> int:
    """The member's generation; -1 where it is not one."""
    generation = member.generation
    if isinstance(generation, int) and 0 <= generation < 1 << 62:
        return generation
    return -1
