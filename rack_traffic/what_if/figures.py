"""What a scenario is worth: locality, bytes, money, spread of load, moves."""

from __future__ import annotations

from collections import Counter

from placement_core import TopicPartition
from rack_traffic.prices import GB, PriceTable, crossed_level
from rack_traffic.what_if.model import Figures, GroupCase, Outcome

HOURS_PER_MONTH = 730.0


def figures(case: GroupCase, outcome: Outcome, now: Outcome, prices: PriceTable) -> Figures:
    """The figures of ``outcome`` where the group is as in ``now``."""
    rack = {member.id: member.rack for member in case.members}
    known: dict[tuple[str | None, str | None], tuple[int | None, float]] = {}
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    loads = {member.id: 0 for member in case.members}
    read = {member.id: 0 for member in case.members}
    cost = 0.0
    for partition, each in case.partitions.items():
        member = outcome.owner.get(partition)
        pair = (outcome.source[partition], rack.get(member) if member is not None else None)
        if pair not in known:
            price = prices.price(case.cluster, *pair)
            known[pair] = (crossed_level(*pair), (price or 0.0) / GB)
        level, per_byte = known[pair]
        place = "unknown" if level is None else "crossing" if level else "local"
        counts[place] += 1
        sizes[place] += each.bytes
        cost += each.bytes * per_byte
        if member is not None:
            loads[member] += 1
            read[member] += each.bytes
    return Figures(
        scenario=outcome.scenario,
        assignor=outcome.assignor,
        members=len(case.members),
        partitions=len(case.partitions),
        off_rack_partitions=counts["crossing"],
        unknown_partitions=counts["unknown"],
        bytes=sum(sizes.values()),
        local_bytes=sizes["local"],
        crossing_bytes=sizes["crossing"],
        unknown_bytes=sizes["unknown"],
        cost=cost,
        cost_per_month=cost / case.hours * HOURS_PER_MONTH if case.hours else 0.0,
        most_partitions=max(loads.values()),
        least_partitions=min(loads.values()),
        most_bytes=max(read.values()),
        mean_bytes=sum(read.values()) / len(read),
        moves=_moves(outcome, now),
        leader_moves=outcome.leader_moves,
        shared_topics=case.shared_topics,
    )


def _moves(outcome: Outcome, now: Outcome) -> int:
    """Partitions that somebody owns now, and somebody else then."""

    def taken(partition: TopicPartition, owner: str) -> bool:
        return outcome.owner.get(partition) != owner

    return sum(taken(partition, owner) for partition, owner in now.owner.items())
