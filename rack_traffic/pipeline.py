"""The transforms in their order: from checked snapshots to the two tables of traffic."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rack_traffic.options import Beliefs
from rack_traffic.schemas import PARTITION_HOURS
from rack_traffic.transforms.broker_racks import broker_racks
from rack_traffic.transforms.client_reports import reported_hours, with_reports
from rack_traffic.transforms.commit_intervals import commit_intervals
from rack_traffic.transforms.consumption import consumption
from rack_traffic.transforms.log_growth import appended
from rack_traffic.transforms.ownership import owners
from rack_traffic.transforms.partition_states import partition_states
from rack_traffic.transforms.split_by_hour import hourly_pieces, summed

_SERIES = ("cluster", "group", "topic", "partition")
_WRITTEN = ("cluster", "topic", "partition", "kind")


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The tables of snapshots, all rows of which keep their contracts."""

    brokers: DataFrame
    partitions: DataFrame
    members: DataFrame
    commits: DataFrame
    client_reports: DataFrame | None = None


def partition_hours(snapshots: Snapshots, beliefs: Beliefs) -> DataFrame:
    """The table PARTITION_HOURS: consumption, replication and produce traffic."""
    racks = broker_racks(snapshots.brokers)
    states = partition_states(snapshots.partitions, racks)
    consumed = consumed_hours(snapshots, states, beliefs)
    if snapshots.client_reports is not None:
        consumed = with_reports(consumed, reported_hours(snapshots.client_reports))
    written = summed(hourly_pieces(appended(states, racks, beliefs), _WRITTEN), _WRITTEN)
    return consumed.unionByName(_as_hours(written))


def consumed_hours(snapshots: Snapshots, states: DataFrame, beliefs: Beliefs) -> DataFrame:
    """The rows of PARTITION_HOURS for what groups read, estimated from commits alone."""
    intervals = commit_intervals(snapshots.commits, states, owners(snapshots.members))
    read = consumption(intervals, beliefs)
    return _as_hours(summed(hourly_pieces(read, _SERIES), _SERIES), kind="consume")


def _as_hours(sums: DataFrame, **given: str) -> DataFrame:
    """``sums`` with the columns of PARTITION_HOURS: those that are ``given``, and nothing."""
    known: dict[str, object] = {"group": None, "reported_bytes": 0, **given}
    return sums.select(
        *(
            (F.col(each.name) if each.name in sums.columns else F.lit(known[each.name]))
            .cast(each.dataType)
            .alias(each.name)
            for each in PARTITION_HOURS
        )
    )
