"""What Apache Kafka's own assignors make of a group, as models of their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assignors import LeaderRackAwareCooperativeSticky, Member
from placement_core import TopicPartition


def apache_range(members: Sequence[Member], sizes: dict[str, int]) -> dict[TopicPartition, str]:
    """RangeAssignor: topic by topic, contiguous blocks, the first members get one more.

    Members come in order of instance id, then of member id. Its rack-aware variant (KIP-881) does
    the same wherever every partition has a replica in every rack, or members do not tell theirs.
    """
    owner = {}
    for topic, size in sorted(sizes.items()):
        subscribed = sorted(
            (each for each in members if topic in each.topics),
            key=lambda each: (each.instance_id is None, each.instance_id or each.id, each.id),
        )
        start = 0
        for place, member in enumerate(subscribed):
            count = size // len(subscribed) + (place < size % len(subscribed))
            owner.update({TopicPartition(topic, n): member.id for n in range(start, start + count)})
            start += count
    return owner


def apache_cooperative_sticky(
    members: Sequence[Member], sizes: dict[str, int]
) -> dict[TopicPartition, str]:
    """CooperativeStickyAssignor, once it has settled: balanced, and otherwise as it was.

    It looks at no rack. Its two aims, balance first and then as little movement as that permits,
    are those of ours without racks, whose result is exact where Apache's is greedy: moves are at
    most those that the original makes.
    """
    blind = [replace(each, rack=None) for each in members]
    nowhere: dict[str, list[str | None]] = {topic: [None] * size for topic, size in sizes.items()}
    plan = LeaderRackAwareCooperativeSticky().assign(blind, nowhere)
    return {
        TopicPartition(topic, number): member
        for member, topics in plan.partitions.items()
        for topic, numbers in topics.items()
        for number in numbers
    }
