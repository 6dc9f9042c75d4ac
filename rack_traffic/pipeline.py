"""The order of the transforms: from valid snapshots to the tables PARTITION_HOURS and HOURLY.

Transforms are pure; the two jobs that have to run before a table can be computed are started here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rack_traffic.options import EstimationOptions
from rack_traffic.prices import PriceTable, crossed_level
from rack_traffic.schemas import PARTITION_HOURS
from rack_traffic.transforms.broker_racks import broker_racks, replica_selectors
from rack_traffic.transforms.collectors import one_collector, several_collectors
from rack_traffic.transforms.commit_intervals import commit_intervals
from rack_traffic.transforms.consumption import consumption
from rack_traffic.transforms.hours import (
    PRICE_KEY,
    hourly,
    rack_pairs,
    split_by_hour,
    sum_by_hour,
)
from rack_traffic.transforms.log_growth import log_growth
from rack_traffic.transforms.ownership import ownership_events
from rack_traffic.transforms.partition_states import PARTITION, partition_states
from rack_traffic.transforms.writer_racks import measured_racks
from rack_traffic.writers import Writers

_CONSUMED_KEYS = ("cluster", "group", "topic", "partition")
_APPENDED_KEYS = ("cluster", "topic", "partition", "kind")


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The snapshot tables; all rows are valid."""

    brokers: DataFrame
    partitions: DataFrame
    members: DataFrame
    commits: DataFrame


def partition_hours(snapshots: Snapshots, estimation: EstimationOptions) -> DataFrame:
    """Return the table PARTITION_HOURS: consumption, replication and produce traffic.

    Runs a job that looks for clusters with several collectors: there usually are none.
    """
    if not several_collectors(snapshots.partitions).isEmpty():
        snapshots = replace(
            snapshots,
            partitions=one_collector(snapshots.partitions, PARTITION),
            members=one_collector(snapshots.members, ("cluster", "group")),
            commits=one_collector(snapshots.commits, _CONSUMED_KEYS),
        )
    racks = broker_racks(snapshots.brokers)
    states = partition_states(snapshots.partitions, racks, replica_selectors(snapshots.brokers))
    intervals = commit_intervals(snapshots.commits, states, ownership_events(snapshots.members))
    consumed = _sum_by_hour(consumption(intervals, estimation), _CONSUMED_KEYS, kind="consume")
    appended = _sum_by_hour(log_growth(states, racks, estimation), _APPENDED_KEYS, group=None)
    return consumed.unionByName(appended)


PriceKey = tuple[str, str, str | None, str | None]
"""Values of PRICE_KEY."""

_PRICED_PAIRS = pa.schema(
    [
        *((name, pa.string()) for name in PRICE_KEY),
        ("crossed_level", pa.int32()),
        ("price_per_gb", pa.float64()),
    ]
)


def priced_hours(
    partition_hours: DataFrame,
    prices: PriceTable,
    writers: Writers,
    flows: DataFrame | None = None,
) -> DataFrame:
    """Return the table HOURLY from rows of PARTITION_HOURS, and of FLOWS_HOURLY if there are flows.

    Both are read twice: jobs collect their pairs of racks, of which there are few.
    """
    pairs = {tuple(pair) for pair in rack_pairs(partition_hours).collect()}
    declared = {rack for shares in writers.shares.values() for rack in shares}
    racks_of: dict[str, set[str]] = {}
    for cluster, _, _, rack in pairs:
        racks_of.setdefault(cluster, {*declared}).add(rack)
    measured = None
    if flows is not None:
        measured = measured_racks(flows)
        named = measured.select("cluster", F.explode("measured.rack").alias("rack")).distinct()
        for cluster, rack in named.filter("rack is not null").collect():
            racks_of.setdefault(cluster, {*declared}).add(rack)
    keys = {
        (cluster, kind, source, rack)
        for cluster, kind, known, rack in pairs
        for source in (racks_of[cluster] if known is None and kind == "produce" else [known])
    }
    priced = partition_hours.sparkSession.createDataFrame(priced_pairs(keys, prices))
    return hourly(partition_hours, writers, measured, priced)


def priced_pairs(keys: Iterable[PriceKey], prices: PriceTable) -> pa.Table:
    """Return the columns PRICE_KEY, ``crossed_level`` and ``price_per_gb`` of each of ``keys``."""
    rows = [
        {
            **dict(zip(PRICE_KEY, key, strict=True)),
            "crossed_level": crossed_level(*key[2:]),
            "price_per_gb": prices.price(key[0], *key[2:], kind=key[1]),
        }
        for key in keys
    ]
    return pa.Table.from_pylist(rows, _PRICED_PAIRS)


def _sum_by_hour(intervals: DataFrame, keys: tuple[str, ...], **constants: str | None) -> DataFrame:
    """Return ``intervals`` as rows of PARTITION_HOURS with ``constants`` for missing columns."""
    sums = sum_by_hour(split_by_hour(intervals, keys), keys)
    with_constants = sums.withColumns({name: F.lit(it) for name, it in constants.items()})
    return with_constants.select(
        *(F.col(column.name).cast(column.dataType) for column in PARTITION_HOURS)
    )
