"""From what was measured to figures: bytes, moves, prediction and pauses. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assignors import LeaderRackAwareCooperativeSticky, Member
from placement_core import ClusterView, TopicPartition, parse_rack
from placement_core.racks import DEFAULT_MAX_SHARE, nearest_groups
from rack_traffic.prices import PriceTable
from rack_traffic.what_if.cases import (
    GroupCase,
    PartitionCase,
    ScenarioMetrics,
    scenario_metrics,
)
from rack_traffic.what_if.scenarios import present_assignments
from rackward.bench.clients import Read
from rackward.bench.groups import Assignment
from rackward.bench.strategies import Producers, Strategy

BURST_SECONDS = 1.5
"""Changes of members' assignments that are no further apart belong to one rebalance."""

# ---- What moved, and the optimum.


def moved_partitions(before: Assignment, after: Assignment) -> int:
    """Return the number of partitions taken from members that are in both assignments."""
    return sum(
        len(partitions - after[member]) for member, partitions in before.items() if member in after
    )


def min_off_rack(member_racks: Iterable[str | None], leader_racks: Sequence[str | None]) -> int:
    """Return the minimum number of off-rack partitions that a balanced group can have.

    Groups with rackward's assignors are compared with this number, so it is a formula and not the
    result of the solver that made the assignment. It holds for groups whose members all subscribe
    to the same partitions, and for racks without levels. ``leader_racks`` holds the rack of each
    partition's leader; None (unknown) is never off-rack. Raises ValueError for a group without
    members.

    Of P partitions and N members, every member reads b = P // N or b + 1, and exactly
    e = P % N members read b + 1. Let rack r have n members and lead L partitions. If x of its
    members are among the e, they read at most min(L, n·b + x) partitions in their own rack.
    Each unit of x adds one local partition until L is reached, so at most
    min(n, max(0, L - n·b)) units are useful in this rack. Units are interchangeable and there
    are e of them, hence

        local = Σ min(L, n·b) + min(e, Σ min(n, max(0, L - n·b)))

    The bound is reached: assign that many local partitions in each rack, and the other
    partitions to the remaining capacity, which is exactly as large. Partitions with a known
    leader rack that are not local are off-rack.
    """
    members = Counter(member_racks)
    if not members:
        raise ValueError("a group without members has no optimum")
    leaders = Counter(rack for rack in leader_racks if rack is not None)
    base, extra = divmod(len(leader_racks), members.total())
    local = useful_extra = 0
    for rack, led in leaders.items():
        capacity = members[rack] * base
        local += min(led, capacity)
        useful_extra += min(members[rack], max(0, led - capacity))
    return leaders.total() - local - min(extra, useful_extra)


# ---- Prediction.


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """The rack of a member, and the topics that it subscribes to."""

    rack: str
    topics: tuple[str, ...]


def group_case(
    name: str,
    strategy: Strategy,
    members: Mapping[str, MemberInfo],
    assignment: Assignment,
    partitions: Sequence[TopicPartition],
    view: ClusterView,
    log_bytes: Sequence[int],
) -> GroupCase:
    """Return a group as the pipeline's what-if has it.

    ``members`` may have more than the present ones, which are those of ``assignment``.
    ``log_bytes`` is by the number of a partition.
    """
    present = []
    for member, numbers in sorted(assignment.items()):
        info = members[member]
        owned: dict[str, list[int]] = {}
        for number in sorted(numbers):
            owned.setdefault(partitions[number].topic, []).append(partitions[number].partition)
        present.append(Member(member, frozenset(info.topics), info.rack, owned=owned))
    leaders = view.known_leaders
    return GroupCase(
        cluster="bench",
        group=name,
        assignor=strategy.assignor,
        hours=1.0,
        members=tuple(present),
        partitions={
            tp: PartitionCase(leaders.get(tp), view.replicas[tp], view.replicas[tp], size)
            for tp, size in zip(partitions, log_bytes, strict=True)
        },
        racks=view.racks(),
        assigned_by_brokers=strategy.by_brokers,
    )


def divided_at_change(
    read: Sequence[int], before: Assignment, after: Assignment
) -> tuple[list[int], list[int]]:
    """Divide what a group read between two snapshots (index = partition) between both.

    Owners and leaders are those of the first snapshot for the first half, as in rules 14, 16 and 17
    of docs/traffic-rules.md. All of what was read belongs to the one snapshot in which the
    partition has an owner, if the other one was taken during a rebalance.
    """
    owned_before, owned_after = (
        frozenset[int]().union(*assignment.values()) for assignment in (before, after)
    )
    first = []
    for number, size in enumerate(read):
        if number in owned_before and number in owned_after:
            first.append(size // 2)
        else:
            first.append(size if number in owned_before else 0)
    return first, [size - part for size, part in zip(read, first, strict=True)]


def predicted(strategy: Strategy, case: GroupCase) -> ScenarioMetrics:
    """Return what the group reads as it is, from leaders or from the replica in its rack."""
    as_is, follower_fetching = present_assignments(case)
    scenario = follower_fetching if strategy.reads_followers else as_is
    return scenario_metrics(case, scenario, as_is, PriceTable())


def predicted_writes(
    producers: Producers,
    written: Mapping[str, Mapping[str, float]],
    leader_racks: Mapping[str, Sequence[str | None]],
) -> float:
    """Return the share of the bytes that producers write to leaders in other racks than theirs.

    ``written`` has the bytes by topic and rack of the producers, ``leader_racks`` the rack of each
    partition's leader. kafka-python's partitioner chooses any partition.
    """
    whole = across = 0.0
    for topic, by_rack in written.items():
        leaders = dict(enumerate(leader_racks[topic]))
        for rack, size in by_rack.items():
            path = parse_rack(rack)
            assert path is not None
            # Java's has no bound.
            bound = DEFAULT_MAX_SHARE if producers is Producers.RACKWARD else len(leaders)
            groups = nearest_groups(path, leaders, bound)
            if producers is Producers.STOCK:
                groups = [(list(leaders), 1.0)]
            whole += size
            across += size * sum(
                share * sum(leaders[number] != rack for number in numbers) / len(numbers)
                for numbers, share in groups
            )
    return across / whole


def optimum(case: GroupCase) -> int:
    """Return the minimum of off-rack partitions of a balanced assignment.

    If all members read the same topics, it is `min_off_rack`; otherwise what rackward's assignor
    reaches, which is the minimum.
    """
    leader_racks = case.leader_racks()
    if len({member.topics for member in case.members}) == 1:
        return min_off_rack([member.rack for member in case.members], leader_racks)
    # Here partitions are complete and in order.
    by_topic: dict[str, list[str | None]] = {}
    for partition, rack in zip(case.partitions, leader_racks, strict=True):
        by_topic.setdefault(partition.topic, []).append(rack)
    return LeaderRackAwareCooperativeSticky().assign(case.members, by_topic).off_rack


# ---- What the members read, and when.


def read_figures(
    reads: Sequence[Read], sent: Mapping[TopicPartition, Mapping[int, float]]
) -> tuple[int, float]:
    """Return the number of records read, and the longest pause in seconds (see `Result`).

    ``reads`` are those of a group, in order of time. ``sent`` has the time of each record by
    partition and offset, in the same clock; of a record that is not in it no pause is counted.
    """
    read_to = dict.fromkeys(sent, 0)
    read_at = dict.fromkeys(sent, 0.0)
    pause = 0.0
    for read in reads:
        begin, end = max(read.first, read_to[read.partition]), read.last + 1
        if end > begin:
            written_at = sent[read.partition].get(begin, read.at)
            waited_since = max(read_at[read.partition], written_at)
            pause = max(pause, read.at - waited_since)
            read_to[read.partition], read_at[read.partition] = end, read.at
    return sum(read.records for read in reads), pause


def bursts(times: Sequence[float], since: float) -> int:
    """Return the number of bursts in sorted times: of changes that belong to one rebalance."""
    count, last = 0, since
    for at in times:
        if at >= since:
            count += not count or at - last > BURST_SECONDS
            last = at
    return count
