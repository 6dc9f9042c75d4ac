"""Leaders wander: ours stays at the optimum with the fewest moves, a sticky one alone decays.

Twelve topics of thirty partitions, twelve members in three racks, leaders anywhere; in each
of 25 rounds a tenth of the leaders moves to another rack and the group assigns again.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRacks, Member
from tests.support.assignment_exact import check_sticky
from tests.support.random_groups import Group, fed_back, locality, move_leaders, random_leaders

RACKS = ("a", "b", "c")
ROUNDS = 25


def start(seed: int) -> tuple[Random, list[Member], dict[str, list[str | None]]]:
    rng = Random(seed)
    leaders = random_leaders(rng, 12, 30, RACKS)
    topics = frozenset(leaders)
    return rng, [Member(f"m-{i:02}", topics, rack=RACKS[i % 3]) for i in range(12)], leaders


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_round_is_at_the_optimum_in_locality_and_in_moves(seed: int) -> None:
    rng, members, leaders = start(seed)
    for generation in range(ROUNDS + 1):
        plan = check_sticky(Group(tuple(members), leaders))
        assert set(plan.loads.values()) == {30}
        assert locality(plan) >= 0.9
        assert plan.moved <= 36 * 2, "a tenth of the leaders moved, so few partitions need to"
        members = fed_back(members, plan, generation)
        leaders = move_leaders(rng, leaders, 0.1, RACKS)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_stickiness_alone_decays_to_chance_on_the_same_story(seed: int) -> None:
    """kafka-python's CooperativeSticky, which begins with our plan: all but local."""
    pytest.importorskip("kafka")
    rng, members, leaders = start(seed)
    plan = LeaderRackAwareCooperativeSticky().assign(members, leaders)
    assert locality(plan) >= 0.9
    held = {m: dict(topics) for m, topics in plan.partitions.items()}
    for generation in range(ROUNDS):
        leaders = move_leaders(rng, leaders, 0.1, RACKS)
        held = kafka_python_sticky(members, held, leaders, generation)
    rack_of = {member.id: member.rack for member in members}
    local = sum(
        leaders[topic][number] == rack_of[member]
        for member, topics in held.items()
        for topic, numbers in topics.items()
        for number in numbers
    )
    assert local / 360 < 0.45


def kafka_python_sticky(
    members: Sequence[Member],
    held: dict[str, dict[str, list[int]]],
    leaders: LeaderRacks,
    generation: int,
) -> dict[str, dict[str, list[int]]]:
    """One rebalance of kafka-python's assignor: its second round hands out what was withheld."""
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    for _ in range(2):
        joined = [joining(member, held[member.id], generation) for member in members]
        given = CooperativeStickyAssignor().assign(Topics(leaders), joined)
        held = {
            member: {topic: sorted(numbers) for topic, numbers in assignment.assigned_partitions}
            for member, assignment in given.items()
        }
    assert sum(len(n) for topics in held.values() for n in topics.values()) == 360
    return held


class Topics:
    """As much of kafka-python's ClusterMetadata as its assignors ask for."""

    def __init__(self, leaders: LeaderRacks) -> None:
        self.leaders = leaders

    def topics(self) -> set[str]:
        return set(self.leaders)

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(range(len(self.leaders[topic])))


def joining(member: Member, held: dict[str, list[int]], generation: int) -> Any:
    """A member's join as kafka-python's group leader gets it."""
    from kafka.protocol.consumer.group import JoinGroupResponse
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    owned = [
        ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in held.items()
    ]
    subscription = ConsumerProtocolSubscription(
        version=2,
        topics=sorted(member.topics),
        user_data=b"",
        owned_partitions=owned,
        generation_id=generation,
    )
    return JoinGroupResponse.JoinGroupResponseMember(
        version=5, member_id=member.id, group_instance_id=None, metadata=subscription
    )
