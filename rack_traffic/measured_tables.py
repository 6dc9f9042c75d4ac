"""Writing the tables of measured hours, which the batch job and the stream do alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from rack_traffic.options import FlowOptions
from rack_traffic.pipeline import Snapshots, flow_hours, with_measured
from rack_traffic.prices import PriceTable
from rack_traffic.transforms.flows import records_of_brokers
from rack_traffic.transforms.measured import covered_hours, measured_kinds


@dataclass(frozen=True, slots=True)
class MeasuredInput:
    """Valid flow records, listeners and snapshots, and the estimate of the same hours (rows of
    HOURLY)."""

    records: DataFrame
    listeners: DataFrame
    snapshots: Snapshots
    estimated: DataFrame


def write_measured(
    given: MeasuredInput,
    flows: FlowOptions,
    prices: PriceTable,
    replace: Callable[[DataFrame, str], DataFrame],
) -> DataFrame:
    """Write the tables ``flows_hourly``, ``hourly`` and ``replaced_hourly``; return the first.

    ``replace`` replaces the hours that are computed in the table of a name by those among the given
    rows, and returns them as written.
    """
    with flow_hours(given.records, given.listeners, given.snapshots, flows) as hours:
        # Read back, so that Spark does not compute them again.
        written = replace(hours, "flows_hourly")
    of_brokers = records_of_brokers(given.records, given.listeners, flows.brokers)
    kinds = measured_kinds(written, covered_hours(of_brokers, given.snapshots.brokers)).persist()
    try:
        hourly, replaced = with_measured(given.estimated, written, kinds, prices)
        replace(hourly, "hourly")
        replace(replaced, "replaced_hourly")
    finally:
        kinds.unpersist()
    return written
