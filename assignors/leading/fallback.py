"""A plain plan for the day the assignor itself fails: a group must settle all the same."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from assignors.model import LeaderRacks, Member


def plain_plan(
    members: Iterable[Member], leader_racks: LeaderRacks
) -> dict[str, dict[str, list[int]]]:
    """Every partition to a subscriber: to its owner if that is not full, else to the least loaded.

    Full is the ceiling of the average over all members. Racks are not looked at. Owners
    keep what they have so that a cooperative group comes to rest on this plan too.
    """
    by_id = sorted(members, key=lambda member: member.id)
    subscribers: dict[str, list[str]] = {}
    for member in by_id:
        for topic in member.topics:
            if topic in leader_racks:
                subscribers.setdefault(topic, []).append(member.id)
    plan: dict[str, dict[str, list[int]]] = {member.id: {} for member in by_id}
    load = dict.fromkeys(plan, 0)
    total = sum(len(leader_racks[topic]) for topic in subscribers)
    full = -(-total // len(plan)) if plan else 0
    owners = _owners(by_id, leader_racks)
    for topic in sorted(subscribers):
        unowned = []
        for partition in range(len(leader_racks[topic])):
            owner = owners.get((topic, partition))
            if owner is None or load[owner] >= full:
                unowned.append(partition)
            else:
                plan[owner].setdefault(topic, []).append(partition)
                load[owner] += 1
        least = [(load[member], member) for member in subscribers[topic]]
        heapq.heapify(least)
        for partition in unowned:
            count, member_id = least[0]
            heapq.heapreplace(least, (count + 1, member_id))
            plan[member_id].setdefault(topic, []).append(partition)
            load[member_id] += 1
    return {
        member_id: {topic: sorted(partitions) for topic, partitions in topics.items()}
        for member_id, topics in plan.items()
    }


def _owners(
    members: Sequence[Member], leader_racks: Mapping[str, Sequence[str | None]]
) -> dict[tuple[str, int], str]:
    """Who owns each partition: the latest claim of a subscriber, the first by id among equals."""
    claims: dict[tuple[str, int], tuple[int, str]] = {}
    for member in members:
        for topic, partitions in member.owned.items():
            if topic in member.topics and topic in leader_racks:
                for partition in partitions:
                    held = claims.get((topic, partition))
                    if held is None or held[0] < member.generation:
                        claims[topic, partition] = (member.generation, member.id)
    return {tp: member_id for tp, (_, member_id) in claims.items()}
