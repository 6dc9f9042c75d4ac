"""The scenarios: from a group to who would read what, and from where."""

from __future__ import annotations

from collections.abc import Mapping

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Plan
from placement_core import TopicPartition
from rack_traffic.what_if.apache import apache_cooperative_sticky, apache_range
from rack_traffic.what_if.layout import laid_out
from rack_traffic.what_if.model import GroupCase, Outcome

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
