"""From what was measured to figures: bytes, moves, prediction, latency and pauses. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assignors import LeaderRackAwareCooperativeSticky, Member
from placement_core import ClusterView, TopicPartition
from rack_traffic.prices import PriceTable
from rack_traffic.what_if.assignments import present_assignments, scenario_assignments
from rack_traffic.what_if.cases import (
    GroupCase,
    PartitionCase,
    ScenarioMetrics,
    scenario_metrics,
)
from rack_traffic.what_if.leader_layout import leader_layout
from rackward.bench.clients import Read
from rackward.bench.groups import Assignment
from rackward.bench.strategies import Strategy
from rackward.bench.traffic import TrafficMatrix

BURST_SECONDS = 1.5
"""Changes of members' assignments that are no further apart belong to one rebalance."""

# ---- What crosses racks, and what moved.


def cross_rack_bytes(matrix: TrafficMatrix) -> int:
    """Return the bytes sent from a broker in one rack to members in another."""
    return sum(size for (reader, broker), size in matrix.items() if reader != broker)


def nested(matrix: TrafficMatrix) -> dict[str, dict[str, int]]:
    """Return the bytes as they are in a `Result`."""
    rows: dict[str, dict[str, int]] = {}
    for (reader, broker), size in sorted(matrix.items()):
        rows.setdefault(reader, {})[broker] = size
    return rows


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


def bytes_by_racks(case: GroupCase) -> TrafficMatrix:
    """Return what the members read from the leaders of their partitions, by racks.

    Partitions without a reader, or without a leader in a known rack, are left out.
    """
    matrix: Counter[tuple[str, str]] = Counter()
    for member in case.members:
        for topic, numbers in member.owned.items():
            for number in numbers:
                partition = case.partitions[TopicPartition(topic, number)]
                leader_rack = case.rack_of(partition.leader)
                if member.rack is not None and leader_rack is not None:
                    matrix[member.rack, leader_rack] += partition.bytes
    return matrix


def forecast(cases: Sequence[GroupCase]) -> dict[str, float]:
    """Return, by scenario of the what-if, the share (0 to 1) of all bytes of these groups that
    would cross racks."""
    layout = leader_layout(cases)
    prices = PriceTable()
    crossing, whole = Counter[str](), Counter[str]()
    for case in cases:
        scenarios = scenario_assignments(case, layout)
        for scenario in scenarios:
            metrics = scenario_metrics(case, scenario, scenarios[0], prices)
            crossing[scenario.scenario] += metrics.crossing_bytes
            whole[scenario.scenario] += metrics.bytes
    return {name: round(crossing[name] / max(1, size), 6) for name, size in whole.items()}


def optimum(case: GroupCase) -> int:
    """Return the minimum of off-rack partitions of a balanced assignment.

    If all members read the same topics, it is `min_off_rack`; otherwise the minimum that the solver
    of rackward's assignors proves.
    """
    leader_racks = case.leader_racks()
    if len({member.topics for member in case.members}) == 1:
        return min_off_rack([member.rack for member in case.members], leader_racks)
    # Here partitions are complete and in order.
    by_topic: dict[str, list[str | None]] = {}
    for partition, rack in zip(case.partitions, leader_racks, strict=True):
        by_topic.setdefault(partition.topic, []).append(rack)
    return LeaderRackAwareCooperativeSticky().assign(case.members, by_topic).optimum


# ---- What the members read, and when.


@dataclass(frozen=True, slots=True)
class ReadFigures:
    """See the fields of `Result` with the same names."""

    records_read: int
    records_again: int
    longest_pause: float
    latency_p50: float
    latency_p99: float


def read_figures(
    reads: Sequence[Read], sent: Mapping[TopicPartition, Sequence[float]]
) -> ReadFigures:
    """Return the figures of a group; ``reads`` are in order of time.

    ``sent`` has the time of each record by partition and offset, in the same clock. Only the first
    read of a record has a latency.
    """
    read_to = dict.fromkeys(sent, 0)
    read_at = dict.fromkeys(sent, 0.0)
    latencies: list[float] = []
    pause = 0.0
    records = again = 0
    for read in reads:
        times = sent[read.partition]
        begin, end = max(read.first, read_to[read.partition]), read.last + 1
        records += read.records
        again += read.records - max(0, end - begin)
        if end <= begin:
            continue
        waited_since = max(read_at[read.partition], times[begin])
        pause = max(pause, read.at - waited_since)
        latencies += [read.at - at for at in times[begin:end]]
        read_to[read.partition], read_at[read.partition] = end, read.at
    p50, p99 = (
        np.quantile(latencies, (0.5, 0.99), method="inverted_cdf").tolist()
        if latencies
        else (0.0, 0.0)
    )
    return ReadFigures(records, again, pause, p50, p99)


def bursts(times: Sequence[float], since: float) -> int:
    """Return the number of bursts in sorted times: of changes that belong to one rebalance."""
    count, last = 0, since
    for at in times:
        if at >= since:
            count += not count or at - last > BURST_SECONDS
            last = at
    return count
