"""The scenarios: from a group to who would read what, and from where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member, Plan
from placement_core import TopicPartition
from rack_traffic.what_if.inputs import GroupCase, Outcome
from rack_traffic.what_if.leader_layout import laid_out

# ---- What Apache Kafka's own assignors make of a group, as models of their results.


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


RANGE = "leader-rack-aware-range"
COOPERATIVE_STICKY = "leader-rack-aware-cooperative-sticky"

Owner = dict[TopicPartition, str]


def outcomes(case: GroupCase) -> list[Outcome]:
    """Every scenario of ``schemas.SCENARIOS``, in that order."""
    leaders = {p: case.rack_of(each.leader) for p, each in case.partitions.items()}
    led = case.leader_racks()
    sizes = {topic: len(row) for topic, row in led.items()}
    now = owned(case)
    ranged = LeaderRackAwareRange().assign(case.members, led)
    sticky = LeaderRackAwareCooperativeSticky().assign(case.members, led)
    moved, moves = laid_out(case)
    after = LeaderRackAwareCooperativeSticky().assign(case.members, case.racks_by_topic(moved))
    return [
        Outcome("as_is", case.assignor, now, leaders),
        Outcome("apache_range", "range", _known(case, apache_range(case.members, sizes)), leaders),
        Outcome(
            "apache_cooperative_sticky",
            "cooperative-sticky",
            _known(case, apache_cooperative_sticky(case.members, sizes)),
            leaders,
        ),
        Outcome("rackward_range", RANGE, _of(case, ranged), leaders),
        Outcome("rackward_cooperative_sticky", COOPERATIVE_STICKY, _of(case, sticky), leaders),
        Outcome("rackward_after_leader_layout", COOPERATIVE_STICKY, _of(case, after), moved, moves),
        Outcome("follower_fetching", case.assignor, now, followed(case, now)),
    ]


def owned(case: GroupCase) -> Owner:
    """Who owns what now."""
    return {
        partition: member.id
        for member in case.members
        for topic, numbers in member.owned.items()
        for number in numbers
        if (partition := TopicPartition(topic, number)) in case.partitions
    }


def followed(
    case: GroupCase, owner: Mapping[TopicPartition, str]
) -> dict[TopicPartition, str | None]:
    """The rack that each partition is read from where brokers let consumers read from followers.

    A replica in sync in the consumer's rack serves it, else the leader (KIP-392).
    """
    rack = {member.id: member.rack for member in case.members}
    source = {}
    for partition, each in case.partitions.items():
        mine = rack.get(owner.get(partition, ""))
        near = mine is not None and any(case.rack_of(broker) == mine for broker in each.isr)
        source[partition] = mine if near else case.rack_of(each.leader)
    return source


def _of(case: GroupCase, plan: Plan) -> Owner:
    return _known(
        case,
        {
            TopicPartition(topic, number): member
            for member, topics in plan.partitions.items()
            for topic, numbers in topics.items()
            for number in numbers
        },
    )


def _known(case: GroupCase, owner: Owner) -> Owner:
    """Without the partitions whose number is missing from the snapshots."""
    return {
        partition: member for partition, member in owner.items() if partition in case.partitions
    }
