"""From what was measured to figures: prediction, latency and pauses. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from rackward.measurement.assignments import Assignment, min_off_rack
from rackward.measurement.groups import Read
from rackward.measurement.strategies import Strategy

BURST_SECONDS = 1.5
"""Changes of members' assignments that are no further apart belong to one rebalance."""

# ---- Prediction.


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group at the end of a step: member to rack, to subscribed topics, to partitions."""

    racks: Mapping[str, str]
    topics: Mapping[str, tuple[str, ...]]
    assignment: Assignment


def group_case(
    name: str,
    strategy: Strategy,
    state: GroupState,
    partitions: Sequence[TopicPartition],
    view: ClusterView,
    log_bytes: Sequence[int],
) -> GroupCase:
    """Return the group as the pipeline's what-if has it; ``log_bytes``, index = partition."""
    members = []
    for member, rack in sorted(state.racks.items()):
        owned: dict[str, list[int]] = {}
        for number in sorted(state.assignment.get(member, ())):
            owned.setdefault(partitions[number].topic, []).append(partitions[number].partition)
        members.append(Member(member, frozenset(state.topics[member]), rack, owned=owned))
    leaders = view.known_leaders
    return GroupCase(
        cluster="bench",
        group=name,
        assignor=strategy.assignor,
        hours=1.0,
        members=tuple(members),
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
    of docs/traffic.md. All of what was read belongs to the one snapshot in which the partition has
    an owner, if the other one was taken during a rebalance.
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


def reads_followers(strategy: Strategy) -> bool:
    """Whether members read the replica in their rack."""
    return strategy.follower_fetching or strategy.nearest


def predicted(strategy: Strategy, case: GroupCase) -> ScenarioMetrics:
    """Return what the group reads as it is, from leaders or from the replica in its rack."""
    as_is, follower_fetching = present_assignments(case)
    scenario = follower_fetching if reads_followers(strategy) else as_is
    return scenario_metrics(case, scenario, as_is, PriceTable())


def what_if(cases: Sequence[GroupCase]) -> list[dict[str, ScenarioMetrics]]:
    """Return the metrics of each scenario, by its name, of each of these groups."""
    layout = leader_layout(cases)
    prices = PriceTable()
    metrics = []
    for case in cases:
        scenarios = scenario_assignments(case, layout)
        metrics.append(
            {
                each.scenario: scenario_metrics(case, each, scenarios[0], prices)
                for each in scenarios
            }
        )
    return metrics


def optimum(case: GroupCase) -> int:
    """Return the minimum of off-rack partitions of a balanced assignment.

    If all members read the same topics, it is a formula of its own; otherwise the minimum that the
    solver of our assignors proves.
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


def read_figures(reads: Sequence[Read], sent: Sequence[Sequence[float]]) -> ReadFigures:
    """Return the figures of a group; ``reads`` are in order of time.

    ``sent`` has the time of each record by partition and offset, in the same clock. Only the first
    read of a record has a latency.
    """
    read_to = [0] * len(sent)
    read_at = [0.0] * len(sent)
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
    latencies.sort()
    return ReadFigures(records, again, pause, quantile(latencies, 0.5), quantile(latencies, 0.99))


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least ``share`` of the sorted values do not exceed.

    Returns 0 if there are none.
    """
    if not ordered:
        return 0.0
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]


def bursts(times: Sequence[float], since: float) -> int:
    """Return the number of bursts in sorted times: of changes that belong to one rebalance."""
    count, last = 0, since
    for at in times:
        if at >= since:
            count += not count or at - last > BURST_SECONDS
            last = at
    return count
