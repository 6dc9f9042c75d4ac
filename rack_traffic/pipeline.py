"""The order of the transforms: from valid snapshots to the tables PARTITION_HOURS and HOURLY.

Transforms are pure; the two jobs that have to run before a table can be computed are started here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rack_traffic.options import EstimationOptions, FlowOptions
from rack_traffic.prices import PriceTable, crossed_level
from rack_traffic.schemas import HOURLY, PARTITION_HOURS
from rack_traffic.transforms.broker_racks import broker_racks, replica_selectors
from rack_traffic.transforms.collectors import one_collector, several_collectors
from rack_traffic.transforms.commit_intervals import commit_intervals
from rack_traffic.transforms.consumption import consumption
from rack_traffic.transforms.flows import located_flows, measured_flows, records_of_brokers
from rack_traffic.transforms.hours import (
    PRICE_KEY,
    hourly,
    rack_pairs,
    split_by_hour,
    sum_by_hour,
    with_cost,
)
from rack_traffic.transforms.log_growth import log_growth
from rack_traffic.transforms.measured import (
    KIND_HOUR,
    covered_hours,
    divided_flows,
    measured_kinds,
)
from rack_traffic.transforms.ownership import ownership_events
from rack_traffic.transforms.partition_states import PARTITION, partition_states
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


def priced_hours(partition_hours: DataFrame, prices: PriceTable, writers: Writers) -> DataFrame:
    """Return the table HOURLY from rows of PARTITION_HOURS.

    They are read twice: a job collects their pairs of racks, of which there are few.
    """
    pairs = {tuple(pair) for pair in rack_pairs(partition_hours).collect()}
    declared = {rack for shares in writers.shares.values() for rack in shares}
    racks_of: dict[str, set[str]] = {}
    for cluster, _, _, rack in pairs:
        racks_of.setdefault(cluster, {*declared}).add(rack)
    keys = {
        (cluster, kind, source, rack)
        for cluster, kind, known, rack in pairs
        for source in (racks_of[cluster] if known is None and kind == "produce" else [known])
    }
    priced = partition_hours.sparkSession.createDataFrame(priced_pairs(keys, prices))
    return hourly(partition_hours, writers, priced)


# ---- Measured flows.


@dataclass(frozen=True, slots=True)
class FlowInput:
    """Valid flow records, and the valid snapshots that they are joined with."""

    records: DataFrame
    listeners: DataFrame
    brokers: DataFrame
    members: DataFrame
    options: FlowOptions

    def of_brokers(self) -> DataFrame:
        """Return the records with a broker at one end; see `flows.records_of_brokers`."""
        return records_of_brokers(self.records, self.listeners, self.options.brokers)


@contextmanager
def flow_hours(given: FlowInput) -> Iterator[DataFrame]:
    """Yield the table FLOWS_HOURLY for the ``with`` block; its input is computed once.

    A job collects the addresses of clients, whose racks the options have.
    """
    measured = measured_flows(given.of_brokers(), given.members, broker_racks(given.brokers))
    measured.persist()
    try:
        clients = [row["client"] for row in measured.select("client").distinct().collect()]
        networks = measured.sparkSession.createDataFrame(
            [(client, given.options.rack_of(client)) for client in sorted(clients)],
            "client string, network_rack string",
        )
        yield located_flows(measured, networks)
    finally:
        measured.unpersist()


def write_measured(
    given: FlowInput,
    estimated: DataFrame,
    prices: PriceTable,
    replace: Callable[[DataFrame, str], DataFrame],
) -> DataFrame:
    """Write the tables ``flows_hourly``, ``hourly`` and ``replaced_hourly``; return the first.

    ``estimated`` are rows of HOURLY, of the same hours as the records. ``replace`` replaces the
    hours that are computed in the table of a name by those among the given rows, and returns them
    as written.
    """
    with flow_hours(given) as hours:
        # Read back, so that Spark does not compute them again.
        written = replace(hours, "flows_hourly")
    covered = covered_hours(given.of_brokers(), given.brokers)
    kinds = measured_kinds(written, covered).persist()
    try:
        hourly, replaced = with_measured(estimated, written, kinds, prices)
        replace(hourly, "hourly")
        replace(replaced, "replaced_hourly")
    finally:
        kinds.unpersist()
    return written


def with_measured(
    estimated: DataFrame, flows: DataFrame, kinds: DataFrame, prices: PriceTable
) -> tuple[DataFrame, DataFrame]:
    """Return the tables HOURLY and REPLACED_HOURLY from estimated rows of HOURLY and measured rows
    of FLOWS_HOURLY.

    ``kinds`` is the result of `measured_kinds`. A job collects the pairs of racks.
    """
    of_kinds = list(KIND_HOUR)
    replaced = estimated.join(kinds, of_kinds, how="left_semi")
    divided = divided_flows(flows.join(kinds, of_kinds, how="left_semi"), replaced)
    known = F.col("from_rack").isNotNull() & F.col("to_rack").isNotNull()
    pairs = divided.filter(known).select(*PRICE_KEY).distinct().collect()
    priced = estimated.sparkSession.createDataFrame(priced_pairs(map(tuple, pairs), prices))
    zero = {"estimated_bytes": F.lit(0), "unsized_offsets": F.lit(0)}
    measured = with_cost(divided.withColumns(zero), priced)
    kept = estimated.join(kinds, of_kinds, how="left_anti").select(*HOURLY.names)
    return kept.unionByName(measured), replaced.select(*HOURLY.names)


def priced_pairs(keys: Iterable[PriceKey], prices: PriceTable) -> pa.Table:
    """Return the columns PRICE_KEY, ``crossed_level`` and ``price_per_gb`` of each of ``keys``."""
    priced = (
        (*key, crossed_level(*key[2:]), prices.price(key[0], *key[2:], kind=key[1])) for key in keys
    )
    rows = [dict(zip(_PRICED_PAIRS.names, values, strict=True)) for values in priced]
    return pa.Table.from_pylist(rows, _PRICED_PAIRS)


def _sum_by_hour(intervals: DataFrame, keys: tuple[str, ...], **constants: str | None) -> DataFrame:
    """Return ``intervals`` as rows of PARTITION_HOURS with ``constants`` for missing columns."""
    sums = sum_by_hour(split_by_hour(intervals, keys), keys)
    with_constants = sums.withColumns({name: F.lit(it) for name, it in constants.items()})
    return with_constants.select(
        *(F.col(column.name).cast(column.dataType) for column in PARTITION_HOURS)
    )
