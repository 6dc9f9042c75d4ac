"""The scenarios over all groups, spread over Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from assignors import Member
from placement_core import TopicPartition
from rack_traffic.prices import GB, PriceTable, crossed_level
from rack_traffic.schemas import WHAT_IF
from rack_traffic.what_if.assignments import outcomes
from rack_traffic.what_if.inputs import KEY, Figures, GroupCase, Outcome, PartitionCase

# ---- What a scenario is worth: locality, bytes, money, spread of load, moves.

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


Row = Mapping[str, Any]


def what_if(inputs: DataFrame, prices: PriceTable) -> DataFrame:
    """The table WHAT_IF from rows of :func:`~rack_traffic.what_if.inputs.group_inputs`."""
    return inputs.groupBy(*KEY).applyInArrow(_evaluate(prices), WHAT_IF)


def _evaluate(prices: PriceTable) -> Callable[[pa.Table], pa.Table]:
    def evaluate(table: pa.Table) -> pa.Table:
        found = [each for row in table.to_pylist() for each in rows_of(row, prices)]
        return pa.Table.from_pylist(found, to_arrow_schema(WHAT_IF))

    return evaluate


def rows_of(row: Row, prices: PriceTable) -> list[dict[str, Any]]:
    """The rows of WHAT_IF of one group and interval; none where no member reads anything."""
    case = case_of(row)
    if not case.partitions:
        return []
    found = outcomes(case)
    common = {
        "cluster": case.cluster,
        "group": case.group,
        "interval_start": max(row["interval_start"], row["first_hour"]),
        "interval_end": row["interval_end"],
    }
    return [common | asdict(figures(case, each, found[0], prices)) for each in found]


def case_of(row: Row) -> GroupCase:
    """The pure value of a row of inputs."""
    amounts = {(each["topic"], each["partition"]): each["bytes"] for each in row["amounts"]}
    partitions = {
        TopicPartition(topic["topic"], each["partition"]): PartitionCase(
            each["leader"],
            tuple(each["replicas"]),
            tuple(each["isr"] or ()),
            amounts.get((topic["topic"], each["partition"]), 0),
        )
        for topic in sorted(row["topics"], key=lambda topic: str(topic["topic"]))
        for each in sorted(topic["partitions"], key=lambda each: int(each["partition"]))
    }
    members = tuple(
        Member(
            id=each["member_id"],
            topics=frozenset(each["topics"] or ()),
            rack=each["rack"],
            instance_id=each["instance_id"],
            owned={held["topic"]: held["partitions"] for held in each["assignment"] or ()},
            generation=0,
        )
        for each in sorted(row["members"], key=lambda each: str(each["member_id"]))
    )
    return GroupCase(
        cluster=row["cluster"],
        group=row["group"],
        assignor=row["protocol"] or "",
        hours=row["hours"],
        members=members,
        partitions=partitions,
        racks={each["broker"]: each["rack"] for each in row["brokers"]},
        shared_topics=row["shared_topics"],
    )
