"""While leaders move, our plans stay optimal, and those of a rackless sticky assignor degrade.

Twelve topics of thirty partitions, twelve members in three racks, leaders at random. In each of 25
rounds a tenth of the leaders moves to another rack, and the group rebalances.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRacks, Member
from tests.support.assignments import check_sticky
from tests.support.random_groups import (
    Group,
    locality,
    move_leaders,
    random_leaders,
    with_assignments,
)

RACKS = ("a", "b", "c")
ROUNDS = 25


def start(seed: int) -> tuple[Random, list[Member], dict[str, list[str | None]]]:
    rng = Random(seed)
    leaders = random_leaders(rng, 12, 30, RACKS)
    topics = frozenset(leaders)
    return rng, [Member(f"m-{i:02}", topics, rack=RACKS[i % 3]) for i in range(12)], leaders


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_round_is_optimal_in_locality_and_moves(seed: int) -> None:
    rng, members, leaders = start(seed)
    for generation in range(ROUNDS + 1):
        plan = check_sticky(Group(tuple(members), leaders))
        assert set(plan.loads.values()) == {30}
        assert locality(plan) >= 0.9
        assert plan.moved <= 36 * 2, "a tenth of the leaders moved, so few partitions need to"
        members = with_assignments(members, plan, generation)
        leaders = move_leaders(rng, leaders, 0.1, RACKS)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_locality_of_a_sticky_assignor_decays(seed: int) -> None:
    """kafka-python's CooperativeSticky, starting from our plan."""
    pytest.importorskip("kafka")
    rng, members, leaders = start(seed)
    plan = LeaderRackAwareCooperativeSticky().assign(members, leaders)
    assert locality(plan) >= 0.9
    owned = {m: dict(topics) for m, topics in plan.partitions.items()}
    for generation in range(ROUNDS):
        leaders = move_leaders(rng, leaders, 0.1, RACKS)
        owned = kafka_python_sticky(members, owned, leaders, generation)
    rack_of = {member.id: member.rack for member in members}
    local = sum(
        leaders[topic][number] == rack_of[member]
        for member, topics in owned.items()
        for topic, numbers in topics.items()
        for number in numbers
    )
    assert local / 360 < 0.45


def kafka_python_sticky(
    members: Sequence[Member],
    owned: dict[str, dict[str, list[int]]],
    leaders: LeaderRacks,
    generation: int,
) -> dict[str, dict[str, list[int]]]:
    """Run both rounds of a rebalance with kafka-python's assignor."""
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    for _ in range(2):
        joined = [joining(member, owned[member.id], generation) for member in members]
        assignments = CooperativeStickyAssignor().assign(Topics(leaders), joined)
        owned = {
            member: {topic: sorted(numbers) for topic, numbers in assignment.assigned_partitions}
            for member, assignment in assignments.items()
        }
    assert sum(len(n) for topics in owned.values() for n in topics.values()) == 360
    return owned


class Topics:
    """The part of kafka-python's ClusterMetadata that its assignors use."""

    def __init__(self, leaders: LeaderRacks) -> None:
        self.leaders = leaders

    def topics(self) -> set[str]:
        return set(self.leaders)

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(range(len(self.leaders[topic])))


def joining(member: Member, owned: dict[str, list[int]], generation: int) -> Any:
    """Return a member as kafka-python's group leader receives it."""
    from kafka.protocol.consumer.group import JoinGroupResponse
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    owned_partitions = [
        ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in owned.items()
    ]
    subscription = ConsumerProtocolSubscription(
        version=2,
        topics=sorted(member.topics),
        user_data=b"",
        owned_partitions=owned_partitions,
        generation_id=generation,
    )
    return JoinGroupResponse.JoinGroupResponseMember(
        version=5, member_id=member.id, group_instance_id=None, metadata=subscription
    )
