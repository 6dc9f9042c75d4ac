"""The order of the transforms: from valid snapshots to the table PARTITION_HOURS."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rack_traffic.options import EstimationOptions
from rack_traffic.schemas import PARTITION_HOURS
from rack_traffic.transforms.collectors import one_collector, several_collectors
from rack_traffic.transforms.commit_intervals import commit_intervals, ownership_events
from rack_traffic.transforms.consumption import consumption, log_growth
from rack_traffic.transforms.hourly import split_by_hour, sum_by_hour
from rack_traffic.transforms.partition_states import (
    PARTITION,
    broker_racks,
    partition_states,
    replica_selectors,
)

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
    """Return the table PARTITION_HOURS: consumption, replication and produce traffic."""
    if several_collectors(snapshots.partitions):
        snapshots = replace(
            snapshots,
            partitions=one_collector(snapshots.partitions, PARTITION),
            members=one_collector(snapshots.members, ("cluster", "group")),
            commits=one_collector(snapshots.commits, _CONSUMED_KEYS),
        )
    racks = broker_racks(snapshots.brokers)
    states = partition_states(snapshots.partitions, racks, replica_selectors(snapshots.brokers))
    consumed = consumed_hours(snapshots, states, estimation)
    growth = log_growth(states, racks, estimation)
    appended = sum_by_hour(split_by_hour(growth, _APPENDED_KEYS), _APPENDED_KEYS)
    return consumed.unionByName(_with_all_columns(appended))


def consumed_hours(
    snapshots: Snapshots, states: DataFrame, estimation: EstimationOptions
) -> DataFrame:
    """Return the rows of PARTITION_HOURS of kind ``consume``, estimated from commits alone."""
    intervals = commit_intervals(snapshots.commits, states, ownership_events(snapshots.members))
    consumed = split_by_hour(consumption(intervals, estimation), _CONSUMED_KEYS)
    return _with_all_columns(sum_by_hour(consumed, _CONSUMED_KEYS), kind="consume")


def _with_all_columns(sums: DataFrame, **constants: str) -> DataFrame:
    """Return ``sums`` in the columns of PARTITION_HOURS, with ``constants`` for those it lacks."""
    defaults: dict[str, object] = {"group": None, **constants}
    return sums.select(
        *(
            (F.col(each.name) if each.name in sums.columns else F.lit(defaults[each.name]))
            .cast(each.dataType)
            .alias(each.name)
            for each in PARTITION_HOURS
        )
    )
