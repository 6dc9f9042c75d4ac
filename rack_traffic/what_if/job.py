"""The scenarios over all groups, spread over Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from assignors import Member
from placement_core import TopicPartition
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import WHAT_IF
from rack_traffic.what_if.figures import figures
from rack_traffic.what_if.inputs import KEY
from rack_traffic.what_if.model import GroupCase, PartitionCase
from rack_traffic.what_if.scenarios import outcomes

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
